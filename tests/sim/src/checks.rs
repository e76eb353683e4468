//! The promises of the service, as named pure functions of what really happened.
//!
//! The invariants of single records are in [`protocol::invariants`], and the functions assert them too. The checks here
//! need the state of the whole world, which only a simulation has.

mod calendar;
mod log;
mod rates;
mod reports;
mod waits;

use std::time::Duration;

use protocol::batch::{BatchRecord, BatchWrite, Closing};
use protocol::claim::{LockItem, LockState};
use protocol::ids::{BatchId, EventId, SqsMessageId};
use protocol::invariants::{Check, hold};
use protocol::limits::{BATCH_LIFE_MAX, CLOCK_SKEW_MAX, TICKET_RESEND_AFTER};
use protocol::time::Timestamp;

pub use calendar::*;
pub use log::*;
pub use rates::*;
pub use reports::*;
pub use waits::*;

use crate::ledger::{Delivered, Given, Occurrence, Sent};

/// How long after its close a batch of the log is complete, without faults.
const COMPLETE_LATE_MAX: Duration = Duration::from_mins(5);

/// Longest time from the start of an invocation to its last write, late ones included.
const INVOCATION_MAX: Duration = Duration::from_secs(15 * 60);

/// P1 no loss: a message that was deleted from the input queue was delivered, or is a duplicate of a delivered and
/// remembered message, or is in the quarantine or among the dead letters.
pub fn p1_acknowledged_means_delivered_or_reported(
    message: &Sent,
    occurrences: &[Occurrence],
    may_drop: bool,
    response_time_max: Duration,
) -> Check {
    let Some(acknowledged_at) = message.acknowledged_at else {
        return Ok(());
    };
    let itself = occurrences
        .iter()
        .any(|one| one.sqs_message_id == message.sqs_message_id && one.delivered_at.is_some());
    // Any claim with the same seat counts: without a dedup window, a late write may write a delivered claim again.
    let delivered = |one: &Occurrence| {
        let mut here = occurrences.iter().filter(|other| other.seat == one.seat);
        here.any(|other| other.delivered_at.is_some())
    };
    // A duplicate of a message that was set aside counts as reported, while that message's claim was live.
    let with_another = may_drop
        && occurrences.iter().any(|one| {
            one.body_hash == message.body_hash
                && one.aside_at.is_some()
                && one.claimed_at <= acknowledged_at
                && one
                    .released_at
                    .is_none_or(|at| acknowledged_at <= at + CLOCK_SKEW_MAX + response_time_max)
        });
    // What an operator has forgotten is in no one's way from then on.
    let counts = |one: &Occurrence| {
        one.forgotten_at
            .is_none_or(|at| acknowledged_at <= at + response_time_max)
    };
    // A duplicate may be dropped only while the first message's claim is live or remembered.
    let by_another = may_drop
        && occurrences.iter().any(|one| {
            one.body_hash == message.body_hash
                && counts(one)
                && delivered(one)
                && one.claimed_at <= acknowledged_at
                && one.remembered_until.is_none_or(|until| {
                    acknowledged_at <= until + CLOCK_SKEW_MAX + response_time_max
                })
        });
    let (id, reported) = (&message.sqs_message_id, message.reported);
    let holds = itself || by_another || with_another || reported;
    hold("P1 acknowledged_means_delivered_or_reported", holds, || {
        format!("{id} acknowledged at {acknowledged_at}; its event: {occurrences:?}")
    })
}

/// P2 unique in flight: a claim does not replace another claim that must still be delivered or released.
pub fn p2_a_claim_replaces_only_what_has_ended(
    prior: &Occurrence,
    batch_complete: bool,
    now: Timestamp,
) -> Check {
    let holds = batch_complete || prior.remembered_until.is_some();
    hold("P2 a_claim_replaces_only_what_has_ended", holds, || {
        format!("at {now} {prior:?} was replaced, its batch not complete")
    })
}

/// P2 unique in flight: at its first delivery, every event of a part has a live claim of this batch.
pub fn p2_a_part_holds_only_live_claims(key: &str, held: bool, what: &str) -> Check {
    hold("P2 a_part_holds_only_live_claims", held, || {
        format!("part {key} brings {what}")
    })
}

