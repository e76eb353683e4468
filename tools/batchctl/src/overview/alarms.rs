//! The alarms of the stack that ring by what is seen.
//!
//! Names and conditions are those of infra/sam/template.yaml. Left out are the alarms about what a look does not see: the age of
//! messages, errors and throttles of the functions, retries, runs of the index, notices, and answers.

use std::time::Duration;

use protocol::text::counted;
use protocol::time::Timestamp;
use serde::Serialize;

use super::counts::Counts;
use super::queues::{QueueDepth, Role};
use crate::times::short;

/// The period of the alarm `BatchesOverdue`, which needs two.
const OVERDUE_PERIOD: Duration = Duration::from_secs(1_800);
/// The period of the alarm `RecordsRejected`.
const REJECTED_PERIOD: Duration = Duration::from_secs(900);
/// The time between two sightings that are kept.
const SIGHTING_EVERY: Duration = Duration::from_secs(30);

/// An alarm that rings by what is seen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Alarm {
    /// The name in the template, and the heading in the runbook.
    pub name: &'static str,
    /// What is seen, in one line.
    pub reason: String,
    /// Where the runbook says what to do.
    pub runbook: String,
}

/// What alarms need of former looks.
#[derive(Debug, Default)]
pub(super) struct Sightings {
    /// When there were overdue batches.
    overdue: Vec<Timestamp>,
    /// How many records were rejected, and when that was seen.
    rejected: Vec<(Timestamp, u64)>,
}

impl Sightings {
    /// Adds what a look saw, and drops what no alarm needs any more.
    pub fn add(&mut self, counts: &Counts, rejected: u64, now: Timestamp) {
        let last = self.overdue.last();
        let is_time = last.is_none_or(|last| last.until(now) >= SIGHTING_EVERY);
        if counts.overdue > 0 && is_time {
            self.overdue.push(now);
        }
        self.overdue
            .retain(|at| at.until(now) <= 2 * OVERDUE_PERIOD);
        if rejected > 0 {
            self.rejected.push((now, rejected));
        }
        self.rejected
            .retain(|(at, _)| at.until(now) <= REJECTED_PERIOD);
    }

    /// Returns whether there were overdue batches in each of the last two periods.
    fn overdue_twice(&self, now: Timestamp) -> bool {
        let is_recent = |at: &Timestamp| at.until(now) <= OVERDUE_PERIOD;
        self.overdue.iter().any(is_recent) && !self.overdue.iter().all(is_recent)
    }
}

/// Returns the alarms that ring, in the order of the runbook.
pub(super) fn ringing(
    counts: &Counts,
    queues: &[QueueDepth],
    sightings: &Sightings,
    now: Timestamp,
) -> Vec<Alarm> {
    let not_empty = |role: Role, what: &str| {
        let queue = queues.iter().find(|queue| queue.role == role)?;
        let count = counted(queue.visible, what);
        (queue.visible > 0).then(|| format!("{count} in `{}`", queue.name))
    };
    let rejected: u64 = sightings.rejected.iter().map(|(_, count)| count).sum();
    let reasons = [
        (
            "InputDeadLetterNotEmpty",
            not_empty(Role::InputDeadLetters, "message"),
        ),
        (
            "BatchDeadLetterNotEmpty",
            not_empty(Role::BatchDeadLetters, "ticket"),
        ),
        ("QuarantineNotEmpty", not_empty(Role::Quarantine, "message")),
        ("BatchesOverdue", overdue(counts, sightings, now)),
        (
            "BatchesInError",
            (counts.error > 0).then(|| {
                let batches = counted(counts.error, "batch");
                format!("{batches} in error, for an operator to decide about")
            }),
        ),
        (
            "RecordsRejected",
            (rejected > 0).then(|| {
                let records = counted(rejected, "record");
                format!("the sink rejected {records} in the last 15 minutes")
            }),
        ),
    ];
    let alarms = reasons.into_iter().filter_map(|(name, reason)| {
        Some(Alarm {
            name,
            reason: reason?,
            runbook: format!("docs/runbook.md#{}", name.to_lowercase()),
        })
    });
    alarms.collect()
}

