//! The checks of periods, quotas and hours, and of when batches are sealed.

use protocol::batch::BatchRecord;
use protocol::ids::BatchId;
use protocol::invariants::{Check, hold};
use protocol::time::Timestamp;
use sinks::Part;

use crate::ledger::Quota;

/// P6 promptness: a batch that waited for the hours of delivery goes to the sink when they begin.
pub fn p6_the_hours_open_on_time(part: &Part, opening: Timestamp, in_time: bool) -> Check {
    hold("P6 the_hours_open_on_time", in_time, || {
        format!("{} waited for {opening}", part.key())
    })
}

/// P6 promptness: once there are no faults, a sweep sends a ticket to every batch that was due, or waited for a pause that had ended
/// early, when the sweep began.
pub fn p6_a_sweep_wakes_what_is_due(left: Option<&(BatchId, Timestamp)>) -> Check {
    hold("P6 a_sweep_wakes_what_is_due", left.is_none(), || {
        format!("batch and due time: {left:?}")
    })
}

/// P7 no stranding: outside the hours of delivery a batch waits where it is.
pub fn p7_no_delivery_begins_outside_the_hours(now: Timestamp, in_hours: bool) -> Check {
    hold("P7 no_delivery_begins_outside_the_hours", in_hours, || {
        format!("a delivery begins at {now}")
    })
}

/// P9 quota: of a key and a period, at most so many events are delivered.
pub fn p9_at_most_the_quota_is_delivered(scope: &Quota, delivered: usize, max: u64) -> Check {
    let holds = delivered as u64 <= max;
    hold("P9 at_most_the_quota_is_delivered", holds, || {
        format!("{delivered} events of {scope:?}, and the quota is {max}")
    })
}

/// P9 quota: where an event is beyond its quota, all places were used.
pub fn p9_no_place_is_left_where_an_event_is_beyond(scope: &Quota, used: usize, max: u64) -> Check {
    hold(
        "P9 no_place_is_left_where_an_event_is_beyond",
        max <= used as u64,
        || format!("an event of {scope:?} is beyond the quota {max}, of which {used} were used"),
    )
}

/// P9 quota: an event that was set aside or rejected keeps its place, so another message of it is not beyond the quota.
pub fn p9_what_was_set_aside_keeps_its_place(scope: &Quota, holds: bool, what: &str) -> Check {
    hold("P9 what_was_set_aside_keeps_its_place", holds, || {
        format!("{what} is beyond the quota of {scope:?}")
    })
}

/// P10: every event is in exactly one period, and a part has events of one.
pub fn p10_a_part_is_of_one_period(part: &Part, holds: bool, times: &[Timestamp]) -> Check {
    hold("P10 a_part_is_of_one_period", holds, || {
        format!(
            "{} is of {:?}, its events of {times:?}",
            part.key(),
            part.period
        )
    })
}

/// P10 calendar: a batch is sealed before its window ends, and so before the end of its period, only for a reason.
pub fn p10_a_batch_is_sealed_for_a_reason(
    before: &BatchRecord,
    now: Timestamp,
    has_reason: bool,
) -> Check {
    hold("P10 a_batch_is_sealed_for_a_reason", has_reason, || {
        format!("sealed at {now}: {before:?}")
    })
}

/// P6 prompt, without faults: once an urgent event is claimed, its batch takes no more events.
pub fn p6_an_urgent_batch_is_sealed(open: Option<BatchId>) -> Check {
    hold("P6 an_urgent_batch_is_sealed", open.is_none(), || {
        format!("{open:?} has an urgent event, and is open")
    })
}