/// P3 redelivery is harmless, P4 unique in the window: a message claims an event that was delivered only if the
/// delivery is no longer remembered, or if duplicates may be delivered and it is another message.
pub fn p3_p4_delivered_once_per_window(
    prior: &Occurrence,
    sqs_message_id: &SqsMessageId,
    remembered_until: Timestamp,
    may_repeat: bool,
    now: Timestamp,
) -> Check {
    let too_early = prior.delivered_at.is_some() && now + CLOCK_SKEW_MAX < remembered_until;
    let found = || {
        format!(
            "{sqs_message_id} claims at {now} what was delivered as {prior:?}, remembered until {remembered_until}"
        )
    };
    if prior.sqs_message_id == *sqs_message_id {
        return hold("P3 a_message_is_delivered_once", !too_early, found);
    }
    hold(
        "P4 an_event_is_delivered_once_per_window",
        !too_early || may_repeat,
        found,
    )
}

/// P3 redelivery is harmless: a message that an operator sent to the quarantine claims nothing while it is remembered.
pub fn p3_what_was_set_aside_is_not_claimed_again(
    prior: &Occurrence,
    sqs_message_id: &SqsMessageId,
    now: Timestamp,
) -> Check {
    let remembered = |until: Timestamp| now + CLOCK_SKEW_MAX < until;
    let again =
        prior.sqs_message_id == *sqs_message_id && prior.aside_until.is_some_and(remembered);
    hold("P3 what_was_set_aside_is_not_claimed_again", !again, || {
        format!("{sqs_message_id} claims at {now} what was set aside as {prior:?}")
    })
}

/// P5 stable retries: the content of a part, in its order, is the same at every attempt.
pub fn p5_a_key_means_one_content(key: &str, first: &Delivered, again: &Delivered) -> Check {
    hold("P5 a_key_means_one_content", first == again, || {
        format!("part {key} was {first:?}, now it is {again:?}")
    })
}

/// P3, P4, at the sink: if the sink gets an event again, the earlier delivery is no longer remembered, or duplicates
/// may be delivered and it is another message.
pub fn p4_the_sink_gets_an_event_once_per_window(
    event: &EventId,
    first: &Given,
    again: &Given,
    dedup_window: Duration,
    may_repeat: bool,
) -> Check {
    let forgotten = first.at + dedup_window <= again.at + CLOCK_SKEW_MAX;
    let another = first.sqs_message_id != again.sqs_message_id && may_repeat;
    let holds = forgotten || another;
    hold("P4 the_sink_gets_an_event_once_per_window", holds, || {
        format!("{event}: {first:?}, and again {again:?}")
    })
}

/// P5: the sink gets exactly the content that was frozen.
pub fn p5_a_part_is_what_was_frozen(key: &str, frozen: Option<[u8; 32]>, hash: [u8; 32]) -> Check {
    hold("P5 a_part_is_what_was_frozen", frozen == Some(hash), || {
        format!("part {key} was frozen with {frozen:?}, the sink is given {hash:?}")
    })
}

/// P5: after a consumer took the data of a name, the sink never has data under that name again.
pub fn p5_a_name_is_taken_once(key: &str, times: u32) -> Check {
    hold("P5 a_name_is_taken_once", times <= 1, || {
        format!("part {key} was there to be taken {times} times")
    })
}

/// P5: events are in seq order, with the bodies that were sent, of one source and one batch key.
pub fn p5_a_part_is_what_was_sent(key: &str, in_order: bool, as_sent: bool) -> Check {
    hold("P5 a_part_is_what_was_sent", in_order && as_sent, || {
        format!("part {key}: in seq order {in_order}, as sent {as_sent}")
    })
}

/// P6 prompt, without faults: a batch's first ticket becomes visible when its window ends, and not before.
pub fn p6_a_ticket_comes_when_the_window_ends(
    closes_at: Timestamp,
    visible_at: Timestamp,
) -> Check {
    let late = closes_at + 2 * CLOCK_SKEW_MAX + Duration::from_secs(2);
    let holds = closes_at <= visible_at && visible_at <= late;
    hold("P6 a_ticket_comes_when_the_window_ends", holds, || {
        format!("the window ends at {closes_at}, its ticket is visible at {visible_at}")
    })
}

/// P6 prompt, without faults: a batch that is open for long gets one ticket before its window ends.
pub fn p6_a_batch_gets_one_first_ticket(batch: BatchId, again: bool) -> Check {
    hold("P6 a_batch_gets_one_first_ticket", !again, || {
        format!("batch {batch} is open, has a ticket, and gets another")
    })
}

