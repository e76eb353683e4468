//! The output of a run: the files of the sink.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use loadgen::{AuditReport, DuplicateRule, Workload};
use serde::Deserialize;
use serde_json::Value;
use tests::files_below;

use crate::rig::Rig;

/// One delivered event.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Line {
    pub event_id: String,
    pub batch_id: String,
    pub sqs_message_id: String,
    pub body: String,
}

impl Rig {
    /// Returns every delivered event, sorted by event id.
    pub fn delivered(&self) -> Vec<Line> {
        delivered(&self.stack.out)
    }

    /// Returns the delivered event ids, with repetitions.
    pub fn delivered_ids(&self) -> Vec<String> {
        let lines = self.delivered().into_iter();
        lines.map(|line| line.event_id).collect()
    }

    /// Returns the batches of which the sink has a part.
    pub fn delivered_batches(&self) -> BTreeSet<String> {
        let lines = self.delivered().into_iter();
        lines.map(|line| line.batch_id).collect()
    }

    /// Returns whether the sink has a finished part.
    pub fn has_parts(&self) -> bool {
        !self.delivered().is_empty()
    }

    /// Returns the envelopes of all parts, by event id.
    pub fn envelopes(&self) -> BTreeMap<String, Value> {
        let batches = self.delivered_batches();
        let part = |batch: String| {
            let file = self.stack.out.join(batch).join("0.jsonl");
            fs::read_to_string(file).expect("a batch has one part")
        };
        let text: String = batches.into_iter().map(part).collect();
        let lines = text.lines().map(|line| {
            let line: Value = serde_json::from_str(line).expect("every line is an envelope");
            let id = line["eventId"].as_str().expect("it has an id");
            (id.to_owned(), line)
        });
        lines.collect()
    }

    /// Has the sink refuse a batch, by a reject list that it does not expect, and waits until the batch is in error. Returns
    /// the path of the list.
    pub async fn put_in_error(&self, batch: &str) -> PathBuf {
        let directory = self.stack.out.join(batch);
        let obstacle = directory.join("0.rejects");
        fs::create_dir_all(directory).expect("the sink is a directory");
        fs::write(&obstacle, "an obstacle").expect("the sink takes a file");
        self.until_in_error().await;
        obstacle
    }

    /// Audits the delivered events.
    ///
    /// # Panics
    /// With the report, unless every event was delivered as often as the rule demands.
    pub fn audit(&self, workload: &Workload, rule: DuplicateRule) -> AuditReport {
        let manifests = self.stack.sink_report().kind.manifests();
        let report = loadgen::audit(&self.stack.out, workload, rule, manifests);
        let report = report.expect("the output can be read");
        assert!(report.ok(), "{report:#?}");
        report
    }
}

/// Returns every event below `out`, sorted by event id; nothing if the directory does not exist. A hidden file is unfinished: the
/// process that wrote it was killed.
pub fn delivered(out: &Path) -> Vec<Line> {
    let parts = files_below(out, ".jsonl").into_iter();
    let texts = parts.map(|part| fs::read_to_string(part).expect("a part can be read"));
    let text = String::from_iter(texts);
    let mut lines = Vec::from_iter(lines(&text));
    lines.sort();
    lines
}

/// Returns the events of a part.
pub fn lines(text: &str) -> impl Iterator<Item = Line> {
    let line = |line| serde_json::from_str(line).expect("every line is an envelope");
    text.lines().map(line)
}

/// Returns the paths of the manifests below a directory.
pub fn manifests(directory: &Path) -> Vec<PathBuf> {
    files_below(directory, ".manifest.json")
}

/// Reads a manifest, or another file with a JSON value.
pub fn json_of(file: &Path) -> Value {
    let text = fs::read(file).expect("a manifest stays where it is");
    serde_json::from_slice(&text).expect("a manifest is complete JSON")
}

/// Returns event ids in the order of [`Rig::delivered_ids`].
pub fn sorted<T: Into<String>>(ids: impl IntoIterator<Item = T>) -> Vec<String> {
    let mut ids: Vec<String> = ids.into_iter().map(Into::into).collect();
    ids.sort();
    ids
}