/// Returns why the alarm about overdue batches rings. The sweep moves the due time of a batch when it sends a ticket; so a batch that has
/// been due for a whole period got none.
fn overdue(counts: &Counts, sightings: &Sightings, now: Timestamp) -> Option<String> {
    let since = counts.overdue_since?.until(now);
    let batches = counted(counts.overdue, "batch");
    match (since > OVERDUE_PERIOD, sightings.overdue_twice(now)) {
        (true, _) => Some(format!(
            "{batches} overdue, without a ticket for {}",
            short(since)
        )),
        (false, true) => Some(format!("{batches} overdue, as half an hour ago")),
        (false, false) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEMPLATE: &str = include_str!("../../../../infra/sam/template.yaml");
    const RUNBOOK: &str = include_str!("../../../../docs/runbook.md");

    fn at(minutes: u64) -> Timestamp {
        Timestamp::from_ms(1_700_000_000_000 + minutes * 60_000)
    }

    fn queue(role: Role, visible: u64) -> QueueDepth {
        QueueDepth {
            role,
            name: "queue".to_owned(),
            visible,
            in_flight: 7,
            delayed: 7,
        }
    }

    fn names(alarms: &[Alarm]) -> Vec<&'static str> {
        alarms.iter().map(|alarm| alarm.name).collect()
    }

    fn overdue_since(minutes: u64) -> Counts {
        Counts {
            overdue: 1,
            overdue_since: Some(at(minutes)),
            ..Counts::default()
        }
    }

    #[test]
    fn every_alarm_that_may_ring_is_in_the_template_and_in_the_runbook() {
        let counts = Counts {
            error: 2,
            ..overdue_since(0)
        };
        let mut sightings = Sightings::default();
        sightings.add(&counts, 3, at(60));
        let alarms = ringing(
            &counts,
            &Role::ALL.map(|role| queue(role, 1)),
            &sightings,
            at(60),
        );
        assert_eq!(alarms.len(), 6, "{alarms:?}");
        for alarm in alarms {
            let resource = format!("\n  {}:\n    Type: AWS::CloudWatch::Alarm\n", alarm.name);
            assert!(TEMPLATE.contains(&resource), "{alarm:?}");
            assert!(
                RUNBOOK.contains(&format!("\n## {}\n", alarm.name)),
                "{alarm:?}"
            );
            let anchor = alarm.runbook.strip_prefix("docs/runbook.md#").unwrap();
            assert!(RUNBOOK.contains(&format!("](#{anchor})")), "{alarm:?}");
            assert!(!alarm.reason.contains('\n'), "{alarm:?}");
        }
    }

    #[test]
    fn no_alarm_rings_for_messages_that_a_consumer_has_or_that_wait_in_other_queues() {
        let mut queues = Role::ALL.map(|role| queue(role, 0));
        queues[0].visible = 1_000;
        queues[1].visible = 1_000;
        let alarms = ringing(&Counts::default(), &queues, &Sightings::default(), at(0));
        assert_eq!(alarms, []);
    }

    #[test]
    fn overdue_batches_ring_if_they_are_seen_in_two_half_hours() {
        let mut sightings = Sightings::default();
        let mut ring = |counts: &Counts, minutes| {
            sightings.add(counts, 0, at(minutes));
            names(&ringing(counts, &[], &sightings, at(minutes)))
        };
        let none: [&str; 0] = [];
        assert_eq!(
            ring(&overdue_since(99), 100),
            none,
            "the sweep has just to come"
        );
        assert_eq!(ring(&overdue_since(129), 130), none, "one half hour");
        assert_eq!(ring(&overdue_since(130), 131), ["BatchesOverdue"]);
        assert_eq!(ring(&Counts::default(), 132), none);
        assert_eq!(ring(&overdue_since(200), 200), none, "long after");
        assert_eq!(
            ring(&overdue_since(200), 231),
            ["BatchesOverdue"],
            "no ticket"
        );
    }

    #[test]
    fn rejected_records_ring_for_a_quarter_of_an_hour() {
        let mut sightings = Sightings::default();
        let mut ring = |rejected, minutes| {
            sightings.add(&Counts::default(), rejected, at(minutes));
            let alarms = ringing(&Counts::default(), &[], &sightings, at(minutes));
            alarms.first().map(|alarm| alarm.reason.clone())
        };
        assert_eq!(ring(0, 0), None);
        let text = |records| {
            Some(format!(
                "the sink rejected {records} in the last 15 minutes"
            ))
        };
        assert_eq!(ring(1, 1), text("1 record"));
        assert_eq!(ring(3, 9), text("4 records"));
        assert_eq!(ring(0, 17), text("3 records"));
        assert_eq!(ring(0, 25), None);
    }
}