/// P6 prompt, without faults: a sealed batch has a ticket at once.
pub fn p6_a_sealed_batch_starts_at_once(
    sealed_at: Timestamp,
    ticket_at: Option<Timestamp>,
) -> Check {
    let late = sealed_at + CLOCK_SKEW_MAX + Duration::from_secs(2);
    let holds = ticket_at.is_some_and(|at| at <= late);
    hold("P6 a_sealed_batch_starts_at_once", holds, || {
        format!("sealed at {sealed_at}, ticket at {ticket_at:?}")
    })
}

/// P6 prompt: a sealed batch whose window has no ticket is due soon, in case its only ticket is lost.
pub fn p6_a_sealed_batch_is_due_soon(record: &BatchRecord, sealed_at: Timestamp) -> Check {
    let closes_at = record.closes_at;
    let has_ticket = !Closing { closes_at }.is_beyond_delays(record.created_at);
    let holds = has_ticket || record.due_at <= sealed_at + TICKET_RESEND_AFTER;
    hold("P6 a_sealed_batch_is_due_soon", holds, || {
        format!("sealed at {sealed_at}, due at {}", record.due_at)
    })
}

/// P6 prompt, without faults and with `SEAL_WHEN_DRAINED=on`: once the only aggregator has emptied a queue, no batch
/// with claims waits for its window.
pub fn p6_a_drained_source_is_sealed(open: Option<BatchId>) -> Check {
    hold("P6 a_drained_source_is_sealed", open.is_none(), || {
        format!("{open:?} is open, and its source drained")
    })
}

/// P6 prompt, without faults, and with nothing that holds deliveries back: a batch is complete soon after its close, whatever others
/// close with it.
pub fn p6_a_batch_is_complete_soon(record: &BatchRecord, completed_at: Timestamp) -> Check {
    let (batch, closed_at) = (record.batch_id, record.closed_at());
    let holds = completed_at <= closed_at + COMPLETE_LATE_MAX;
    hold("P6 a_batch_is_complete_soon", holds, || {
        format!("batch {batch} closed at {closed_at}, and is complete at {completed_at}")
    })
}

/// P7 no stranding: after the faults have stopped, every message, ticket and batch comes to its end.
pub fn p7_everything_drains(drained: bool, left: impl FnOnce() -> String) -> Check {
    hold("P7 everything_drains", drained, left)
}

/// P7 no stranding: at the end there is no live claim that an acknowledged message relies on.
pub fn p7_no_claim_is_left(left: &[String]) -> Check {
    hold("P7 no_claim_is_left", left.is_empty(), || {
        format!("live in the end: {left:?}")
    })
}

/// P8 honest limits: a message that cannot be read ends in the quarantine or among the dead letters.
pub fn p8_what_cannot_be_read_is_reported(message: &Sent) -> Check {
    let (id, holds) = (&message.sqs_message_id, !message.bad || message.reported);
    hold("P8 what_cannot_be_read_is_reported", holds, || {
        format!("{id} was acknowledged and nowhere reported")
    })
}

/// P8 honest limits: a batch is in error only for a reason that occurred in this history, and its error says the
/// reason.
pub fn p8_a_batch_is_in_error_for_a_reason(error: &str, reasons: &[&str]) -> Check {
    let holds = reasons.iter().any(|reason| error.contains(reason));
    hold("P8 a_batch_is_in_error_for_a_reason", holds, || {
        format!("batch in error: {error}")
    })
}

/// P6: when the first ticket of a batch becomes visible, its window has ended by every clock, also by one that is
/// behind.
pub fn p6_a_ticket_is_early_by_no_clock(
    closes_at: Timestamp,
    visible_at: Timestamp,
    behind_max: Duration,
) -> Check {
    let holds = closes_at + behind_max <= visible_at;
    hold("P6 a_ticket_is_early_by_no_clock", holds, || {
        format!("the window ends at {closes_at}, its ticket is visible at {visible_at}")
    })
}

/// INV-20: a batch that completes without a second look leaves no live claim.
pub fn inv20_what_is_proven_leaves_no_claim(batch: BatchId, left: &[String]) -> Check {
    let holds = left.is_empty();
    hold("INV-20 what_is_proven_leaves_no_claim", holds, || {
        format!("batch {batch} is complete, and live are {left:?}")
    })
}

