//! What the tables say about an event: the answer of `find`, and what `redrive` and `forget` decide by.
//!
//! What a claim means is decided by `protocol::claim::seat_resolution`; this file puts its answer into words.

use std::time::Duration;

use protocol::batch::{BatchRecord, PartState, Role, role};
use protocol::claim::{
    LockItem, LockState, SeatResolution, listed_seat_resolution, seat_resolution,
};
use protocol::ids::{BatchId, Seq};
use protocol::time::Timestamp;
use serde::Serialize;

/// What became of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum EventState {
    /// Claimed, and its batch will deliver it.
    Live,
    /// The sink has it, and its id is remembered.
    Delivered,
    /// It was delivered, and its id is no longer remembered: another message of it will be claimed.
    Forgotten,
    /// Its record is only in a reject list: the sink did not take it. Another message of it will be claimed.
    Rejected,
    /// It is in the quarantine. Another message of it will be claimed.
    SetAside,
    /// Its batch is complete without it, or gone: it was never delivered, and any message of it will be claimed.
    Orphan,
    /// The record of its batch is missing or contradicts the claim. Its messages fail until the claim expires.
    Unclear,
    /// There is no lock item, nor an entry in the index of the log: the event was never claimed, or was delivered and is forgotten.
    Unknown,
}

impl EventState {
    pub fn words(self) -> &'static str {
        match self {
            EventState::Live => "live: claimed, and its batch will deliver it",
            EventState::Delivered => "delivered",
            EventState::Forgotten => "delivered, and no longer remembered",
            EventState::Rejected => "rejected: in the reject list of its part, not delivered",
            EventState::SetAside => "set aside: in the quarantine, not delivered",
            EventState::Orphan => {
                "orphan: claimed, and never delivered by its batch, which has ended"
            }
            EventState::Unclear => {
                "unclear: the record of its batch is missing, or contradicts the claim"
            }
            EventState::Unknown => "unknown: never claimed, or delivered and forgotten",
        }
    }
}

/// What the tables say about an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Classification {
    pub state: EventState,
    /// The batch and the seat of its claim. A tombstone of an earlier version does not name them.
    pub seat: Option<(BatchId, Seq)>,
    /// The part that has the event or its reject; several if the record does not say which of them.
    pub parts: Vec<usize>,
    /// When the sink had it, as exactly as the tables say.
    pub delivered_at: Option<Timestamp>,
    /// Until when its id is remembered.
    pub until: Option<Timestamp>,
}

impl Classification {
    /// Returns what is known of an event of which only the state is known.
    pub fn of(state: EventState) -> Classification {
        Classification {
            state,
            seat: None,
            parts: Vec::new(),
            delivered_at: None,
            until: None,
        }
    }
}

/// Returns what a lock item, and the record of its batch, say about its event. `seat` is that of the claim, or of the claim that
/// became this tombstone. `dedup_window` is `DEDUP_WINDOW`.
pub fn classify(
    item: Option<&LockItem>,
    seat: Option<(BatchId, Seq)>,
    record: Option<&BatchRecord>,
    dedup_window: Duration,
    now: Timestamp,
) -> Classification {
    let Some(item) = item else {
        return Classification::of(EventState::Unknown);
    };
    if let LockState::Tombstone { expires_at } = item.state {
        return of_tombstone(item.set_aside, expires_at, seat, record, dedup_window, now);
    }
    let Some((batch, seq)) = seat else {
        return Classification::of(EventState::Unknown);
    };
    let resolution = seat_resolution(record, &item.state, dedup_window, now);
    let delivery = record.map(|record| delivery(record, seq));
    let (parts, delivered_at) = delivery.unwrap_or_default();
    // While a batch is not complete, a claim with its body counts as alive until it is released. Its seat may have ended.
    let ended = record.is_some_and(|record| role(record, seq) == Role::Leftover);
    let (state, until) = match resolution {
        SeatResolution::Alive if ended => (EventState::Delivered, None),
        SeatResolution::Alive => (EventState::Live, None),
        SeatResolution::Delivered { until } => (remembered(until, now), Some(until)),
        SeatResolution::SetAside { until } => (not_delivered(record, seq), Some(until)),
        SeatResolution::Orphan | SeatResolution::Expired => (EventState::Orphan, None),
        SeatResolution::Unknown => (EventState::Unclear, None),
    };
    of_seat((batch, seq), state, until, (parts, delivered_at))
}

