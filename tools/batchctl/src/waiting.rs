//! Why nothing of a batch goes to the sink at present.

use std::fmt;
use std::num::NonZeroU64;

use protocol::batch::{BatchRecord, Status};
use protocol::gate::{Conditions, Gate, Wait, Why, gate};
use protocol::limits::DUE_GRACE;
use protocol::pause::Pause;
use protocol::sequence::{HolderResolution, PartId, Sequence, SequenceScope, holder_resolution};
use protocol::time::Timestamp;
use protocol::turns::Turns;
use serde::{Deserialize, Serialize};
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
    #[serde(skip_serializing_if = "Option::is_none")]
    pub behind: Option<PartId>,
}

/// What a batch waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
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

impl From<Wait> for Waiting {
    fn from(wait: Wait) -> Waiting {
        let (reason, behind) = match wait.why {
            Why::Window => (Reason::Window, None),
            Why::Pause => (Reason::Pause, None),
            Why::Hours => (Reason::Hours, None),
            Why::Number(part) => (Reason::Number, Some(part)),
            Why::Turn => (Reason::Turn, None),
        };
        Waiting {
            reason,
            until: wait.until,
            behind,
        }
    }
}

/// What all batches of a stack may wait for.
pub struct Waits {
    /// Ended ones too.
    pub(crate) pauses: Vec<Pause>,
    pub(crate) hours: Option<DeliveryHours>,
    pub(crate) turns: Option<Turns>,
}

impl Waits {
    /// Reads the pauses of a stack, its hours of delivery, and the turns that are taken.
    pub async fn of(service: &Service) -> Result<Waits, PortError> {
        // A wrong value stops the functions at their cold start. This command must tell what it can all the same.
        let hours = service.settings.value("DELIVERY_HOURS");
        let rate = service.settings.value("DELIVERY_MAX_PER_SECOND");
        // 0 is no rate.
        let turns = match rate.and_then(|text| text.parse::<NonZeroU64>().ok()) {
            Some(rate) => {
                let read = service.named_items.get::<Turns>(&()).await?;
                Some(Turns::at_rate(read.value, rate.get(), service.now()))
            }
            None => None,
        };
        Ok(Waits {
            pauses: service.pauses().await?.value.pauses,
            hours: hours.and_then(|text| text.parse().ok()),
            turns,
        })
    }

    /// Returns what a batch waits for. Reads the numbers of its source and key if it may wait for one.
    pub async fn waiting(
        &self,
        service: &Service,
        record: &BatchRecord,
    ) -> Result<Option<Waiting>, PortError> {
        let now = service.now();
        let behind = match may_wait_for_number(record) {
            true => behind(service, record).await?,
            false => None,
        };
        // The ticket comes back before the sweep would send one.
        let ticket_at = record.due_at.saturating_sub(DUE_GRACE).max(now);
        let hours = self.hours.as_ref();
        let conditions = Conditions {
            pauses: &self.pauses,
            closed_until: hours.and_then(|hours| hours.closed_until(now)),
            turns: self.turns,
            behind: behind.map(|part| (part, ticket_at)),
        };
        Ok(waiting(record, &conditions, now))
    }
}

/// Returns whether a batch may have been put back because its next part has no number.
fn may_wait_for_number(record: &BatchRecord) -> bool {
    record.status == Some(Status::Processing) && record.lease.is_none() && !record.has_number()
}

/// Returns the part of another batch that has the last number and must be delivered or set aside first.
async fn behind(service: &Service, record: &BatchRecord) -> Result<Option<PartId>, PortError> {
    let scope = SequenceScope::of(record);
    let sequence = service.named_items.get::<Sequence>(&scope).await?.value;
    let holder = sequence.holder.filter(|one| one.batch != record.batch_id);
    let Some(holder) = holder else {
        return Ok(None);
    };
    let of_holder = service.record(holder.batch).await?;
    let resolution = holder_resolution(holder, sequence.last, of_holder.as_ref());
    Ok((resolution == HolderResolution::Waiting).then_some(holder))
}