/// INV-21: nothing is frozen or delivered in a batch that is being set aside.
pub fn inv21_what_is_set_aside_is_not_delivered(before: &BatchRecord, write: &BatchWrite) -> Check {
    let delivers = matches!(
        write,
        BatchWrite::Freeze { .. } | BatchWrite::Delivered { .. }
    );
    let holds = !delivers || before.quarantine.is_none();
    hold("INV-21 what_is_set_aside_is_not_delivered", holds, || {
        format!("batch {}: {write:?}", before.batch_id)
    })
}

/// INV-22: a batch that is being set aside stays so.
pub fn inv22_setting_aside_is_kept(before: &BatchRecord, after: &BatchRecord) -> Check {
    let holds = before.quarantine.is_none() || after.quarantine.is_some();
    hold("INV-22 setting_aside_is_kept", holds, || {
        format!("batch {}", before.batch_id)
    })
}

/// P8 honest limits: an invocation that is not frozen ends before its deadline, and names only messages of its event.
pub fn p8_an_invocation_ends_in_time(function: &str, ended: bool) -> Check {
    hold("P8 an_invocation_ends_in_time", ended, || {
        format!("{function} was still running at its deadline")
    })
}

/// P8: a response names only messages of its own event. Another message id would fail the whole event.
pub fn p8_an_answer_names_its_own_messages(stranger: Option<&String>) -> Check {
    let holds = stranger.is_none();
    hold("P8 an_answer_names_its_own_messages", holds, || {
        format!("answered for {stranger:?}")
    })
}

/// INV-13: a claim names a batch only after its record and its first ticket were acknowledged.
pub fn inv13_claims_name_announced_batches(recorded: bool, ticketed: bool, what: &str) -> Check {
    let holds = recorded && ticketed;
    hold("INV-13 claims_name_announced_batches", holds, || {
        format!("{what}: record {recorded}, ticket {ticketed}")
    })
}

/// INV-14: a live claim is released only after its seat was delivered or set aside. Without a dedup window, a late
/// write may write a claim again after its release; then the claim is a leftover.
pub fn inv14_only_delivered_claims_are_released(
    released: &Occurrence,
    seat_delivered: bool,
) -> Check {
    hold(
        "INV-14 only_delivered_claims_are_released",
        seat_delivered,
        || format!("{released:?}"),
    )
}

/// INV-15: the TTL removes only items that are past their `expiresAt`, never a live claim.
pub fn inv15_ttl_touches_only_expired_items(item: &LockItem, now: Timestamp) -> Check {
    let expired = match item.state {
        LockState::Live { .. } => false,
        LockState::Tombstone { expires_at } => expires_at <= now,
    };
    hold("INV-15 ttl_touches_only_expired_items", expired, || {
        format!("removed at {now}: {item:?}")
    })
}

/// INV-16: a tombstone is remembered at least for the dedup window from its delivery on.
pub fn inv16_tombstones_last_the_window(
    delivered_at: Timestamp,
    dedup_window: Duration,
    expires_at: Timestamp,
) -> Check {
    let holds = delivered_at + dedup_window <= expires_at + CLOCK_SKEW_MAX;
    hold("INV-16 tombstones_last_the_window", holds, || {
        format!("delivered at {delivered_at}, forgotten at {expires_at}")
    })
}

/// INV-25: nothing is frozen or delivered of a batch that is older than it may get.
pub fn inv25_an_old_batch_is_not_delivered(
    write: &BatchWrite,
    record: &BatchRecord,
    now: Timestamp,
) -> Check {
    let delivers = matches!(
        write,
        BatchWrite::Freeze { .. } | BatchWrite::Delivered { .. }
    );
    let oldest = record.created_at + BATCH_LIFE_MAX + INVOCATION_MAX;
    let holds = !delivers || now <= oldest;
    hold("INV-25 an_old_batch_is_not_delivered", holds, || {
        format!("batch {} at {now}: {write:?}", record.batch_id)
    })
}

/// INV-17: a part marked as delivered is at the sink.
pub fn inv17_delivered_means_the_sink_has_it(key: &str, there: bool) -> Check {
    hold("INV-17 delivered_means_the_sink_has_it", there, || {
        format!("part {key} is marked, the sink does not have it")
    })
}