/// Returns what is known of the event in a seat. `delivery` counts only if it was delivered or rejected.
fn of_seat(
    seat: (BatchId, Seq),
    state: EventState,
    until: Option<Timestamp>,
    (parts, delivered_at): (Vec<usize>, Option<Timestamp>),
) -> Classification {
    let was_delivered = matches!(state, EventState::Delivered | EventState::Forgotten);
    let is_in_part = was_delivered || state == EventState::Rejected;
    Classification {
        state,
        seat: Some(seat),
        parts: if is_in_part { parts } else { Vec::new() },
        delivered_at: delivered_at.filter(|_| was_delivered),
        until,
    }
}

/// Returns what the record of its batch says about an event that the index of the log remembers.
pub fn classify_entry(
    seat: (BatchId, Seq),
    record: Option<&BatchRecord>,
    now: Timestamp,
) -> Classification {
    let seq = seat.1;
    let delivered = record.map(|record| delivery(record, seq));
    let resolution = record.map(|record| listed_seat_resolution(record, seq, now));
    let (state, until) = match resolution {
        Some(SeatResolution::Alive) => (EventState::Live, None),
        Some(SeatResolution::Delivered { until }) => (remembered(until, now), Some(until)),
        Some(SeatResolution::SetAside { until }) => (not_delivered(record, seq), Some(until)),
        Some(SeatResolution::Orphan | SeatResolution::Expired | SeatResolution::Unknown) | None => {
            (EventState::Unclear, None)
        }
    };
    of_seat(seat, state, until, delivered.unwrap_or_default())
}

/// Returns what is known of an event that an operator had the index remember until `until`.
pub fn classify_primed(until: Timestamp, now: Timestamp) -> Classification {
    Classification {
        until: Some(until),
        ..Classification::of(remembered(until, now))
    }
}

/// Returns what a tombstone says. `record` is that of the batch that released it, if it is known.
fn of_tombstone(
    set_aside: bool,
    expires_at: Timestamp,
    seat: Option<(BatchId, Seq)>,
    record: Option<&BatchRecord>,
    dedup_window: Duration,
    now: Timestamp,
) -> Classification {
    let (parts, at) = match (record, seat) {
        (Some(record), Some((_, seq))) => delivery(record, seq),
        _ => Default::default(),
    };
    // A tombstone is written right after the delivery.
    let at = at.unwrap_or_else(|| expires_at.saturating_sub(dedup_window));
    Classification {
        state: match (set_aside, seat) {
            (false, _) => remembered(expires_at, now),
            (true, Some((_, seq))) => not_delivered(record, seq),
            (true, None) => EventState::SetAside,
        },
        seat,
        parts,
        delivered_at: (!set_aside).then_some(at),
        until: Some(expires_at),
    }
}

/// Returns the state of an event that has ended without a delivery.
fn not_delivered(record: Option<&BatchRecord>, seq: Seq) -> EventState {
    match record.is_some_and(|record| record.rejected().contains(seq)) {
        true => EventState::Rejected,
        false => EventState::SetAside,
    }
}

/// Returns the state of an event that was delivered and is remembered until `until`.
fn remembered(until: Timestamp, now: Timestamp) -> EventState {
    match until > now {
        true => EventState::Delivered,
        false => EventState::Forgotten,
    }
}

/// Returns the part that has a seat, or the parts of which one has it, and when it was delivered.
fn delivery(record: &BatchRecord, seq: Seq) -> (Vec<usize>, Option<Timestamp>) {
    let delivered = record.parts.iter().enumerate().filter_map(|(index, part)| {
        let PartState::Delivered { at, .. } = part.state else {
            return None;
        };
        Some((index, &part.members, at))
    });
    let delivered: Vec<_> = delivered.collect();
    let mut all = delivered.iter();
    let own = all.find(|(_, members, _)| members.contains(seq));
    if let Some((index, _, at)) = own {
        return (vec![*index], at.or(record.completed_at));
    }
    if !record.delivered.contains(seq) {
        return (Vec::new(), None);
    }
    // The parts that keep no set of their own share one.
    let shared = delivered.iter();
    let shared = shared.filter(|(_, members, _)| members.is_empty());
    let parts: Vec<usize> = shared.map(|(index, _, _)| *index).collect();
    let at = record.shared_parts_delivered_at().or(record.completed_at);
    (parts, at)
}

