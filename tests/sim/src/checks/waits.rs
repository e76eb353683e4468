//! The checks of what keeps a batch from the sink: pauses, and the numbers of other parts.

use std::time::Duration;

use protocol::ids::BatchId;
use protocol::invariants::{Check, hold};
use protocol::sequence::PartId;
use protocol::time::Timestamp;

use crate::pauses::{KnownPause, Subject};

/// P7 no stranding: a paused batch waits where it is. A processor that takes its lease after the pause was made delivers nothing of it.
pub fn p7_no_delivery_begins_in_a_pause(
    pauses: &[KnownPause],
    subject: &Subject,
    leased_at: Option<Timestamp>,
    latest_now: Timestamp,
) -> Check {
    let overlooked = pauses.iter().find(|pause| {
        pause.is_about(subject)
            && latest_now < pause.until
            && leased_at.is_none_or(|at| pause.from < at)
    });
    hold(
        "P7 no_delivery_begins_in_a_pause",
        overlooked.is_none(),
        || format!("{subject:?}, leased at {leased_at:?}, in {overlooked:?}"),
    )
}

/// P6 promptness, without faults: a batch that waited for the end of a pause goes to the sink with the next sweep after it.
pub fn p6_the_end_of_a_pause_wakes(
    batch: BatchId,
    ended_at: Timestamp,
    now: Timestamp,
    late_max: Duration,
) -> Check {
    hold(
        "P6 the_end_of_a_pause_wakes",
        now <= ended_at + late_max,
        || format!("batch {batch} was paused until {ended_at}, and begins at {now}"),
    )
}

/// P7 no stranding: a part does not wait for the number of another part that has ended, or whose batch has.
pub fn p7_no_part_waits_for_one_that_has_ended(batch: BatchId, ended: Option<PartId>) -> Check {
    hold(
        "P7 no_part_waits_for_one_that_has_ended",
        ended.is_none(),
        || format!("batch {batch} waits for the number of {ended:?}"),
    )
}

/// P7 no stranding: a batch waits for the end of a pause only if the pause is about it.
pub fn p7_a_batch_waits_for_its_own_pauses(batch: BatchId, strange: Option<&KnownPause>) -> Check {
    hold(
        "P7 a_batch_waits_for_its_own_pauses",
        strange.is_none(),
        || format!("batch {batch} waits for the end of {strange:?}"),
    )
}

/// P8 honest limits: only an operator has a batch set aside that is younger than ten days.
pub fn p8_no_young_batch_is_set_aside(batch: BatchId, is_old: bool) -> Check {
    hold("P8 no_young_batch_is_set_aside", is_old, || {
        format!("batch {batch} is to be set aside, and nobody asked for that")
    })
}