/// Returns what a batch waits for. `None` if it is complete, in error or being processed, or waits for nothing but its ticket.
fn waiting(record: &BatchRecord, conditions: &Conditions<'_>, now: Timestamp) -> Option<Waiting> {
    let is_processed = record.lease.as_ref().is_some_and(|lease| lease.until > now);
    if record.status? == Status::Error || is_processed {
        return None;
    }
    if let Gate::Wait(wait) = gate(record, conditions, now) {
        return Some(wait.into());
    }
    let retried = record.last_failure.is_some() && record.lease.is_none();
    let ticket_at = record.due_at.saturating_sub(DUE_GRACE);
    let tries = [
        (Reason::Retry, retried.then_some(ticket_at)),
        (Reason::Look, record.verify_at),
    ];
    tries.into_iter().find_map(|(reason, until)| {
        Some(Waiting {
            reason,
            until: until.filter(|until| *until > now)?,
            behind: None,
        })
    })
}

#[cfg(test)]
mod tests {
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
    fn a_batch_that_the_gate_keeps_waits_as_the_gate_says() {
        let mut record = record();
        let pauses = [pause(at(11))];
        let conditions = Conditions {
            pauses: &pauses,
            ..Conditions::default()
        };
        let waits = |record: &BatchRecord, hour| for_until(waiting(record, &conditions, at(hour)));
        assert_eq!(waits(&record, 8), Some((Reason::Window, at(9))));
        assert_eq!(waits(&record, 10), Some((Reason::Pause, at(11))));
        assert_eq!(waits(&record, 12), None, "its ticket will come");
        record.turn_at = Some(at(13));
        assert_eq!(waits(&record, 12), Some((Reason::Turn, at(13))));
    }

    #[test]
    fn a_batch_waits_for_the_number_of_its_part_and_for_its_next_try() {
        let mut record = record();
        record.status = Some(Status::Processing);
        record.due_at = at(11);
        assert!(may_wait_for_number(&record), "also before it has a part");
        record.parts = vec![PartRecord::frozen((0..1).collect(), [7; 32], None)];
        assert!(may_wait_for_number(&record));
        let part = PartId {
            batch: record.batch_id,
            part: 4,
        };
        let conditions = Conditions {
            behind: Some((part, at(11))),
            ..Conditions::default()
        };
        let number = waiting(&record, &conditions, at(10)).unwrap();
        assert_eq!((number.reason, number.until), (Reason::Number, at(11)));
        assert!(number.to_string().ends_with("/4"), "{number}");
        record.last_failure = Some(Failure {
            at: at(9),
            text: "HTTP 503".to_owned(),
        });
        let again = waiting(&record, &Conditions::default(), at(10)).unwrap();
        assert_eq!(again.reason, Reason::Retry);
        assert_eq!(again.until + DUE_GRACE, at(11));
        record.parts[0].file_number = Some(7);
        assert!(!may_wait_for_number(&record));
    }

    #[test]
    fn a_batch_without_anything_to_deliver_waits_for_another_look() {
        let mut record = record();
        record.confirmed = 0;
        record.sealed_at = Some(at(8));
        record.status = Some(Status::Sealed);
        record.verify_at = Some(at(11));
        let pauses = [pause(at(12))];
        let conditions = Conditions {
            pauses: &pauses,
            ..Conditions::default()
        };
        let waits = waiting(&record, &conditions, at(10));
        assert_eq!(for_until(waits), Some((Reason::Look, at(11))));
    }

    #[test]
    fn a_batch_in_error_or_complete_waits_for_nothing_by_itself() {
        for status in [Some(Status::Error), None] {
            let record = BatchRecord { status, ..record() };
            assert_eq!(waiting(&record, &Conditions::default(), at(10)), None);
        }
    }
}
