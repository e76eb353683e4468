//! When a part may go to the sink: in the hours of delivery, and when its turn comes, if deliveries have a rate.
//!
//! With a rate, each part takes a turn that lasts as long as its events may take, after the turns of all other parts. The record
//! keeps a turn that is still to come, and the turn of an attempt that failed a short time ago, so that the part need not take
//! another one. A turn that passes outside the hours or in a pause is dropped: otherwise all such turns would come at once at the next
//! opening. A turn that was taken by a process that died is lost: deliveries are slower for that long.

use std::sync::Arc;
use std::time::Duration;

use protocol::batch::BatchRecord;
use protocol::limits::TICKET_BACKOFF_MAX;
use protocol::pause::kept_until;
use protocol::planted::{Bug, planted};
use protocol::retry::RetryPolicy;
use protocol::time::Timestamp;
use shared::delivery_hours::DeliveryHours;
use shared::ports::{PortError, TurnStore};
use shared::retry::Budget;

/// How long an invocation waits for a turn. A ticket and another invocation would cost more than a short wait.
const TURN_WAIT_MAX: Duration = Duration::from_secs(5);

/// The hours and the rate of deliveries.
pub(crate) struct Turns {
    pub(crate) hours: Option<DeliveryHours>,
    /// Events in a second.
    pub(crate) events_per_second: Option<u64>,
    pub(crate) turn_store: Arc<dyn TurnStore>,
}

/// When a part may go to the sink.
pub(crate) enum Turn {
    /// `turn_at` is the turn of this part, if deliveries have a rate.
    Now { turn_at: Option<Timestamp> },
    /// The batch is put back until `until`. `turn_at` is a turn that was taken, and that the record must keep.
    Later {
        until: Timestamp,
        turn_at: Option<Timestamp>,
    },
}

impl Turns {
    /// Returns when the hours of delivery begin, if it is not in them.
    pub(crate) fn closed_until(&self, record: &BatchRecord, now: Timestamp) -> Option<Timestamp> {
        let until = self.hours.as_ref()?.closed_until(now)?;
        kept_until(record, until, now)
    }

    /// Returns since when a batch could go to the sink: since it closed or, if that is later, since the hours of delivery began.
    pub(crate) fn deliverable_since(&self, record: &BatchRecord, now: Timestamp) -> Timestamp {
        let hours = self.hours.as_ref();
        let opened_at = hours.and_then(|hours| hours.open_since(now));
        opened_at.map_or(record.closed_at(), |at| at.max(record.closed_at()))
    }

    /// Returns a budget for the attempts at a part: none begins outside the hours of delivery.
    pub(crate) fn attempts<'b>(&self, budget: &Budget<'b>) -> Budget<'b> {
        let Some(hours) = &self.hours else {
            return *budget;
        };
        let now = budget.clock.now();
        // The hours may have ended since the turn was taken.
        let ended_at = (!planted(Bug::HoursOverlooked)).then_some(now);
        let closes_at = hours.open_until(now).or(ended_at);
        Budget {
            stop_at: closes_at.map_or(budget.stop_at, |at| at.min(budget.stop_at)),
            ..*budget
        }
    }

    /// Takes a turn for the next part of a batch, which has `events_count` events. Waits for it if it comes soon.
    pub(crate) async fn take(
        &self,
        record: &BatchRecord,
        events_count: usize,
        budget: &Budget<'_>,
    ) -> Result<Turn, PortError> {
        let now = budget.clock.now();
        let closed = || {
            let closed_until = self.closed_until(record, budget.clock.now());
            let closed_until = closed_until.filter(|_| !planted(Bug::HoursOverlooked));
            closed_until.map(|until| Turn::Later {
                until,
                turn_at: None,
            })
        };
        if let Some(later) = closed() {
            return Ok(later);
        }
        let is_later = record.parts.len() > 1 && planted(Bug::TurnOnlyOnce);
        let Some(rate) = self.events_per_second.filter(|_| !is_later) else {
            return Ok(Turn::Now { turn_at: None });
        };
        // While the sink is down, turns pass. If all of them were kept, all those events would come at once when it is back.
        let kept = record
            .turn_at
            .filter(|at| at.until(now) <= TICKET_BACKOFF_MAX);
        let turn_at = match kept {
            Some(turn_at) => turn_at,
            None => {
                let is_short = planted(Bug::TurnOfOneEvent);
                let events_count = if is_short { 1 } else { events_count };
                let length_ms = (events_count as u64 * 1_000).div_ceil(rate);
                let length = Duration::from_millis(length_ms);
                let take = || self.turn_store.take(now, length, rate);
                budget.call(RetryPolicy::CONTROL, take).await?
            }
        };
        let at_once = Turn::Now {
            turn_at: Some(turn_at),
        };
        let is_ignored = planted(Bug::TurnNotAwaited) && now.until(turn_at) <= TURN_WAIT_MAX;
        let wait = if is_ignored {
            Duration::ZERO
        } else {
            now.until(turn_at)
        };
        if wait <= TURN_WAIT_MAX && now + wait < budget.stop_at {
            budget.clock.sleep(wait).await;
            return Ok(closed().unwrap_or(at_once));
        }
        Ok(match kept_until(record, turn_at, now) {
            Some(until) => Turn::Later {
                until,
                turn_at: Some(turn_at),
            },
            None => at_once,
        })
    }
}
