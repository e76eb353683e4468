//! The whole lock table, as a switch to the log or back reads it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use aws::BatchSummary;
use protocol::batch::BatchRecord;
use protocol::claim::{LockItem, LockState, SeatResolution, seat_resolution};
use protocol::ids::{BatchId, EventId};
use protocol::limits::DECIDED_WITHIN;
use protocol::time::Timestamp;

use crate::failure::Failure;
use crate::filter::Filter;
use crate::listing::{BATCHES_MAX, list};
use crate::service::Service;

/// A lock item whose claim has ended.
pub struct Ended {
    pub id: EventId,
    pub item: LockItem,
    /// `None` if nobody needs to remember it.
    pub memory: Option<Memory>,
}

/// What is remembered of a claim that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// Lines that were stored before this time are decided by it, also after it.
    pub until: Timestamp,
    /// Whether the event was set aside or rejected: only its message is remembered, and another one may claim it.
    pub set_aside: bool,
}

/// Returns the batches that are not complete, of those that are meant.
///
/// # Errors
/// [`Failure::Refused`] if a record cannot be read.
pub async fn not_complete(
    service: &Service,
    is_meant: impl Fn(&BatchSummary) -> bool,
) -> Result<BTreeSet<BatchId>, Failure> {
    let listed = list(service, &Filter::default(), BATCHES_MAX).await?;
    if let Some(problem) = listed.malformed.first() {
        return Err(Failure::Refused(problem.clone()));
    }
    let meant = listed.batches.iter().filter(|batch| is_meant(batch));
    Ok(meant.map(|batch| batch.batch_id).collect())
}

/// Refuses a switch while these batches are not complete.
///
/// # Errors
/// [`Failure::Refused`] if there are any.
pub fn refuse(open: &BTreeSet<BatchId>) -> Result<(), Failure> {
    match open.first() {
        None => Ok(()),
        Some(oldest) => Err(Failure::Refused(format!(
            "batches that are not complete: got {}, expected none; the oldest is `{oldest}`. Stop the event source mapping, and wait until every batch is complete",
            open.len()
        ))),
    }
}

/// Reads the lock table, and the records of its claims.
///
/// # Errors
/// [`Failure::Refused`] if an event is claimed and not delivered yet.
pub async fn read(service: &Service) -> Result<Vec<Ended>, Failure> {
    let mut items: Vec<(EventId, LockItem)> = Vec::new();
    let mut each = |id, item| items.push((id, item));
    service.lock_items.scan(&mut each).await?;
    let seats = items.iter();
    let seats = seats.filter_map(|(_, item)| item.state.claimed_seat());
    let batches: BTreeSet<BatchId> = seats.map(|(batch, _)| batch).collect();
    let mut records: BTreeMap<BatchId, BatchRecord> = BTreeMap::new();
    for batch in batches {
        if let Some(record) = service.record(batch).await? {
            records.insert(batch, record);
        }
    }
    let now = service.now();
    let mut ended = Vec::new();
    let mut alive = 0;
    for (id, item) in items {
        let seat = item.state.claimed_seat();
        let record = seat.and_then(|(batch, _)| records.get(&batch));
        match became(&item, record, service.dedup_window, now) {
            Became::Alive => alive += 1,
            Became::Ended(memory) => ended.push(Ended { id, item, memory }),
        }
    }
    match alive {
        0 => Ok(ended),
        count => Err(Failure::Refused(format!(
            "events that are claimed and not delivered yet: got {count}, expected none. Stop the event source mapping, and wait until every batch is complete"
        ))),
    }
}

/// Returns whether lines that are not decided yet may have been stored before `until`.
pub fn still_decides(until: Timestamp, now: Timestamp) -> bool {
    now < until + DECIDED_WITHIN
}

/// What became of the claim of a lock item.
#[derive(Debug, PartialEq, Eq)]
enum Became {
    Alive,
    Ended(Option<Memory>),
}

fn became(
    item: &LockItem,
    record: Option<&BatchRecord>,
    dedup_window: Duration,
    now: Timestamp,
) -> Became {
    let (until, set_aside) = match item.state {
        LockState::Tombstone { expires_at } => (expires_at, item.set_aside),
        LockState::Live { .. } => match seat_resolution(record, &item.state, dedup_window, now) {
            SeatResolution::Alive => return Became::Alive,
            SeatResolution::Delivered { until } => (until, false),
            SeatResolution::SetAside { until } => (until, true),
            SeatResolution::Orphan | SeatResolution::Expired | SeatResolution::Unknown => {
                return Became::Ended(None);
            }
        },
    };
    let memory = Memory { until, set_aside };
    Became::Ended(still_decides(until, now).then_some(memory))
}

/// An item for the tests of this crate.
#[cfg(test)]
pub fn item(state: LockState, set_aside: bool) -> LockItem {
    LockItem {
        sqs_message_id: "m".parse().unwrap(),
        body_hash: protocol::ids::BodyHash::of(b"body"),
        past: BTreeMap::new(),
        state,
        set_aside,
    }
}

#[cfg(test)]
mod tests {
    use protocol::ids::BatchShard;

    use super::*;

    const NOW: Timestamp = Timestamp::from_ms(1_000_000);

    #[test]
    fn a_tombstone_is_remembered_while_it_may_decide_and_one_of_a_set_aside_event_by_its_message() {
        let of = |expires_at, set_aside, now| {
            let item = item(LockState::Tombstone { expires_at }, set_aside);
            became(&item, None, Duration::from_secs(1), now)
        };
        let now = NOW + DECIDED_WITHIN;
        let of = |until, set_aside| of(until, set_aside, now);
        for until in [NOW + Duration::from_millis(1), now] {
            for set_aside in [false, true] {
                let memory = Memory { until, set_aside };
                assert_eq!(of(until, set_aside), Became::Ended(Some(memory)));
            }
        }
        assert_eq!(of(NOW, false), Became::Ended(None));
    }

    #[test]
    fn a_claim_whose_batch_is_gone_is_not_remembered() {
        let batch = BatchId::new(uuid::Uuid::from_u128(1));
        let shard = BatchShard { batch, shard: 0 };
        let item = item(LockState::Live { shard, seq: 0 }, false);
        let became = became(&item, None, Duration::from_secs(1), NOW);
        assert_eq!(became, Became::Ended(None));
    }
}
