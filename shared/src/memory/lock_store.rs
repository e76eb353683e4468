use std::collections::BTreeMap;
use std::sync::Mutex;

use async_trait::async_trait;
use protocol::claim::{Claim, LockItem, LockState};
use protocol::ids::{BatchId, BatchShard, BodyHash, EventId, SeatKey, Seq, SqsMessageId};
use protocol::limits::{BATCH_GET_KEYS_MAX, DYNAMODB_ITEM_BYTES_MAX, PARTIQL_STATEMENTS_MAX};
use protocol::time::Timestamp;

use crate::locked::locked;
use crate::message_attributes::MessageAttributes;
use crate::ports::{
    ClaimReply, IndexEntry, IndexPage, LockItems, LockStore, PortError, Release, ReleaseReply,
    StoredEvent,
};

/// Entries of one index page: few, so that tests read several pages.
const PAGE_ENTRIES: usize = 16;

/// An item of the lock table.
#[derive(Debug, Clone)]
pub struct Stored {
    pub item: LockItem,
    /// The event of a live claim; absent for a tombstone.
    pub event: Option<StoredEvent>,
    /// The seat of the claim that became the tombstone, if it is known.
    pub last_seat: Option<(BatchId, Seq)>,
}

/// The lock table in memory, with an index that is always up to date.
#[derive(Debug, Default)]
pub struct MemoryLockStore(Mutex<BTreeMap<EventId, Stored>>);

impl MemoryLockStore {
    pub fn new() -> MemoryLockStore {
        MemoryLockStore::default()
    }

    /// Returns every item, sorted by event id.
    pub fn items(&self) -> Vec<(EventId, LockItem)> {
        locked(&self.0)
            .iter()
            .map(|(id, stored)| (id.clone(), stored.item.clone()))
            .collect()
    }

    pub fn get(&self, id: &EventId) -> Option<LockItem> {
        locked(&self.0).get(id).map(|stored| stored.item.clone())
    }

    /// Changes the body of a live claim, as an edit by hand would. Returns whether there is a live claim.
    pub fn edit(&self, id: &EventId, body: &str) -> bool {
        let mut items = locked(&self.0);
        let Some(Stored {
            item,
            event: Some(event),
            ..
        }) = items.get_mut(id)
        else {
            return false;
        };
        item.body_hash = BodyHash::of(body.as_bytes());
        event.body_hash = item.body_hash;
        event.body = body.into();
        true
    }

    /// Puts an item without an event, as an operator or a former version of the service would.
    pub fn insert(&self, id: EventId, item: LockItem) {
        locked(&self.0).insert(
            id,
            Stored {
                item,
                event: None,
                last_seat: None,
            },
        );
    }

    /// Removes an item, as the TTL does.
    pub fn remove(&self, id: &EventId) {
        locked(&self.0).remove(id);
    }
}

impl Stored {
    /// Returns what a claim puts.
    pub fn of(claim: &Claim) -> Stored {
        let candidate = &claim.candidate;
        let shard = claim.seat.shard();
        Stored {
            item: LockItem {
                sqs_message_id: candidate.sqs_message_id.clone(),
                body_hash: candidate.body_hash,
                past: claim.past.clone(),
                state: LockState::Live {
                    shard,
                    seq: claim.seat.seq,
                },
                set_aside: false,
            },
            event: Some(StoredEvent {
                event_id: candidate.event_id.clone(),
                sqs_message_id: candidate.sqs_message_id.clone(),
                body_hash: candidate.body_hash,
                shard,
                seq: claim.seat.seq,
                body: match &claim.overflow {
                    None => candidate.body.clone(),
                    Some(_) => "".into(),
                },
                overflow: claim.overflow.clone().map(Box::new),
                source: candidate.source.clone(),
                sent_at: candidate.sent_at,
                attributes: candidate.attributes.as_deref().and_then(|text| {
                    MessageAttributes::read(text).expect("the aggregator writes such texts")
                }),
                quota: None,
            }),
            last_seat: None,
        }
    }
}

/// Returns whether the condition of a release holds.
fn holds(event: &StoredEvent, seat: SeatKey) -> bool {
    event.seat_key() == seat
}

/// Checks that a request has no more items than DynamoDB takes.
fn assert_fits<T>(items: &[T], max: usize) {
    assert!(items.len() <= max, "{} items in one request", items.len());
}

fn unstorable(claim: &Claim) -> Option<ClaimReply> {
    let bytes = claim.item_bytes();
    (bytes > DYNAMODB_ITEM_BYTES_MAX)
        .then(|| ClaimReply::Unstorable(format!("lock item: too large: got {bytes} bytes")))
}

#[async_trait]
impl LockItems for MemoryLockStore {
    async fn last_seat(&self, id: &EventId) -> Result<Option<(BatchId, Seq)>, PortError> {
        Ok(locked(&self.0).get(id).and_then(|stored| stored.last_seat))
    }

    async fn remove(&self, id: &EventId, expected: &LockItem) -> Result<bool, PortError> {
        let mut items = locked(&self.0);
        let stored = items.get(id);
        let is_there = stored.is_some_and(|stored| stored.item.is_same_state(expected));
        if is_there {
            items.remove(id);
        }
        Ok(is_there)
    }

