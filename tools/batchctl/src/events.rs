//! Looks events up.

use protocol::batch::BatchRecord;
use protocol::claim::LockItem;
use protocol::ids::EventId;
use shared::ports::PortError;

use crate::event_state::{Classification, classify, classify_entry};
use crate::log_index::{self, Entry};
use crate::service::Service;

/// What the tables have about an event, and what it means.
pub struct LookedUp {
    pub item: Option<LockItem>,
    /// The record of the batch that the item names, or that released it.
    pub record: Option<BatchRecord>,
    /// What the index of the log remembers, if there is no lock item.
    pub entry: Option<Entry>,
    pub classification: Classification,
}

/// Looks an event up, and if it has no lock item, in the index of the log, of which every run is read.
pub async fn look_up_in_index(service: &Service, id: &EventId) -> Result<LookedUp, PortError> {
    let looked_up = look_up(service, id).await?;
    if looked_up.item.is_some() {
        return Ok(looked_up);
    }
    let Some(mut entry) = log_index::find(service, id).await? else {
        return Ok(looked_up);
    };
    let record = entry.record.take();
    let classification = classify_entry(entry.seat, record.as_ref(), service.now());
    Ok(LookedUp {
        item: None,
        record,
        entry: Some(entry),
        classification,
    })
}

/// Reads the lock item of an event, and the record of its batch, with strong consistency.
pub async fn look_up(service: &Service, id: &EventId) -> Result<LookedUp, PortError> {
    let item = service.lock_item(id).await?;
    let seat = match &item {
        None => None,
        Some(item) => match item.state.claimed_seat() {
            Some(seat) => Some((seat.batch, seat.seq)),
            None => service.lock_items.last_seat(id).await?,
        },
    };
    let record = match seat {
        Some((batch, _)) => service.record(batch).await?,
        None => None,
    };
    let classification = classify(
        item.as_ref(),
        seat,
        record.as_ref(),
        service.dedup_window,
        service.now(),
    );
    Ok(LookedUp {
        item,
        record,
        entry: None,
        classification,
    })
}
