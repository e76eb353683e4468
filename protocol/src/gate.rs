//! When a batch may go on: the one answer to it. The batch-processor asks before it reads a body, and again before each part;
//! `batchctl` asks to show what a batch waits for.

use crate::batch::{BatchRecord, Status, nothing_to_deliver};
use crate::limits::{BATCH_LIFE_MAX, TURNS_AHEAD};
use crate::pause::Pause;
use crate::sequence::PartId;
use crate::time::Timestamp;
use crate::turns::{Turn, Turns, kept_turn};

/// The conditions, besides their records, on which batches may go on.
#[derive(Clone, Copy, Debug, Default)]
pub struct Conditions<'a> {
    pub pauses: &'a [Pause],
    /// When the hours of delivery begin; `None` in them, and without any.
    pub closed_until: Option<Timestamp>,
    /// The turns, if deliveries have a rate and they were read.
    pub turns: Option<Turns>,
    /// The part that has the last number of the batch's source and key, if it must be delivered or set aside before the next part of the batch
    /// gets one, and when to look again.
    pub behind: Option<(PartId, Timestamp)>,
}

/// Whether a batch may go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gate {
    Deliver,
    Wait(Wait),
}

/// The end and the reason of a batch's wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wait {
    pub until: Timestamp,
    pub why: Why,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// More events, until the window closes.
    Window,
    /// An operator's pause ends.
    Pause,
    /// The next hours of delivery.
    Hours,
    /// The number of its next part, once this part was delivered or set aside.
    Number(PartId),
    /// Its turn, by the rate of deliveries.
    Turn,
}

/// Returns whether a batch may go on. A batch without deliveries waits only for its window.
pub fn gate(record: &BatchRecord, conditions: &Conditions<'_>, now: Timestamp) -> Gate {
    let wait = |why, until| Wait { until, why };
    if record.status == Some(Status::Open) && now < record.closes_at {
        return Gate::Wait(wait(Why::Window, record.closes_at));
    }
    if !goes_to_the_sink(record, now) {
        return Gate::Deliver;
    }
    let waits = paused_until(record, conditions.pauses, now)
        .map(|until| wait(Why::Pause, until))
        .or_else(|| Some(wait(Why::Hours, conditions.closed_until?)))
        .or_else(|| {
            let (part, until) = conditions.behind?;
            Some(wait(Why::Number(part), until))
        })
        .or_else(|| turn_at(record, conditions, now).map(|until| wait(Why::Turn, until)));
    match waits {
        // The batch must still be delivered or set aside within its life.
        Some(Wait { until, why }) => Gate::Wait(Wait {
            until: until.min(record.created_at + BATCH_LIFE_MAX),
            why,
        }),
        None => Gate::Deliver,
    }
}

/// Returns whether something of a batch may go to the sink. Nothing does of one that is set aside, that is too old to be delivered, or that has
/// no event, as far as the record knows.
pub fn goes_to_the_sink(record: &BatchRecord, now: Timestamp) -> bool {
    record.quarantine.is_none() && !record.is_too_old(now) && !nothing_to_deliver(record)
}

fn paused_until(record: &BatchRecord, pauses: &[Pause], now: Timestamp) -> Option<Timestamp> {
    let covers = |pause: &&Pause| {
        pause.until > now && pause.covers(&record.source, record.batch_key.as_ref())
    };
    pauses.iter().filter(covers).map(|pause| pause.until).max()
}

