//! What is owed, and what has been paid: one entry per event number.

use std::collections::HashSet;

use crate::plan::Plan;

use super::rule::DuplicateRule;

/// Deliveries still owed per event, and the batch that saw it last: 8 bytes an event. By the
/// requeue rule also the SQS message ids seen, some 20 to 40 bytes a delivery.
pub(super) struct Ledger {
    owed: Vec<u32>,
    batch_last: Vec<u32>,
    messages_seen: Option<HashSet<u128>>,
}

/// What the ledger makes of a delivery.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Entry {
    /// Why the delivery is one too many.
    pub surplus: Option<Surplus>,
    /// The batch had the event already.
    pub mixed: bool,
}

/// Why a delivery is one too many.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Surplus {
    #[error("delivered more often than owed")]
    Event,
    #[error("its SQS message was delivered before")]
    Message,
}

impl Ledger {
    pub fn new(plan: &Plan, rule: DuplicateRule) -> Self {
        let owed = match rule {
            DuplicateRule::Drop => {
                let unique = usize::try_from(plan.unique());
                vec![1; unique.expect("an event count fits the address space")]
            }
            DuplicateRule::Requeue => plan.copies(),
        };
        Self {
            batch_last: vec![0; owed.len()],
            owed,
            messages_seen: (rule == DuplicateRule::Requeue).then(HashSet::new),
        }
    }

    /// Books a delivery of event `number` to the batch `batch`, counted from 1.
    ///
    /// A message delivered twice pays only once, so that the delivery another message owes is
    /// still found missing.
    pub fn book(&mut self, number: u64, batch: u32, sqs_message_id: Option<&str>) -> Entry {
        let number = number as usize;
        let mixed = self.batch_last[number] == batch;
        self.batch_last[number] = batch;
        let seen_before = match (&mut self.messages_seen, sqs_message_id) {
            (Some(seen), Some(id)) => !seen.insert(fingerprint(id)),
            _ => false,
        };
        let surplus = if seen_before {
            Some(Surplus::Message)
        } else if self.owed[number] == 0 {
            Some(Surplus::Event)
        } else {
            self.owed[number] -= 1;
            None
        };
        Entry { surplus, mixed }
    }

    /// Events with deliveries outstanding, and how many.
    pub fn outstanding(&self) -> impl Iterator<Item = (u64, u32)> {
        (0..)
            .zip(self.owed.iter().copied())
            .filter(|(_, owed)| *owed > 0)
    }
}

/// 128 bits of FNV-1a: of a billion ids, two alike are less likely than a disk that lies.
fn fingerprint(text: &str) -> u128 {
    text.bytes()
        .fold(0x6c62_272e_07bb_0142_62b8_2175_6295_c58d, |hash, byte| {
            (hash ^ u128::from(byte)).wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013b)
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::PlanConfig;

    #[test]
    fn by_the_drop_rule_one_delivery_is_owed() {
        let mut ledger = ledger(DuplicateRule::Drop);
        assert_eq!(ledger.book(3, 1, Some("m1")), Entry::default());
        let entry = ledger.book(3, 2, Some("m1"));
        assert_eq!(
            entry,
            Entry {
                surplus: Some(Surplus::Event),
                mixed: false
            }
        );
        assert_eq!(ledger.outstanding().map(|(_, owed)| owed).sum::<u32>(), 49);
    }

    #[test]
    fn by_the_requeue_rule_every_copy_is_owed_and_pays_once() {
        let mut ledger = ledger(DuplicateRule::Requeue);
        let (number, owed) = ledger.outstanding().find(|(_, owed)| *owed > 1).unwrap();
        assert_eq!(ledger.book(number, 1, Some("m1")), Entry::default());
        let again = ledger.book(number, 2, Some("m1"));
        assert_eq!(
            again,
            Entry {
                surplus: Some(Surplus::Message),
                mixed: false
            }
        );
        for copy in 1..owed {
            assert_eq!(
                ledger.book(number, 2 + copy, Some(&format!("m{copy}x"))),
                Entry::default()
            );
        }
        assert_eq!(ledger.book(number, 99, None).surplus, Some(Surplus::Event));
    }

    #[test]
    fn an_event_twice_in_one_batch_is_mixed() {
        let mut ledger = ledger(DuplicateRule::Requeue);
        assert!(!ledger.book(0, 1, None).mixed);
        assert!(ledger.book(0, 1, None).mixed);
        assert!(!ledger.book(0, 2, None).mixed);
    }

    fn ledger(rule: DuplicateRule) -> Ledger {
        let config = PlanConfig {
            messages: 100,
            duplicates_percent: 50.0,
            ..PlanConfig::default()
        };
        Ledger::new(&Plan::new(config).unwrap(), rule)
    }
}
