//! The checks of what keeps a batch from the sink, pauses and the numbers of other parts, and of these numbers.

use std::time::Duration;

use protocol::chain::{ChainHash, Link};
use protocol::ids::BatchId;
use protocol::invariants::{Check, hold};
use protocol::sequence::{PartId, SequenceScope};
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
    let holds = overlooked.is_none();
    hold("P7 no_delivery_begins_in_a_pause", holds, || {
        format!("{subject:?}, leased at {leased_at:?}, in {overlooked:?}")
    })
}

/// P6 promptness, without faults: a batch that waited for the end of a pause goes to the sink with the next sweep after it.
pub fn p6_the_end_of_a_pause_wakes(
    batch: BatchId,
    ended_at: Timestamp,
    now: Timestamp,
    late_max: Duration,
) -> Check {
    let holds = now <= ended_at + late_max;
    hold("P6 the_end_of_a_pause_wakes", holds, || {
        format!("batch {batch} was paused until {ended_at}, and begins at {now}")
    })
}

/// P7 no stranding: a part does not wait for the number of another part that has ended, or whose batch has.
pub fn p7_no_part_waits_for_one_that_has_ended(batch: BatchId, ended: Option<PartId>) -> Check {
    let holds = ended.is_none();
    hold("P7 no_part_waits_for_one_that_has_ended", holds, || {
        format!("batch {batch} waits for the number of {ended:?}")
    })
}

/// P7 no stranding: a batch waits for the end of a pause only if the pause is about it.
pub fn p7_a_batch_waits_for_its_own_pauses(batch: BatchId, strange: Option<&KnownPause>) -> Check {
    let holds = strange.is_none();
    hold("P7 a_batch_waits_for_its_own_pauses", holds, || {
        format!("batch {batch} waits for the end of {strange:?}")
    })
}

/// P8 honest limits: only an operator has a batch set aside that is younger than ten days.
pub fn p8_no_young_batch_is_set_aside(batch: BatchId, is_old: bool) -> Check {
    hold("P8 no_young_batch_is_set_aside", is_old, || {
        format!("batch {batch} is to be set aside, and nobody asked for that")
    })
}

/// INV-31: the parts that a sink has of a source and a batch key are numbered 1, 2, 3 and so on, in the order in which it got
/// them. `before` is the number of the last part before this one.
pub fn inv31_numbers_have_no_gaps(
    key: &str,
    scope: &SequenceScope,
    before: u64,
    number: u64,
) -> Check {
    hold("INV-31 numbers_have_no_gaps", number == before + 1, || {
        format!("part {key} of {scope:?} has number {number}, the one before {before}")
    })
}

/// INV-31: a part has the same number at every attempt.
pub fn inv31_a_part_keeps_its_number(key: &str, first: Option<u64>, again: Option<u64>) -> Check {
    hold("INV-31 a_part_keeps_its_number", first == again, || {
        format!("part {key} had number {first:?}, now it has {again:?}")
    })
}

/// INV-39: a part has the same link at every attempt.
pub fn inv39_a_part_keeps_its_link(key: &str, first: Option<Link>, again: Option<Link>) -> Check {
    hold("INV-39 a_part_keeps_its_link", first == again, || {
        format!("part {key} had link {first:?}, now it has {again:?}")
    })
}

/// INV-39: the link of a part is after the part before it, or states a gap because the chain hash of that part `is_unknown`. `end` is
/// the number of the part before it and its chain hash.
pub fn inv39_links_make_a_chain(
    key: &str,
    end: (u64, ChainHash),
    link: Option<Link>,
    is_unknown: bool,
) -> Check {
    let holds = link.is_some_and(|link| {
        let is_next = (link.after, link.previous) == end;
        is_next || is_unknown && link.after < end.0.max(1)
    });
    hold("INV-39 links_make_a_chain", holds, || {
        format!("part {key} has link {link:?}, after {end:?}, which is unknown: {is_unknown}")
    })
}

/// INV-32: a batch is complete only after it gave its last number up. While its record lasts, it can tell whether the number was used.
pub fn inv32_a_complete_batch_holds_no_number(held: Option<PartId>) -> Check {
    let holds = held.is_none();
    hold("INV-32 a_complete_batch_holds_no_number", holds, || {
        format!("complete, and {held:?} holds the last number")
    })
}
