//! The checks of what is reported: in the quarantine, in reject lists, as dropped duplicates, and in notices.

use protocol::batch::BatchRecord;
use protocol::ids::{BatchId, SqsMessageId};
use protocol::invariants::{Check, hold};
use protocol::seqs::SeqSet;
use shared::message_attributes::MessageAttributes;
use shared::ports::{Quarantined, StoredEvent};
use shared::quarantine_attributes::{of_producer, packed};

use crate::ledger::{Occurrence, Sent};

/// P8 honest limits: a message in the quarantine has the message attributes that were sent, and the event id.
pub fn p8_the_quarantine_has_what_was_sent(message: &Quarantined, sent: &Sent) -> Check {
    let arrived = of_producer(&packed(message).attributes);
    let as_sent = MessageAttributes::of(arrived) == sent.attributes;
    let holds = as_sent && message.event_id == sent.event_id;
    hold("P8 the_quarantine_has_what_was_sent", holds, || {
        format!("{message:?} was sent as {sent:?}")
    })
}

/// P1 no loss: an operator's command takes a message out of its queue only after it has sent the message to the input queue.
pub fn p1_what_is_redriven_was_sent(body: &str, was_sent: bool) -> Check {
    hold("P1 what_is_redriven_was_sent", was_sent, || {
        format!("deleted, and in no input queue: {body}")
    })
}

/// P8 honest limits: an operator's command has a batch set aside only after it has written the events of the batch to a file.
pub fn p8_a_discarded_event_is_saved(event: &StoredEvent, is_saved: bool) -> Check {
    hold("P8 a_discarded_event_is_saved", is_saved, || {
        format!("in no file: {event:?}")
    })
}

/// P1 no loss: an event counts as delivered only if the sink has it. A rejected one is in the reject list, with the reason.
pub fn p1_a_rejected_event_does_not_count_as_delivered(
    key: &str,
    rejected: &SeqSet,
    recorded: &SeqSet,
) -> Check {
    hold(
        "P1 a_rejected_event_does_not_count_as_delivered",
        rejected == recorded,
        || format!("part {key}: the sink rejected {rejected:?}, the record says {recorded:?}"),
    )
}

/// P1 no loss: a message is called a conflict only if another body of its event was delivered, or was still to be delivered when
/// the message was sent. If that other body was rejected or set aside before, this message claims the event.
pub fn p1_a_conflict_has_another_body(message: &Sent, occurrences: &[Occurrence]) -> Check {
    let sent_at = message.sent_at;
    let stands = |one: &Occurrence| {
        one.body_hash != message.body_hash && one.aside_at.is_none_or(|at| sent_at <= at)
    };
    let (id, holds) = (&message.sqs_message_id, occurrences.iter().any(stands));
    hold("P1 a_conflict_has_another_body", holds, || {
        format!("{id}, sent at {sent_at}, is called a conflict; its event: {occurrences:?}")
    })
}

/// P8 honest limits: where dropped duplicates are reported, a message that was acknowledged has claimed its event, is in the quarantine or
/// among the dead letters, or was reported.
pub fn p8_a_dropped_duplicate_is_reported(
    message: &Sent,
    occurrences: &[Occurrence],
    was_reported: bool,
) -> Check {
    let mut claims = occurrences.iter();
    let has_claimed = claims.any(|one| one.sqs_message_id == message.sqs_message_id);
    let is_dropped = message.acknowledged_at.is_some() && !message.reported && !has_claimed;
    let holds = !is_dropped || was_reported;
    hold("P8 a_dropped_duplicate_is_reported", holds, || {
        format!("{} was dropped without a report", message.sqs_message_id)
    })
}

/// P8 honest limits: the report of a duplicate names another message, which has claimed the event.
pub fn p8_a_report_names_who_claimed(
    message: &SqsMessageId,
    named: Option<&SqsMessageId>,
    occurrences: &[Occurrence],
) -> Check {
    let has_claimed = |id: &SqsMessageId| {
        let mut claims = occurrences.iter();
        id != message && claims.any(|one| one.sqs_message_id == *id)
    };
    let holds = !occurrences.is_empty() && named.is_none_or(has_claimed);
    hold("P8 a_report_names_who_claimed", holds, || {
        format!("{message} is reported as a duplicate of {named:?}; its event: {occurrences:?}")
    })
}

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
    let holds = !before.takes_notice();
    hold("INV-30 a_notice_is_dropped_only_for_others", holds, || {
        format!("batch {} takes a notice", before.batch_id)
    })
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
