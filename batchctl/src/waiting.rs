//! Why nothing of a batch goes to the sink at present.

use std::fmt;

use protocol::batch::{BatchRecord, Status, nothing_to_deliver};
use protocol::limits::DUE_GRACE;
use protocol::pause::{Pause, kept_until, paused_until};
use protocol::sequence::{PartId, SequenceScope};
use protocol::time::Timestamp;
use serde::{Serialize, Serializer};
use shared::delivery_hours::DeliveryHours;
use shared::ports::PortError;

use crate::service::Service;

/// What a batch waits for, and until when.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Waiting {
    #[serde(rename = "for")]
    pub reason: Reason,
    pub until: Timestamp,
    /// The part that must be delivered or set aside first, if a number is waited for.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "as_text")]
    pub behind: Option<PartId>,
}

fn as_text<S: Serializer>(part: &Option<PartId>, serializer: S) -> Result<S::Ok, S::Error> {
    part.map(|part| part.to_string()).serialize(serializer)
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
    /// The number of its next part.
    Number,
    /// Its next try, after a failure.
    Retry,
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
            Reason::Number => "the number of its next part",
            Reason::Retry => "its next try",
            Reason::Look => "another look for late claims",
        })
    }
}

impl fmt::Display for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.behind {
            Some(part) => write!(f, "{}, after part {part}", self.reason),
            None => write!(f, "{}", self.reason),
        }
    }
}

/// What all batches of a stack may wait for.
pub struct Waits {
    pauses: Vec<Pause>,
    hours: Option<DeliveryHours>,
}

impl Waits {
    /// Reads the pauses of a stack, and its hours of delivery.
    pub async fn of(service: &Service) -> Result<Waits, PortError> {
        // A wrong value stops the functions at their cold start. This command must tell what it can all the same.
        let hours = service.settings.value("DELIVERY_HOURS");
        Ok(Waits {
            pauses: service.pauses().await?.pauses,
            hours: hours.and_then(|text| text.parse().ok()),
        })
    }

    /// Returns what a batch waits for. Reads the numbers of its source and key if it may wait for one.
    pub async fn waiting(
        &self,
        service: &Service,
        record: &BatchRecord,
    ) -> Result<Option<Waiting>, PortError> {
        let behind = match unnumbered(record) {
            Some(part) => {
                let scope = SequenceScope::of(record);
                let sequence = service.sequence_store.read(&scope).await?;
                sequence.holder.filter(|holder| *holder != part)
            }
            None => None,
        };
        let (pauses, hours) = (&self.pauses, self.hours.as_ref());
        Ok(waiting(record, pauses, hours, behind, service.now()))
    }
}

/// Returns the frozen part of a batch that is not leased, if it has no number.
fn unnumbered(record: &BatchRecord) -> Option<PartId> {
    let (part, frozen) = record.frozen_part()?;
    let waits = record.status == Some(Status::Processing) && record.lease.is_none();
    (waits && frozen.sequence.is_none()).then_some(PartId {
        batch: record.batch_id,
        part,
    })
}

/// Returns what a batch waits for. `None` if it is complete, in error or being processed, or waits for nothing but its ticket.
/// `behind` is the part that has the last number, if it is not of this batch.
fn waiting(
    record: &BatchRecord,
    pauses: &[Pause],
    hours: Option<&DeliveryHours>,
    behind: Option<PartId>,
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
            behind: None,
        });
    }
    if is_processed {
        return None;
    }
    // As the batch-processor: a batch with nothing to deliver is not kept from ending.
    let is_kept = !nothing_to_deliver(record);
    let paused_until = || paused_until(pauses, record, now);
    let closed_until = || kept_until(record, hours?.closed_until(now)?, now);
    // The ticket comes back before the sweep would send one.
    let ticket_at = record.due_at.saturating_sub(DUE_GRACE);
    let retried = record.last_failure.is_some() && record.lease.is_none();
    let kept = [
        (Reason::Pause, is_kept.then(paused_until).flatten()),
        (Reason::Hours, is_kept.then(closed_until).flatten()),
        (Reason::Turn, record.turn_at),
        (Reason::Number, behind.map(|_| record.due_at)),
        (Reason::Retry, retried.then_some(ticket_at)),
        (Reason::Look, record.verify_at),
    ];
    kept.into_iter().find_map(|(reason, until)| {
        let until = until.filter(|until| *until > now)?;
        let behind = behind.filter(|_| reason == Reason::Number);
        Some(Waiting {
            reason,
            until,
            behind,
        })
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use protocol::batch::{Failure, PartRecord};

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
            for_until(waiting(record, &pauses, Some(&hours), None, at(hour)))
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
    fn a_batch_waits_for_the_number_of_its_part_and_for_its_next_try() {
        let mut record = record();
        record.status = Some(Status::Processing);
        record.due_at = at(11);
        record.parts = vec![PartRecord::frozen((0..1).collect(), [7; 32], None)];
        let part = unnumbered(&record).unwrap();
        let behind = PartId { part: 4, ..part };
        let waits = |record: &BatchRecord, behind| waiting(record, &[], None, behind, at(10));
        assert_eq!(waits(&record, None), None, "its ticket will come");
        let number = waits(&record, Some(behind)).unwrap();
        assert_eq!((number.reason, number.until), (Reason::Number, at(11)));
        assert!(number.to_string().ends_with("/4"), "{number}");
        record.last_failure = Some(Failure {
            at: at(9),
            text: "HTTP 503".to_owned(),
        });
        let again = waits(&record, None).unwrap();
        assert_eq!(
            (again.reason, again.until + DUE_GRACE),
            (Reason::Retry, at(11))
        );
        record.parts[0].sequence = Some(7);
        assert_eq!(unnumbered(&record), None);
    }

    #[test]
    fn a_batch_without_anything_to_deliver_is_kept_by_no_pause_and_no_hours() {
        let mut record = record();
        record.confirmed = 0;
        record.sealed_at = Some(at(8));
        record.status = Some(Status::Sealed);
        record.verify_at = Some(at(11));
        let hours = "20:00-22:00 UTC".parse().unwrap();
        let waits = waiting(&record, &[pause(at(12))], Some(&hours), None, at(10));
        assert_eq!(for_until(waits), Some((Reason::Look, at(11))));
    }

    #[test]
    fn a_batch_in_error_or_complete_waits_for_nothing_by_itself() {
        for status in [Some(Status::Error), None] {
            let record = BatchRecord { status, ..record() };
            assert_eq!(waiting(&record, &[pause(at(11))], None, None, at(10)), None);
        }
    }
}