#[cfg(test)]
mod tests {
    use protocol::batch::{PartRecord, Status};
    use protocol::bodies::{Bodies, ObjectPlace};
    use protocol::ids::BatchShard;
    use protocol::seqs::SeqSet;

    use super::*;
    use crate::lock_table::item;

    const WINDOW: Duration = Duration::from_secs(100);
    const NOW: Timestamp = Timestamp::from_ms(1_000_000);

    fn at(secs: u64) -> Timestamp {
        Timestamp::from_ms(secs * 1_000)
    }

    fn batch() -> BatchId {
        "0190163d-8694-739b-aea5-966c26f8ad91".parse().unwrap()
    }

    fn tombstone(secs: u64, set_aside: bool) -> LockItem {
        let expires_at = at(secs);
        item(LockState::Tombstone { expires_at }, set_aside)
    }

    fn live(seq: Seq) -> LockItem {
        let shard = BatchShard {
            batch: batch(),
            shard: 0,
        };
        item(LockState::Live { shard, seq }, false)
    }

    const LOG: Bodies = Bodies::Log(ObjectPlace::Table);

    /// Returns the record of a batch with the seats 0 to 2 in a delivered part, and 3 in a frozen one.
    fn record(bodies: Bodies, status: Option<Status>) -> BatchRecord {
        let opened = BatchRecord::open(batch(), "arn:q".parse().unwrap(), None, 1, at(1), at(2));
        let mut record = opened.with_bodies(bodies, WINDOW);
        let part = |seqs: std::ops::Range<u32>| PartRecord::frozen(seqs.collect(), [7; 32], None);
        record.parts = vec![part(0..3), part(3..4)];
        record.parts[0].state = PartState::Delivered {
            receipt: "r".to_owned(),
            at: Some(at(950)),
        };
        record.status = status;
        record.completed_at = status.is_none().then(|| at(960));
        record
    }

    /// Returns what is known of a seat of the log that the index remembers.
    fn of_entry(seq: Seq, record: Option<&BatchRecord>) -> Classification {
        classify_entry((batch(), seq), record, NOW)
    }

    fn classified(item: &LockItem, record: Option<&BatchRecord>) -> Classification {
        classify(Some(item), item.state.claimed_seat(), record, WINDOW, NOW)
    }

    #[test]
    fn an_event_without_an_item_is_unknown() {
        let classification = classify(None, None, None, WINDOW, NOW);
        assert_eq!(classification, Classification::of(EventState::Unknown));
    }

    #[test]
    fn a_tombstone_is_a_delivered_event_until_its_window_ends() {
        let classification = |secs| classified(&tombstone(secs, false), None);
        let delivered = classification(1_050);
        assert_eq!(delivered.state, EventState::Delivered);
        assert_eq!(delivered.delivered_at, Some(at(950)));
        assert_eq!(delivered.until, Some(at(1_050)));
        assert_eq!(classification(1_000).state, EventState::Forgotten);
    }

    #[test]
    fn the_batch_that_released_a_tombstone_says_in_which_part_its_event_was() {
        let complete = record(Bodies::Items, None);
        let seat = Some((batch(), 2));
        let tombstone = tombstone(1_052, false);
        let classification = classify(Some(&tombstone), seat, Some(&complete), WINDOW, NOW);
        assert_eq!((classification.parts, classification.seat), (vec![0], seat));
        // As the part says.
        assert_eq!(classification.delivered_at, Some(at(950)));
    }

    #[test]
    fn the_tombstone_of_an_event_that_was_set_aside_was_not_delivered() {
        let classification = classified(&tombstone(1_050, true), None);
        assert_eq!(classification.state, EventState::SetAside);
        assert_eq!(classification.delivered_at, None);
    }

