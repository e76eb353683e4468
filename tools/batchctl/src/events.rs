//! Looks events up.

use protocol::batch::BatchRecord;
use protocol::claim::LockItem;
use protocol::ids::{BodyHash, EventId};
use shared::ports::PortError;

use crate::event_state::{Classification, EventState, classify};
use crate::failure::Failure;
use crate::log_index::{self, Entry, Runs};
use crate::service::Service;

/// What the tables have about an event, and what it means.
pub struct LookedUp {
    pub item: Option<LockItem>,
    /// The record of the batch that the item names, or that released it.
    pub record: Option<BatchRecord>,
    /// What the index of the log remembers.
    pub entry: Option<Entry>,
    /// Whether `classification` and `record` are those of the entry, and not of the item.
    pub is_of_entry: bool,
    pub classification: Classification,
}

impl LookedUp {
    /// Returns whether the event was claimed, or won, with this body; `None` if its body is not known.
    pub fn has_body(&self, body: &[u8]) -> Option<bool> {
        match (&self.item, &self.entry) {
            (_, Some(entry)) if self.is_of_entry => entry.has_body(body),
            (Some(item), _) => Some(BodyHash::of(body) == item.body_hash),
            (None, _) => None,
        }
    }
}

/// Looks an event up in the lock table and in the index of the log, of which every run is read that is not in `runs`. What the index says
/// counts, unless the lock table has a claim that is not delivered yet, or remembers the event for longer.
pub async fn look_up(
    service: &Service,
    id: &EventId,
    runs: &mut Runs,
) -> Result<LookedUp, Failure> {
    let looked_up = look_up_item(service, id).await?;
    let Some(mut entry) = log_index::find(service, id, runs).await? else {
        return Ok(looked_up);
    };
    let record = entry.record.take();
    let of_entry = entry.classification.clone();
    let of_item = &looked_up.classification;
    let is_of_item = of_item.state == EventState::Live
        || (of_entry.state != EventState::Live && of_item.until > of_entry.until);
    Ok(match is_of_item {
        true => LookedUp {
            entry: Some(entry),
            ..looked_up
        },
        false => LookedUp {
            item: looked_up.item,
            record,
            entry: Some(entry),
            is_of_entry: true,
            classification: of_entry,
        },
    })
}

/// Reads the lock item of an event, and the record of its batch, with strong consistency.
async fn look_up_item(service: &Service, id: &EventId) -> Result<LookedUp, PortError> {
    let mut items = service.lock_store.read(std::slice::from_ref(id)).await?;
    let item = items.pop().flatten();
    let seat = match &item {
        None => None,
        Some(item) => match item.state.claimed_seat() {
            Some(seat) => Some(seat),
            None => service.lock_items.last_seat(id).await?,
        },
    };
    let record = match seat {
        Some((batch, _)) => service.record(batch).await?,
        None => None,
    };
    let (window, now) = (service.dedup_window, service.now());
    let classification = classify(item.as_ref(), seat, record.as_ref(), window, now);
    Ok(LookedUp {
        item,
        record,
        entry: None,
        is_of_entry: false,
        classification,
    })
}