fn turn_at(record: &BatchRecord, conditions: &Conditions<'_>, now: Timestamp) -> Option<Timestamp> {
    let next_at = conditions.turns.map(|turns| turns.next_at);
    let until = match kept_turn(record, now) {
        Some(turn_at) => next_at.map_or(turn_at, |next_at| next_at.max(turn_at)),
        None => match conditions.turns?.take(1, TURNS_AHEAD, now) {
            Turn::Full { until } => until,
            Turn::Taken { .. } => return None,
        },
    };
    (now < until).then_some(until)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::BatchId;
    use crate::limits::TICKET_BACKOFF_MAX;
    use crate::pause::tests::{at, pause};

    /// A batch that closed after 30 s, with one event.
    fn record(key: Option<&str>) -> BatchRecord {
        let id = BatchId::new(uuid::Uuid::from_u128(1));
        let key = key.map(|text| text.parse().unwrap());
        let mut record = BatchRecord::open(id, "arn:q".parse().unwrap(), key, 10, at(0), at(30));
        record.confirmed = 1;
        record
    }

    fn paused(pauses: &[Pause], record: &BatchRecord, now: u64) -> Option<u64> {
        let conditions = Conditions {
            pauses,
            ..Conditions::default()
        };
        match gate(record, &conditions, at(now)) {
            Gate::Wait(Wait {
                until,
                why: Why::Pause,
            }) => Some(until.as_ms() / 1_000),
            Gate::Wait(other) => panic!("{other:?}"),
            Gate::Deliver => None,
        }
    }

    #[test]
    fn a_pause_holds_for_its_source_and_key_until_its_end() {
        let keyed = record(Some("k"));
        let until = |pause: Pause, record: &BatchRecord, now| paused(&[pause], record, now);
        assert_eq!(until(pause(None, None, 50), &keyed, 40), Some(50));
        assert_eq!(until(pause(None, None, 50), &keyed, 50), None);
        assert_eq!(until(pause(Some("arn:q"), None, 50), &keyed, 40), Some(50));
        assert_eq!(until(pause(Some("arn:other"), None, 50), &keyed, 40), None);
        assert_eq!(until(pause(None, Some("k"), 50), &keyed, 40), Some(50));
        assert_eq!(until(pause(None, Some("k"), 50), &record(None), 40), None);
        let both = pause(Some("arn:q"), Some("other"), 50);
        assert_eq!(until(both, &keyed, 40), None);
    }

    #[test]
    fn the_latest_of_several_pauses_counts() {
        let pauses = [pause(None, None, 50), pause(Some("arn:q"), None, 90)];
        assert_eq!(paused(&pauses, &record(None), 40), Some(90));
    }

    #[test]
    fn what_does_not_go_to_the_sink_is_kept_by_nothing() {
        let pauses = [pause(None, None, 9_000_000)];
        let end_of_life = BATCH_LIFE_MAX.as_secs();
        let mut aside = record(None);
        aside.quarantine = Some("sink says no".to_owned());
        let mut empty = record(None);
        empty.confirmed = 0;
        empty.sealed_at = Some(at(30));
        empty.status = Some(Status::Sealed);
        for record in [aside, empty] {
            assert_eq!(paused(&pauses, &record, 40), None);
        }
        assert_eq!(paused(&pauses, &record(None), 40), Some(end_of_life));
        assert_eq!(paused(&pauses, &record(None), end_of_life), None);
    }

    #[test]
    fn a_batch_waits_for_its_window_a_pause_the_hours_its_number_and_its_turn() {
        let mut record = record(None);
        let pauses = [pause(None, None, 50)];
        let part = PartId {
            batch: record.batch_id,
            part: 4,
        };
        let mut conditions = Conditions {
            pauses: &pauses,
            closed_until: Some(at(60)),
            turns: Some(Turns {
                rate: 1,
                free_at: at(2_000),
                next_at: at(76),
            }),
            behind: Some((part, at(70))),
        };
        let waits = |record: &BatchRecord, conditions: &Conditions<'_>, now| match gate(
            record,
            conditions,
            at(now),
        ) {
            Gate::Wait(Wait { until, why }) => Some((why, until.as_ms() / 1_000)),
            Gate::Deliver => None,
        };
        assert_eq!(waits(&record, &conditions, 29), Some((Why::Window, 30)));
        assert_eq!(waits(&record, &conditions, 30), Some((Why::Pause, 50)));
        assert_eq!(waits(&record, &conditions, 50), Some((Why::Hours, 60)));
        conditions.closed_until = None;
        let numbered = waits(&record, &conditions, 60);
        assert_eq!(numbered, Some((Why::Number(part), 70)));
        conditions.behind = None;
        let room_again = Some((Why::Turn, 2_000 - TURNS_AHEAD.as_secs() / 2));
        assert_eq!(waits(&record, &conditions, 70), room_again);
        record.turn_at = Some(at(80));
        assert_eq!(waits(&record, &conditions, 70), Some((Why::Turn, 80)));
        record.turn_at = Some(at(75));
        assert_eq!(waits(&record, &conditions, 75), Some((Why::Turn, 76)));
        assert_eq!(waits(&record, &conditions, 76), None);
        // The turn passed long ago.
        let late = TICKET_BACKOFF_MAX.as_secs() + 76;
        assert_eq!(waits(&record, &conditions, late), room_again);
    }
}