    #[test]
    fn a_rejected_event_was_not_delivered_before_and_after_its_release_in_both_layouts() {
        let rejects = |bodies, status| {
            let mut rejects = record(bodies, status);
            rejects.parts[0].rejected = 1;
            rejects.set_aside = [1].into_iter().collect();
            rejects
        };
        let tombstone = tombstone(1_050, true);
        let seat = Some((batch(), 1));
        let processing = Some(Status::Processing);
        let [of_items, of_log] = [Bodies::Items, LOG].map(|all| rejects(all, None));
        let found = [
            classified(&live(1), Some(&rejects(Bodies::Items, processing))),
            of_entry(1, Some(&rejects(LOG, processing))),
            of_entry(1, Some(&of_log)),
            classify(Some(&tombstone), seat, Some(&of_items), WINDOW, NOW),
        ];
        for classification in found {
            assert_eq!(classification.state, EventState::Rejected);
            let in_part = (classification.parts, classification.delivered_at);
            assert_eq!(in_part, (vec![0], None));
        }
        let neighbour = of_entry(2, Some(&of_log));
        assert_eq!(neighbour.state, EventState::Delivered);
    }

    #[test]
    fn a_claim_is_live_until_its_part_is_delivered_in_both_layouts() {
        type Of = fn(Seq, &BatchRecord) -> Classification;
        let layouts: [(Bodies, Of); 2] = [
            (Bodies::Items, |seq, record| {
                classified(&live(seq), Some(record))
            }),
            (LOG, |seq, record| of_entry(seq, Some(record))),
        ];
        for (bodies, of) in layouts {
            let open = record(bodies, Some(Status::Processing));
            let frozen = of(3, &open);
            assert_eq!(frozen.state, EventState::Live);
            assert_eq!((frozen.parts.len(), frozen.seat), (0, Some((batch(), 3))));
            assert_eq!(of(4, &open).state, EventState::Live);
            let delivered = of(1, &open);
            assert_eq!(delivered.state, EventState::Delivered);
            assert_eq!(delivered.parts, [0]);
            assert_eq!(delivered.delivered_at, Some(at(950)));
            let mut aside = open.clone();
            aside.set_aside = [7].into_iter().collect();
            let classification = of(7, &aside);
            assert_eq!(classification.state, EventState::SetAside);
        }
    }

    #[test]
    fn a_claim_of_a_complete_batch_is_delivered_or_an_orphan() {
        let mut complete = record(Bodies::Items, None);
        complete.parts.pop();
        complete.set_aside = [9].into_iter().collect();
        let delivered = classified(&live(1), Some(&complete));
        assert_eq!(delivered.state, EventState::Delivered);
        assert_eq!(delivered.until, Some(at(1_060)));
        let orphan = classified(&live(4), Some(&complete));
        assert_eq!(orphan.state, EventState::Orphan);
        let set_aside = classified(&live(9), Some(&complete));
        assert_eq!(set_aside.state, EventState::SetAside);
    }

    #[test]
    fn an_entry_of_a_complete_batch_is_delivered_until_its_window_ends() {
        let mut complete = record(LOG, None);
        complete.parts.pop();
        let delivered = of_entry(1, Some(&complete));
        assert_eq!(delivered.state, EventState::Delivered);
        assert_eq!(delivered.until, Some(at(1_050)));
        let later = classify_entry((batch(), 1), Some(&complete), at(1_051));
        assert_eq!((later.state, later.parts.len()), (EventState::Forgotten, 1));
    }

    #[test]
    fn a_seat_in_the_shared_set_is_in_one_of_the_parts_that_share_it() {
        let mut complete = record(LOG, None);
        complete.parts.pop();
        let mut second = complete.parts[0].clone();
        second.state = PartState::Delivered {
            receipt: "r".to_owned(),
            at: Some(at(955)),
        };
        complete.parts.push(second);
        for part in &mut complete.parts {
            part.members = SeqSet::new();
        }
        complete.delivered = (0..6).collect();
        let classification = of_entry(5, Some(&complete));
        assert_eq!(classification.parts, [0, 1]);
        assert_eq!(classification.delivered_at, Some(at(955)));
    }

    #[test]
    fn a_claim_without_a_record_is_an_orphan_or_unclear() {
        assert_eq!(classified(&live(1), None).state, EventState::Orphan);
        assert_eq!(of_entry(1, None).state, EventState::Unclear);
    }
}
