//! Reads reject lists: those that the sink of the stack wrote as files or objects, or one that an operator fetched.

use std::fs;
use std::path::Path;

use aws::Sdk;
use protocol::batch::BatchRecord;
use protocol::ids::{BatchId, Seq};
use serde::Deserialize;
use shared::message_attributes::AttributeMap;
use sinks::{RejectStore, reject_store};

use crate::failure::Failure;

/// A rejected record, as a line of a reject list: the sinks' format `envelope` with a reason.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RejectLine {
    pub batch_id: BatchId,
    pub part: usize,
    pub seq: Seq,
    pub event_id: String,
    pub body: String,
    #[serde(default)]
    pub attributes: AttributeMap,
    pub reason: String,
}

#[derive(Debug)]
pub enum RejectLists {
    /// In files or objects.
    Stored(RejectStore),
    /// Lines that an operator fetched.
    Lines(Vec<RejectLine>),
    /// Where this command cannot read them: says where, and how to fetch them.
    Elsewhere(&'static str),
}

impl RejectLists {
    /// Returns where the sink of a stack writes its reject lists. `sink` is `SINK`, `rejects` is `SINK_REJECTS`.
    pub fn of(sdk: &Sdk, sink: Option<&str>, rejects: Option<&str>) -> RejectLists {
        let store = reject_store(sdk, sink.unwrap_or_default(), rejects);
        store.map_or_else(RejectLists::Elsewhere, RejectLists::Stored)
    }

    /// Reads a file with the lines of one list or several.
    ///
    /// # Errors
    /// The file cannot be read, or a line of it is not one of a reject list.
    pub fn of_file(path: &Path) -> Result<RejectLists, Failure> {
        let name = path.display().to_string();
        let text = fs::read_to_string(path).map_err(Failure::file(path))?;
        Ok(RejectLists::Lines(lines(&name, &text)?))
    }

    /// Returns the lines of the reject list of a part; if this command cannot read it, why in words.
    ///
    /// # Errors
    /// The list is there and cannot be read.
    pub async fn read(
        &self,
        record: &BatchRecord,
        part: usize,
    ) -> Result<Result<Vec<RejectLine>, String>, Failure> {
        match self {
            RejectLists::Elsewhere(words) => Ok(Err((*words).to_owned())),
            RejectLists::Lines(lines) => {
                let of_part =
                    |line: &&RejectLine| (line.batch_id, line.part) == (record.batch_id, part);
                Ok(Ok(lines.iter().filter(of_part).cloned().collect()))
            }
            RejectLists::Stored(store) => {
                let read = store.read(record.batch_id, record.batch_key.as_ref(), part);
                let failed = |words: String| {
                    let key = format!("{}/{part}", record.batch_id);
                    Failure::Sink(format!("reject list of part `{key}`: {words}"))
                };
                let Some(bytes) = read.await.map_err(|error| failed(error.to_string()))? else {
                    return Ok(Err("gone: the list was removed".to_owned()));
                };
                let text = String::from_utf8(bytes).map_err(|error| failed(error.to_string()))?;
                let name = format!("reject list of part {}/{part}", record.batch_id);
                Ok(Ok(lines(&name, &text)?))
            }
        }
    }
}

fn lines(name: &str, text: &str) -> Result<Vec<RejectLine>, Failure> {
    let lines = text.lines().enumerate();
    let lines = lines.filter(|(_, line)| !line.trim().is_empty());
    let line = |(index, line)| {
        serde_json::from_str(line).map_err(|error| {
            let number = index + 1;
            Failure::Usage(format!(
                "`{name}`, line {number}: not a line of a reject list: {error}"
            ))
        })
    };
    lines.map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_where_its_sink_writes_it_or_words_say_how_to_fetch_it() {
        let sdk = Sdk::from_env(1);
        let of = |sink, rejects| RejectLists::of(&sdk, Some(sink), rejects);
        for (sink, rejects) in [
            ("file:///out", None),
            ("s3://bucket/p", Some("file:///other")),
            ("https://h/p", Some("file:///out")),
            (
                "arn:aws:lambda:eu-west-1:1:function:f",
                Some("s3://bucket/p"),
            ),
        ] {
            let lists = of(sink, rejects);
            assert!(matches!(lists, RejectLists::Stored(_)), "{sink}: {lists:?}");
        }
        for (sink, words) in [
            ("postgres://u@h/d", "table of rejects"),
            ("sftp://u@h/p", "SFTP server"),
            ("https://h/p", "does not say"),
        ] {
            let RejectLists::Elsewhere(found) = of(sink, None) else {
                panic!("{sink}");
            };
            assert!(found.contains(words), "{found}");
        }
    }

    #[test]
    fn a_line_that_is_not_of_a_reject_list_is_named() {
        let good = r#"{"batchId":"0190163d-8694-739b-aea5-966c26f8ad91","part":2,"seq":7,"eventId":"e","sqsMessageId":"m","source":"arn:q","sentAt":7,"body":"b","reason":"no"}"#;
        let read = lines("list", &format!("{good}\n\n")).unwrap();
        assert_eq!((read[0].part, read[0].seq, &*read[0].reason), (2, 7, "no"));
        let error = lines("list", &format!("{good}\n{{}}\n")).unwrap_err();
        let words = error.to_string();
        let expected = "`list`, line 2: not a line of a reject list: missing field";
        assert!(words.starts_with(expected), "{words}");
    }
}
