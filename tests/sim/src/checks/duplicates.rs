//! The checks of reports of dropped duplicates.

use protocol::ids::SqsMessageId;
use protocol::invariants::{Check, hold};

use crate::ledger::{Occurrence, Sent};

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
    hold(
        "P8 a_dropped_duplicate_is_reported",
        !is_dropped || was_reported,
        || format!("{} was dropped without a report", message.sqs_message_id),
    )
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
    hold(
        "P8 a_report_names_who_claimed",
        !occurrences.is_empty() && named.is_none_or(has_claimed),
        || format!("{message} is reported as a duplicate of {named:?}; its event: {occurrences:?}"),
    )
}
