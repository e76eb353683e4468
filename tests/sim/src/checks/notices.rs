//! The checks of notices.

use protocol::batch::BatchRecord;
use protocol::ids::BatchId;
use protocol::invariants::{Check, hold};

/// INV-27: a notice is sent only after the write that it is about.
pub fn inv27_a_notice_is_about_what_happened(id: &str, happened: bool) -> Check {
    hold("INV-27 a_notice_is_about_what_happened", happened, || {
        format!("notice {id} is about something that did not happen")
    })
}

/// INV-28: all messages of a notice are equal.
pub fn inv28_a_notice_never_changes(id: &str, first: &str, again: &str) -> Check {
    hold("INV-28 a_notice_never_changes", first == again, || {
        format!("notice {id}: {first} became {again}")
    })
}

/// INV-30: the notice of an error is dropped only if as many others wait as a record takes.
pub fn inv30_a_notice_is_dropped_only_for_others(before: &BatchRecord) -> Check {
    hold(
        "INV-30 a_notice_is_dropped_only_for_others",
        !before.takes_notice(),
        || format!("batch {} takes a notice", before.batch_id),
    )
}

/// INV-33: a write removes from a record only notices that were sent.
pub fn inv33_what_is_removed_was_sent(batch: BatchId, unsent: &[String]) -> Check {
    hold("INV-33 what_is_removed_was_sent", unsent.is_empty(), || {
        format!("batch {batch} has lost {unsent:?}")
    })
}

/// P8 honest limits: the notice of a complete batch has the numbers of events that the sink got and rejected.
pub fn p8_a_notice_counts_what_the_sink_has(
    id: &str,
    noticed: [Option<u64>; 2],
    counted: [u64; 2],
) -> Check {
    hold(
        "P8 a_notice_counts_what_the_sink_has",
        noticed == counted.map(Some),
        || {
            format!(
                "notice {id}: delivered and rejected are {noticed:?}, at the sink are {counted:?}"
            )
        },
    )
}

/// P7 no stranding: at the end, every notice was sent.
pub fn p7_every_notice_is_sent(unsent: &[String]) -> Check {
    hold("P7 every_notice_is_sent", unsent.is_empty(), || {
        format!("never sent: {unsent:?}")
    })
}
