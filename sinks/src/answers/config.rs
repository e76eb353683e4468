//! The settings of answers.

use std::time::Duration;

use forms::AnswerForm;
use shared::config::{Number, Reader, Text, Unset, Variable};

use crate::place::FilePlace;

const ANSWERS_FROM: Variable<Text> = Variable {
    name: "ANSWERS_FROM",
    key: Some("answers.from"),
    value: Text {
        unset: Unset::Nothing,
        allowed: "`file:///directory`, `s3://bucket/prefix`, or `sftp:/directory` on the server of `SINK`",
    },
    meaning: "Where the answers of the consumer are. The sweep reads them; rejected events go to the quarantine.",
};
const ANSWERS_FORM: Variable<Text> = Variable {
    name: "ANSWERS_FORM",
    key: Some("answers.form"),
    value: Text {
        unset: Unset::Default("{}"),
        allowed: "a JSON object such as `{\"format\":\"csv\",\"fields\":{\"part\":\"BATCH\",\"result\":\"STATUS\"}}`: docs/answers.md",
    },
    meaning: "How answers are written: their format, where the fields are, and which results accept and reject an event.",
};
const ANSWERS_WITHIN: Variable<Number<u64>> = Variable {
    name: "ANSWERS_WITHIN",
    key: Some("answers.within"),
    value: Number {
        unit: "seconds",
        default: 4 * 3_600,
        min: 60,
        max: 10 * 24 * 3_600,
    },
    meaning: "How long after the delivery of a part an answer about each of its events is expected.",
};

/// The configuration of answers.
#[derive(Clone, Debug)]
pub struct AnswersConfig {
    /// `ANSWERS_FROM`.
    pub from: AnswersFrom,
    /// `ANSWERS_FORM`.
    pub form: AnswerForm,
    /// How long answers are awaited.
    pub within: Duration,
}

/// Where answers come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AnswersFrom {
    /// A directory or a prefix.
    Place(FilePlace),
    /// A directory on the server of the sink.
    OnServer(String),
}

impl AnswersConfig {
    /// Reads the settings. `has_server` says whether the sink has a server with directories.
    pub(crate) fn read(reader: &mut Reader<'_>, has_server: bool) -> Option<AnswersConfig> {
        let from = reader.text_with(&ANSWERS_FROM, from);
        let form = reader.text_with(&ANSWERS_FORM, str::parse);
        let within = Duration::from_secs(reader.number(&ANSWERS_WITHIN));
        let needs_server = matches!(from, Some(AnswersFrom::OnServer(_)));
        reader.rule(
            "With `ANSWERS_FROM` `sftp:`, `SINK` is `sftp:`.",
            (needs_server && !has_server).then(|| {
                format!("`{ANSWERS_FROM}`: got `sftp:`, but `SINK` is no server of SFTP, expected `file:` or `s3:`")
            }),
        );
        Some(AnswersConfig {
            from: from?,
            form: form?,
            within,
        })
    }
}

fn from(text: &str) -> Result<AnswersFrom, String> {
    let Some(path) = text.strip_prefix("sftp:") else {
        let place = text.parse();
        return place
            .map(AnswersFrom::Place)
            .map_err(|_| format!("expected {}", ANSWERS_FROM.value.allowed));
    };
    let path = path.strip_suffix('/').unwrap_or(path);
    let steps = path.strip_prefix('/').map(|path| path.split('/'));
    let is_path = steps.is_some_and(|mut steps| {
        steps.all(|step| !["", ".", ".."].contains(&step) && !step.contains(char::is_control))
    });
    match is_path {
        true => Ok(AnswersFrom::OnServer(path.to_owned())),
        false => Err("expected `sftp:/directory`, a path on the server of `SINK` without `.`, `..` and empty steps".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_a_directory_a_prefix_or_a_path_on_the_server() {
        for text in ["file:///in", "s3://bucket/answers"] {
            assert!(matches!(from(text), Ok(AnswersFrom::Place(_))), "{text}");
        }
        assert_eq!(
            from("sftp:/in/ack/"),
            Ok(AnswersFrom::OnServer("/in/ack".to_owned()))
        );
        for wrong in [
            "",
            "in",
            "https://q",
            "sftp:in",
            "sftp:/",
            "sftp:/a/../b",
            "sftp://user@host/in",
        ] {
            let error = from(wrong).unwrap_err();
            assert!(error.contains("sftp:/directory"), "{wrong}: {error}");
        }
    }
}