    async fn remember(
        &self,
        id: &EventId,
        tombstone: &LockItem,
        seat: Option<(BatchId, Seq)>,
        expected: Option<&LockItem>,
    ) -> Result<bool, PortError> {
        let mut items = locked(&self.0);
        let found = items.get(id).map(|stored| &stored.item);
        let is_there = found == Some(tombstone);
        let may_put = match (found, expected) {
            (Some(found), Some(expected)) => found.is_same_state(expected),
            (found, expected) => found.is_none() && expected.is_none(),
        };
        if may_put {
            let tombstone = Stored {
                item: tombstone.clone(),
                event: None,
                last_seat: seat,
            };
            items.insert(id.clone(), tombstone);
        }
        Ok(may_put || is_there)
    }

    async fn scan(
        &self,
        each: &mut (dyn FnMut(EventId, LockItem) + Send),
    ) -> Result<(), PortError> {
        let items = self.items();
        items.into_iter().for_each(|(id, item)| each(id, item));
        Ok(())
    }
}

#[async_trait]
impl LockStore for MemoryLockStore {
    fn items_per_request(&self) -> usize {
        PARTIQL_STATEMENTS_MAX
    }

    async fn claim(&self, claims: &[Claim]) -> Vec<ClaimReply> {
        assert_fits(claims, PARTIQL_STATEMENTS_MAX);
        let mut items = locked(&self.0);
        let mut replies = Vec::with_capacity(claims.len());
        for claim in claims {
            replies.push(
                match (unstorable(claim), items.get(&claim.candidate.event_id)) {
                    (Some(reply), _) => reply,
                    (None, Some(stored)) => ClaimReply::Exists(Some(stored.item.clone())),
                    (None, None) => {
                        items.insert(claim.candidate.event_id.clone(), Stored::of(claim));
                        ClaimReply::Written
                    }
                },
            );
        }
        replies
    }

    async fn replace(&self, claim: &Claim, expected: &LockItem) -> ClaimReply {
        let mut items = locked(&self.0);
        if let Some(reply) = unstorable(claim) {
            return reply;
        }
        match items.get_mut(&claim.candidate.event_id) {
            Some(stored) if stored.item.is_same_state(expected) => {
                *stored = Stored::of(claim);
                ClaimReply::Written
            }
            other => ClaimReply::Exists(other.map(|stored| stored.item.clone())),
        }
    }

    async fn read(&self, ids: &[EventId]) -> Result<Vec<Option<LockItem>>, PortError> {
        assert_fits(ids, BATCH_GET_KEYS_MAX);
        let items = locked(&self.0);
        let item = |id: &EventId| Some(items.get(id)?.item.clone());
        Ok(ids.iter().map(item).collect())
    }

    async fn read_events(
        &self,
        ids: &[EventId],
    ) -> Result<(Vec<StoredEvent>, Vec<EventId>), PortError> {
        assert_fits(ids, BATCH_GET_KEYS_MAX);
        let items = locked(&self.0);
        let events = ids.iter().filter_map(|id| items.get(id)?.event.clone());
        Ok((events.collect(), Vec::new()))
    }

    async fn release(
        &self,
        released: &[(EventId, SeatKey)],
        release: Release,
    ) -> Vec<ReleaseReply> {
        assert_fits(released, PARTIQL_STATEMENTS_MAX);
        let mut items = locked(&self.0);
        for (id, seat) in released {
            let is_held = |event: &StoredEvent| holds(event, *seat);
            let stored = items.get_mut(id);
            let stored = stored.filter(|stored| stored.event.as_ref().is_some_and(is_held));
            let Some(stored) = stored else {
                continue;
            };
            match release {
                Release::Deleted => {
                    items.remove(id);
                }
                Release::Remembered(expires_at) | Release::SetAside(expires_at) => {
                    stored.event = None;
                    stored.last_seat = Some((seat.shard.batch, seat.seq));
                    stored.item.state = LockState::Tombstone { expires_at };
                    stored.item.set_aside = matches!(release, Release::SetAside(_));
                }
            }
        }
        released.iter().map(|_| ReleaseReply::Released).collect()
    }

    async fn mark_rejected(
        &self,
        id: &EventId,
        message: &SqsMessageId,
        seat: SeatKey,
        until: Timestamp,
    ) -> Result<(), PortError> {
        let mut items = locked(&self.0);
        let is_tombstone = |stored: &&mut Stored| {
            stored.event.is_none()
                && stored.item.sqs_message_id == *message
                && stored.last_seat == Some((seat.shard.batch, seat.seq))
                && !stored.item.set_aside
        };
        if let Some(stored) = items.get_mut(id).filter(is_tombstone) {
            stored.item.state = LockState::Tombstone { expires_at: until };
            stored.item.set_aside = true;
        }
        Ok(())
    }

    async fn index(
        &self,
        shard: BatchShard,
        after: Option<&IndexEntry>,
    ) -> Result<IndexPage, PortError> {
        let items = locked(&self.0);
        let mut entries: Vec<IndexEntry> = items
            .values()
            .filter_map(|stored| stored.event.as_ref())
            .filter(|event| event.shard == shard)
            .map(|event| IndexEntry {
                event_id: event.event_id.clone(),
                seq: event.seq,
            })
            .filter(|entry| after.is_none_or(|after| entry.seq > after.seq))
            .collect();
        entries.sort_by_key(|entry| entry.seq);
        let next = entries
            .get(PAGE_ENTRIES - 1)
            .filter(|_| entries.len() > PAGE_ENTRIES)
            .cloned();
        entries.truncate(PAGE_ENTRIES);
        Ok(IndexPage { entries, next })
    }

    async fn has_items(&self) -> Result<bool, PortError> {
        Ok(!locked(&self.0).is_empty())
    }
}
