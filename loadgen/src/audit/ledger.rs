//! Counts the deliveries that are still due for each event.

mod bits;
mod changed;
mod each;
mod entry;
mod once;

use crate::workload::Workload;

use super::rule::DuplicateRule;
use changed::Changed;
use each::Each;
pub(super) use entry::{Delivery, Entry};
use once::Once;

/// The deliveries still due for each event.
pub(super) struct Ledger {
    changed: Changed,
    kind: Kind,
}

enum Kind {
    Once(Once),
    Each(Each),
}

impl Ledger {
    pub fn new(workload: &Workload, rule: DuplicateRule) -> Self {
        Self {
            changed: Changed::new(workload),
            kind: match rule {
                DuplicateRule::Drop => Kind::Once(Once::new(workload)),
                DuplicateRule::Requeue => Kind::Each(Each::new(workload)),
            },
        }
    }

    /// Returns whether an event has two bodies.
    pub fn has_two_bodies(&self, number: u64) -> bool {
        self.changed.contains(number)
    }

    /// Records a delivery. All deliveries of a batch must be recorded before those of the next one.
    pub fn record(&mut self, delivery: &Delivery) -> Entry {
        match &mut self.kind {
            Kind::Once(ledger) => ledger.record(delivery, &mut self.changed),
            Kind::Each(ledger) => ledger.record(delivery, &mut self.changed),
        }
    }

    /// Returns the number of messages whose body is not the one that was delivered for their event.
    pub fn conflicts(&self) -> u64 {
        match &self.kind {
            Kind::Once(ledger) => ledger.conflicts,
            // Every message is delivered, whatever its body.
            Kind::Each(_) => 0,
        }
    }

    /// Returns the events with missing deliveries, and how many are missing.
    pub fn missing(&self) -> Box<dyn Iterator<Item = (u64, u32)> + '_> {
        match &self.kind {
            Kind::Once(ledger) => Box::new(ledger.missing()),
            Kind::Each(ledger) => Box::new(ledger.missing()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audit::ledger::entry::Surplus;
    use crate::mix::mix;
    use crate::workload::{Content, Duplicates, WorkloadConfig};

    fn workload(messages: u64, duplicates: &str) -> Workload {
        let duplicates: Duplicates = duplicates.parse().unwrap();
        Workload::new(WorkloadConfig {
            messages,
            duplicates,
            ..WorkloadConfig::default()
        })
        .unwrap()
    }

    fn delivery(number: u64, batch: u32, message: u64) -> Delivery {
        Delivery {
            number,
            batch,
            message_hash: Some(mix(message)),
            content: Content::Original,
        }
    }

    fn missing(ledger: &Ledger) -> u64 {
        ledger.missing().map(|(_, due)| u64::from(due)).sum()
    }

    /// Returns what each message of a workload is delivered as, and how often its event is sent.
    fn deliveries(workload: &Workload) -> Vec<Delivery> {
        let each = |index| Delivery {
            content: match workload.is_changed(index) {
                true => Content::Changed,
                false => Content::Original,
            },
            ..delivery(workload.event_number(index), index as u32 + 1, index)
        };
        (0..workload.len()).map(each).collect()
    }

    #[test]
    fn with_the_requeue_rule_every_message_is_due_once() {
        // With the larger share, events are sent more often than a byte can count.
        for (messages, share) in [(5_000, "30"), (2_000, "99.8"), (300, "any=20,changed=30")] {
            let workload = workload(messages, share);
            let mut ledger = Ledger::new(&workload, DuplicateRule::Requeue);
            let all = deliveries(&workload);
            assert_eq!(missing(&ledger), messages);
            for delivery in &all {
                assert_eq!(ledger.record(delivery), Entry::default(), "{delivery:?}");
            }
            assert_eq!(missing(&ledger), 0);
            for delivery in &all {
                let again = Delivery {
                    batch: 1 + delivery.batch + messages as u32,
                    ..*delivery
                };
                assert!(ledger.record(&again).surplus.is_some());
                let without_id = Delivery {
                    message_hash: None,
                    batch: again.batch + messages as u32,
                    ..again
                };
                assert_eq!(ledger.record(&without_id).surplus, Some(Surplus::Event));
            }
        }
    }

    #[test]
    fn with_the_requeue_rule_an_event_twice_in_one_batch_is_mixed() {
        let workload = workload(200, "60");
        let mut ledger = Ledger::new(&workload, DuplicateRule::Requeue);
        let all = deliveries(&workload);
        let repeat = (0..200)
            .find(|index| workload.is_duplicate(*index))
            .unwrap();
        let number = all[repeat as usize].number;
        assert!(!ledger.record(&delivery(number, 1, 1)).mixed);
        assert!(ledger.record(&delivery(number, 1, 2)).mixed);
        assert!(!ledger.record(&delivery(number, 2, 3)).mixed);
    }

    #[test]
    fn with_the_drop_rule_the_messages_with_the_other_body_are_conflicts() {
        let workload = workload(300, "any=20,changed=10");
        let all = deliveries(&workload);
        let deliver = |content: Content| {
            let mut ledger = Ledger::new(&workload, DuplicateRule::Drop);
            for each in &all {
                ledger.record(&Delivery { content, ..*each });
            }
            ledger.conflicts()
        };
        assert_eq!(deliver(Content::Original), 30);
        let two_bodies = |number: u64| {
            all.iter()
                .any(|each| each.number == number && each.content == Content::Changed)
        };
        let others = all
            .iter()
            .filter(|each| two_bodies(each.number) && each.content == Content::Original);
        assert_eq!(deliver(Content::Changed), others.count() as u64);
    }
}
