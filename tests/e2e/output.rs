//! What came out: the files of the sink.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use loadgen::{AuditReport, DuplicateRule, Plan};
use serde::Deserialize;

use crate::rig::Rig;

/// One delivered event.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Line {
    /// Its event id.
    pub event_id: String,
    /// Its batch.
    pub batch_id: String,
    /// The message that carried it.
    pub sqs_message_id: String,
    /// Its body.
    pub body: String,
}

impl Rig {
    /// Everything that was delivered, by event id.
    pub fn delivered(&self) -> Vec<Line> {
        delivered(&self.stack.out)
    }

    /// The event ids that were delivered, with repetitions.
    pub fn delivered_ids(&self) -> Vec<String> {
        self.delivered()
            .into_iter()
            .map(|line| line.event_id)
            .collect()
    }

    /// The batches that have a part at the sink.
    pub fn delivered_batches(&self) -> BTreeSet<String> {
        self.delivered()
            .into_iter()
            .map(|line| line.batch_id)
            .collect()
    }

    /// Audits what was delivered.
    ///
    /// # Panics
    /// With the report, unless every event came out as often as the rule says.
    pub fn audit(&self, plan: &Plan, rule: DuplicateRule) -> AuditReport {
        let manifests = self.stack.sink_report().kind.manifests();
        let report = loadgen::audit(&self.stack.out, plan, rule, manifests);
        let report = report.expect("the output can be read");
        assert!(report.ok(), "{report:#?}");
        report
    }
}

/// Everything below `out`, by event id. A directory that is not there holds nothing.
pub fn delivered(out: &Path) -> Vec<Line> {
    let mut lines = Vec::new();
    for below in entries(out) {
        // With a batch key there is a step more.
        if below.is_dir() {
            lines.extend(delivered(&below));
        } else {
            let part = below;
            // What a killed process left half-written is hidden, and nobody's business.
            if part
                .extension()
                .is_some_and(|extension| extension == "jsonl")
            {
                let text = fs::read_to_string(&part).expect("a part can be read");
                lines.extend(self::lines(&text));
            }
        }
    }
    lines.sort();
    lines
}

/// The events of a part.
pub fn lines(text: &str) -> impl Iterator<Item = Line> {
    let line = |line| serde_json::from_str(line).expect("every line is an envelope");
    text.lines().map(line)
}

fn entries(directory: &Path) -> Vec<std::path::PathBuf> {
    match fs::read_dir(directory) {
        Ok(entries) => entries
            .map(|entry| entry.expect("the directory can be read").path())
            .collect(),
        Err(_) => Vec::new(),
    }
}

/// Event ids in the order in which [`Rig::delivered_ids`] answers them.
pub fn sorted<T: Into<String>>(ids: impl IntoIterator<Item = T>) -> Vec<String> {
    let mut ids: Vec<String> = ids.into_iter().map(Into::into).collect();
    ids.sort();
    ids
}
