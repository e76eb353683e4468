//! Reads the functions' logs for the times at which a batch-processor first had the lease of each batch. No record keeps them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::SystemTime;

use emulators::lambda::{LogLine, LogSink};
use protocol::ids::BatchId;

use crate::locked::locked;

/// The message that the batch-processor logs when it has a lease.
const LEASED: &str = "batch leased";
/// The field of that line with the id of the batch.
const FIELD: &str = "batch_id";

/// When each batch was first leased: when the line about it was read. Batches of which no line was logged are missing.
#[derive(Clone, Debug, Default)]
pub struct FirstLeases(Arc<Mutex<BTreeMap<BatchId, SystemTime>>>);

impl FirstLeases {
    /// Returns a sink that reads every log line.
    pub fn sink(&self) -> LogSink {
        let leases = self.clone();
        Arc::new(move |line: &LogLine| leases.read_log_line(&line.text))
    }

    pub fn times(&self) -> BTreeMap<BatchId, SystemTime> {
        locked(&self.0).clone()
    }

    fn read_log_line(&self, line: &str) {
        if !line.contains(LEASED) {
            return;
        }
        if let Some(batch) = batch_of(line) {
            let mut leases = locked(&self.0);
            leases.entry(batch).or_insert_with(SystemTime::now);
        }
    }
}

/// Returns the batch in a line, which is text or JSON.
fn batch_of(line: &str) -> Option<BatchId> {
    let (_, value) = line.split_once(FIELD)?;
    let value = value.trim_start_matches(['=', '"', ':', ' ']);
    let end = value.find(|letter: char| !letter.is_ascii_hexdigit() && letter != '-');
    value[..end.unwrap_or(value.len())].parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const BATCH: &str = "0190163d-8694-739b-aea5-966c26f8ad91";

    #[test]
    fn the_first_lease_of_a_batch_is_kept_in_either_format() {
        let leases = FirstLeases::default();
        for line in [
            format!(" INFO batch leased batch_id={BATCH} source=arn attempt=1"),
            format!(
                r#"{{"level":"INFO","message":"batch leased","batch_id":"{BATCH}","attempt":2}}"#
            ),
        ] {
            assert_eq!(batch_of(&line), BATCH.parse().ok(), "{line}");
            let before = leases.times();
            leases.read_log_line(&line);
            if !before.is_empty() {
                assert_eq!(leases.times(), before);
            }
        }
        assert_eq!(leases.times().len(), 1);
    }

    #[test]
    fn other_lines_are_no_leases() {
        let leases = FirstLeases::default();
        let other = format!(" INFO batch is leased by another batch_id={BATCH}");
        leases.read_log_line(&other);
        leases.read_log_line(" INFO batch leased batch_id=none");
        assert!(leases.times().is_empty());
    }
}
