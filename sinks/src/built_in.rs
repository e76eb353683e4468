//! The list of the built-in sinks. To add one, write its module and add its kind here.

use async_trait::async_trait;
use aws::Sdk;
use shared::config::{FULL, Text, Unset, Variable, WITHOUT_FULL};

#[cfg(feature = "full")]
use crate::answers::AnswerObjects;
use crate::answers::{AnswerDirectory, AnswerPlace, AnswersFrom};
use crate::kind::{Kind, RejectLists, SinkConfig};
use crate::place::FilePlace;
use crate::rejects::RejectStore;
use crate::sink::{Receipt, Sink, SinkError};
use crate::{file, http, log};
#[cfg(feature = "full")]
use crate::{lambda, postgres, s3, sftp, states};
use forms::Part;

/// Every kind of destination.
#[cfg(feature = "full")]
pub(crate) const KINDS: &[Kind] = &[
    file::KIND,
    s3::KIND,
    http::KIND,
    postgres::KIND,
    sftp::KIND,
    lambda::KIND,
    states::KIND,
    log::KIND,
];
#[cfg(not(feature = "full"))]
pub(crate) const KINDS: &[Kind] = &[file::KIND, http::KIND, log::KIND];

const SINK_URIS: &str = "`file:///directory`, `s3://bucket/prefix`, `https://host/path`, `postgres://user@host/database`, \
                         `sftp://user@host/path`, the ARN of a Lambda function or of a state machine, or `log:`, which delivers nowhere";

/// The sink that batches are delivered to.
pub const SINK: Variable<Text> = Variable {
    name: "SINK",
    key: Some("sink.uri"),
    value: Text {
        unset: Unset::Refused,
        allowed: SINK_URIS,
    },
    meaning: "Where batches go. `log:` counts them and delivers nowhere: it is for trying out. docs/sinks.md describes the others.",
};

/// Returns the kind of a URI, and the URI as fingerprints have it.
pub(crate) fn parse(uri: &str) -> Result<(&'static Kind, String), String> {
    let kind = KINDS.iter().find(|kind| (kind.is_named)(uri));
    let kind = kind.ok_or_else(|| match FULL {
        true => format!("expected {SINK_URIS}"),
        false => format!("expected {SINK_URIS}; {WITHOUT_FULL}"),
    })?;
    Ok((kind, (kind.check)(uri)?))
}

/// Returns the names of the settings that only built-in sinks read, without that of [`SINK`].
pub fn own_settings() -> Vec<&'static str> {
    let settings = KINDS.iter().flat_map(|kind| kind.reads);
    let mut names = Vec::from_iter(settings.map(|setting| setting.description().name));
    names.sort_unstable();
    names.dedup();
    names
}

/// Returns the store of the reject lists of a sink; `sink` is `SINK`, and `rejects` is `SINK_REJECTS`.
///
/// # Errors
/// Says how an operator fetches the lists, which the service cannot read.
pub fn reject_store(
    sdk: &Sdk,
    sink: &str,
    rejects: Option<&str>,
) -> Result<RejectStore, &'static str> {
    let kind = KINDS.iter().find(|kind| (kind.is_named)(sink));
    let place = match kind.map(|kind| &kind.reject_lists) {
        Some(RejectLists::BesideParts) => Some(sink),
        Some(RejectLists::Fetched(words)) => return Err(words),
        Some(RejectLists::Store) | None => rejects,
    };
    let place = place.and_then(|text| text.parse().ok());
    place
        .map(|place| RejectStore::new(sdk, &place))
        .ok_or("where the stack does not say (`SINK_REJECTS`): fetch it, for `--list FILE`")
}

/// Returns the place where answers come from, if they are read.
///
/// # Errors
/// The server of the sink is not configured.
pub fn answer_place(
    config: &SinkConfig,
    sdk: &Sdk,
) -> Result<Option<Box<dyn AnswerPlace>>, String> {
    let Some(answers) = &config.answers else {
        return Ok(None);
    };
    #[cfg(not(feature = "full"))]
    let _ = sdk;
    Ok(Some(match &answers.from {
        AnswersFrom::Place(FilePlace::Directory(directory)) => Box::new(AnswerDirectory {
            directory: directory.clone(),
        }),
        #[cfg(feature = "full")]
        AnswersFrom::Place(FilePlace::Bucket(place)) => Box::new(AnswerObjects::new(sdk, place)),
        AnswersFrom::OnServer(path) => {
            let make = config.make.answers.as_ref();
            let make = make.ok_or("the sink has no server with answers")?;
            make(config, sdk, path)?
        }
    }))
}

/// A built-in sink, with the fingerprint of its configuration.
pub struct BuiltInSink {
    sink: Box<dyn Sink>,
    fingerprint: String,
    needs_sequence: bool,
    needs_link: bool,
}

impl BuiltInSink {
    /// Makes the sink that the configuration names. Makes no request.
    ///
    /// # Errors
    /// The sink `postgres:` found no trusted certificates on this machine.
    pub fn new(config: &SinkConfig, sdk: &Sdk) -> Result<BuiltInSink, String> {
        Ok(BuiltInSink {
            sink: config.make.sink(config, sdk)?,
            fingerprint: config.fingerprint.clone(),
            needs_sequence: config.rendering.layout.needs_sequence() || config.proof,
            needs_link: config.proof,
        })
    }
}

#[async_trait]
impl Sink for BuiltInSink {
    fn fingerprint(&self) -> String {
        self.fingerprint.clone()
    }

    fn needs_sequence(&self) -> bool {
        self.needs_sequence
    }

    fn needs_link(&self) -> bool {
        self.needs_link
    }

    async fn dry_run(&self) -> Result<(), SinkError> {
        self.sink.dry_run().await
    }

    async fn deliver(&self, part: &Part) -> Result<Receipt, SinkError> {
        self.sink.deliver(part).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uri_is_shown_as_it_was_parsed_and_others_are_refused() {
        for uri in [
            "log:",
            "file:///data/batches",
            "s3://bucket/prefix",
            "https://host/path?x=y",
            "postgresql://user@127.0.0.1:5433/legacy",
            "sftp://legacy@host:2222/in",
            "arn:aws:lambda:eu-west-1:123456789012:function:f",
            "arn:aws:states:eu-west-1:123456789012:stateMachine:m:live",
        ] {
            assert_eq!(parse(uri).ok().unwrap().1, uri);
        }
        for wrong in [
            "",
            "log",
            "log:x",
            "file:",
            "file://host/x",
            "file:///",
            "file:///mnt/../tmp",
            "file:///mnt/batches/..",
            "s3",
            "arn:aws:s3:::bucket",
            "http:",
        ] {
            let error = parse(wrong).err().unwrap();
            assert!(error.contains("file:///directory"), "{wrong}: {error}");
        }
    }

    #[test]
    fn every_kind_is_in_the_list_of_forms() {
        for kind in KINDS {
            let scheme = kind.name.split(['…', ':']).next().unwrap();
            let of_arn = [("arn", "the ARN of a")];
            let form = of_arn.into_iter().find(|(name, _)| *name == scheme);
            let form = form.map_or_else(|| format!("`{scheme}:"), |(_, form)| form.to_owned());
            assert!(SINK_URIS.contains(&form), "{form}");
        }
    }
}
