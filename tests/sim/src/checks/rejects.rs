//! The promises about events that the sink rejects.

use protocol::invariants::{Check, hold};
use protocol::seqs::SeqSet;

use crate::ledger::{Occurrence, Sent};

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
    hold(
        "P1 a_conflict_has_another_body",
        occurrences.iter().any(stands),
        || {
            let id = &message.sqs_message_id;
            format!("{id}, sent at {sent_at}, is called a conflict; its event: {occurrences:?}")
        },
    )
}
