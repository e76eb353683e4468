//! Counts the deliveries that are still due for each event.

use std::collections::HashSet;

use crate::workload::Workload;

use super::rule::DuplicateRule;

/// The deliveries still due for each event, and the last batch that it was delivered in: 8 bytes per event.
/// With the requeue rule also the SQS message ids so far: 20 to 40 bytes per delivery.
pub(super) struct Ledger {
    due: Vec<u32>,
    batch_last: Vec<u32>,
    messages_seen: Option<HashSet<u128>>,
}

/// What is wrong with a delivery, if anything.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Entry {
    /// Why the delivery is one too many, if it is.
    pub surplus: Option<Surplus>,
    /// Whether the event's previous delivery was in the same batch.
    pub mixed: bool,
}

/// Why a delivery is one too many.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Surplus {
    #[error("delivered more often than expected")]
    Event,
    #[error("its SQS message was delivered before")]
    Message,
}

impl Ledger {
    pub fn new(workload: &Workload, rule: DuplicateRule) -> Self {
        let due = match rule {
            DuplicateRule::Drop => {
                let unique = usize::try_from(workload.unique());
                vec![1; unique.expect("an event count fits the address space")]
            }
            DuplicateRule::Requeue => workload.copies(),
        };
        Self {
            batch_last: vec![0; due.len()],
            due,
            messages_seen: (rule == DuplicateRule::Requeue).then(HashSet::new),
        }
    }

    /// Records a delivery of event `number` in the batch `batch`; batches count from 1.
    ///
    /// If one SQS message is delivered twice, only the first delivery counts. Otherwise the second
    /// one would hide the missing delivery of another message of the same event.
    pub fn record(&mut self, number: u64, batch: u32, sqs_message_id: Option<&str>) -> Entry {
        let number = number as usize;
        let mixed = self.batch_last[number] == batch;
        self.batch_last[number] = batch;
        let seen_before = match (&mut self.messages_seen, sqs_message_id) {
            (Some(seen), Some(id)) => !seen.insert(fingerprint(id)),
            _ => false,
        };
        let surplus = if seen_before {
            Some(Surplus::Message)
        } else if self.due[number] == 0 {
            Some(Surplus::Event)
        } else {
            self.due[number] -= 1;
            None
        };
        Entry { surplus, mixed }
    }

    /// Returns the events with missing deliveries, and how many are missing.
    pub fn missing(&self) -> impl Iterator<Item = (u64, u32)> {
        (0..)
            .zip(self.due.iter().copied())
            .filter(|(_, due)| *due > 0)
    }
}

/// Returns a 128-bit FNV-1a hash. Among a billion ids, two equal hashes are less likely than a disk error.
fn fingerprint(text: &str) -> u128 {
    text.bytes()
        .fold(0x6c62_272e_07bb_0142_62b8_2175_6295_c58d, |hash, byte| {
            (hash ^ u128::from(byte)).wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013b)
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::WorkloadConfig;

    #[test]
    fn with_the_drop_rule_each_event_is_due_once() {
        let mut ledger = ledger(DuplicateRule::Drop);
        assert_eq!(ledger.record(3, 1, Some("m1")), Entry::default());
        let entry = ledger.record(3, 2, Some("m1"));
        assert_eq!(
            entry,
            Entry {
                surplus: Some(Surplus::Event),
                mixed: false
            }
        );
        assert_eq!(ledger.missing().map(|(_, due)| due).sum::<u32>(), 49);
    }

    #[test]
    fn with_the_requeue_rule_each_message_is_due_once() {
        let mut ledger = ledger(DuplicateRule::Requeue);
        let (number, due) = ledger.missing().find(|(_, due)| *due > 1).unwrap();
        assert_eq!(ledger.record(number, 1, Some("m1")), Entry::default());
        let again = ledger.record(number, 2, Some("m1"));
        assert_eq!(
            again,
            Entry {
                surplus: Some(Surplus::Message),
                mixed: false
            }
        );
        for copy in 1..due {
            assert_eq!(
                ledger.record(number, 2 + copy, Some(&format!("m{copy}x"))),
                Entry::default()
            );
        }
        assert_eq!(
            ledger.record(number, 99, None).surplus,
            Some(Surplus::Event)
        );
    }

    #[test]
    fn an_event_twice_in_one_batch_is_mixed() {
        let mut ledger = ledger(DuplicateRule::Requeue);
        assert!(!ledger.record(0, 1, None).mixed);
        assert!(ledger.record(0, 1, None).mixed);
        assert!(!ledger.record(0, 2, None).mixed);
    }

    fn ledger(rule: DuplicateRule) -> Ledger {
        let config = WorkloadConfig {
            messages: 100,
            duplicates_percent: 50.0,
            ..WorkloadConfig::default()
        };
        Ledger::new(&Workload::new(config).unwrap(), rule)
    }
}
