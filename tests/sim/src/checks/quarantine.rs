//! Checks of what arrives in the quarantine.

use protocol::invariants::{Check, hold};
use shared::message_attributes::MessageAttributes;
use shared::ports::{Quarantined, StoredEvent};
use shared::quarantine_attributes::{of_producer, packed};

use crate::ledger::Sent;

/// P8 honest limits: a message in the quarantine has the message attributes that were sent, and the event id.
pub fn p8_the_quarantine_has_what_was_sent(message: &Quarantined, sent: &Sent) -> Check {
    let arrived = of_producer(&packed(message).attributes);
    let as_sent = MessageAttributes::of(arrived) == sent.attributes;
    hold(
        "P8 the_quarantine_has_what_was_sent",
        as_sent && message.event_id == sent.event_id,
        || format!("{message:?} was sent as {sent:?}"),
    )
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
