//! Why nothing of a batch goes to the sink at present.

use std::fmt;

use protocol::batch::{BatchRecord, Status, nothing_to_deliver};
use protocol::pause::{Pause, kept_until, paused_until};
use protocol::time::Timestamp;
use serde::Serialize;
use shared::delivery_hours::DeliveryHours;

/// What a batch waits for, and until when.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Waiting {
    #[serde(rename = "for")]
    pub reason: Reason,
    pub until: Timestamp,
}

/// What a batch waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Reason {
    /// More events.
    Window,
    /// An operator's pause ends.
    Pause,
    /// The next of `DELIVERY_HOURS`.
    Hours,
    /// Its turn by `DELIVERY_MAX_PER_SECOND`.
    Turn,
    /// Another look for claims that come late.
    Look,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Reason::Window => "more events, until the window closes",
            Reason::Pause => "the end of a pause (`batchctl pauses`)",
            Reason::Hours => "the next hours of `DELIVERY_HOURS`",
            Reason::Turn => "its turn by `DELIVERY_MAX_PER_SECOND`",
            Reason::Look => "another look for late claims",
        })
    }
}

/// Returns what a batch waits for. `None` if it is complete, in error or being processed, or waits for nothing but its ticket.
pub fn waiting(
    record: &BatchRecord,
    pauses: &[Pause],
    hours: Option<&DeliveryHours>,
    now: Timestamp,
) -> Option<Waiting> {
    let is_processed = record.lease.as_ref().is_some_and(|lease| lease.until > now);
    let is_open = match record.status? {
        Status::Open => record.closes_at > now,
        Status::Sealed | Status::Processing => false,
        Status::Error => return None,
    };
    if is_open {
        return Some(Waiting {
            reason: Reason::Window,
            until: record.closes_at,
        });
    }
    if is_processed {
        return None;
    }
    // As the batch-processor: a batch with nothing to deliver is not kept from ending.
    let is_kept = !nothing_to_deliver(record);
    let paused_until = || paused_until(pauses, record, now);
    let closed_until = || kept_until(record, hours?.closed_until(now)?, now);
    let kept = [
        (Reason::Pause, is_kept.then(paused_until).flatten()),
        (Reason::Hours, is_kept.then(closed_until).flatten()),
        (Reason::Turn, record.turn_at),
        (Reason::Look, record.verify_at),
    ];
    kept.into_iter().find_map(|(reason, until)| {
        let until = until.filter(|until| *until > now)?;
        Some(Waiting { reason, until })
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const SOURCE: &str = "arn:aws:sqs:eu-west-1:123456789012:input";

    /// Returns an hour of 2026-11-26, UTC.
    fn at(hour: u64) -> Timestamp {
        Timestamp::from_ms(1_795_651_200_000 + hour * 3_600_000)
    }

    /// A batch whose window lasts from 8 to 9 o'clock, with one event.
    fn record() -> BatchRecord {
        let id = "0190163d-8694-739b-aea5-966c26f8ad91".parse().unwrap();
        let source = SOURCE.parse().unwrap();
        let mut record = BatchRecord::open(id, source, None, 1, at(8), at(9));
        record.confirmed = 1;
        record
    }

    fn pause(until: Timestamp) -> Pause {
        Pause {
            source: Some(SOURCE.parse().unwrap()),
            batch_key: None,
            until,
            at: at(8),
            by: "me".to_owned(),
            why: "the sink is moved".to_owned(),
        }
    }

    fn for_until(waiting: Option<Waiting>) -> Option<(Reason, Timestamp)> {
        waiting.map(|waiting| (waiting.reason, waiting.until))
    }

    #[test]
    fn a_batch_waits_for_its_window_then_for_pauses_hours_and_its_turn() {
        let mut record = record();
        let hours = "20:00-22:00 UTC".parse().unwrap();
        let pauses = [pause(at(11))];
        let reason = |record: &BatchRecord, hour| {
            for_until(waiting(record, &pauses, Some(&hours), at(hour)))
        };
        assert_eq!(reason(&record, 8), Some((Reason::Window, at(9))));
        assert_eq!(reason(&record, 10), Some((Reason::Pause, at(11))));
        assert_eq!(reason(&record, 12), Some((Reason::Hours, at(20))));
        assert_eq!(reason(&record, 21), None, "its ticket will come");
        record.turn_at = Some(at(21) + Duration::from_secs(60));
        assert_eq!(
            reason(&record, 21),
            Some((Reason::Turn, at(21) + Duration::from_secs(60)))
        );
    }

    #[test]
    fn a_batch_without_anything_to_deliver_is_kept_by_no_pause_and_no_hours() {
        let mut record = record();
        record.confirmed = 0;
        record.sealed_at = Some(at(8));
        record.status = Some(Status::Sealed);
        record.verify_at = Some(at(11));
        let hours = "20:00-22:00 UTC".parse().unwrap();
        let waits = waiting(&record, &[pause(at(12))], Some(&hours), at(10));
        assert_eq!(for_until(waits), Some((Reason::Look, at(11))));
    }

    #[test]
    fn a_batch_in_error_or_complete_waits_for_nothing_by_itself() {
        for status in [Some(Status::Error), None] {
            let record = BatchRecord { status, ..record() };
            assert_eq!(waiting(&record, &[pause(at(11))], None, at(10)), None);
        }
    }
}
