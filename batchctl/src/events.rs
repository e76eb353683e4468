//! Looks events up.

use protocol::batch::BatchRecord;
use protocol::claim::LockItem;
use protocol::ids::EventId;
use shared::ports::PortError;

use crate::service::Service;
use crate::verdict::{Verdict, judge};

/// What the tables have about an event, and what it means.
pub struct LookedUp {
    pub item: Option<LockItem>,
    /// The record of the batch that the item names.
    pub record: Option<BatchRecord>,
    pub verdict: Verdict,
}

/// Reads the lock item of an event, and the record of its batch, with strong consistency.
pub async fn look_up(service: &Service, id: &EventId) -> Result<LookedUp, PortError> {
    let item = service.lock_item(id).await?;
    let seat = item.as_ref().and_then(|item| item.state.claimed_seat());
    let record = match seat {
        Some(seat) => service.record(seat.batch).await?,
        None => None,
    };
    let verdict = judge(
        item.as_ref(),
        record.as_ref(),
        service.dedup_window,
        service.now(),
    );
    Ok(LookedUp {
        item,
        record,
        verdict,
    })
}
