//! What to do with a message of the dead-letter queue or of the quarantine: the table "What `redrive` leaves" of docs/batchctl.md.

use std::time::Duration;

use protocol::time::Timestamp;

use crate::event_state::EventState;

/// Where a message comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// It was received too often, and may or may not have been claimed.
    DeadLetter,
    /// The service put it there: it could not be processed, or its batch was set aside.
    Quarantine,
}

/// What to do with a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Send it to the input queue, and delete it here.
    Redrive,
    /// Its event was delivered after all, with this body.
    Delivered,
    /// Another message with its event id, and another body, was delivered.
    OtherDelivered,
    /// The sink rejected its event, with this body.
    Rejected,
    /// Its event is claimed, and its batch is under way or in error. Look again later.
    Live,
    /// Its event may have been delivered. Only a look at the sink can tell.
    Unclear,
    /// It repeats a message that is redriven now.
    Repeated,
    /// It is a notice of the service about a lost load or slot, not an event.
    Notice,
}

impl Decision {
    pub fn words(self) -> &'static str {
        match self {
            Decision::Redrive => "redrive",
            Decision::Delivered => "left: delivered after all",
            Decision::OtherDelivered => {
                "left: another body of this id was delivered, and this one was not"
            }
            Decision::Rejected => {
                "left: rejected by the sink with this body; `batchctl rejects` lists and redrives it"
            }
            Decision::Live => "left: claimed, its batch is not complete",
            Decision::Unclear => "left: it may have been delivered; look for it at the sink",
            Decision::Repeated => "left: the same event is redriven already",
            Decision::Notice => "left: a notice about a lost object",
        }
    }
}

/// Returns what to do with a message whose event is in this state. `same_body` says whether the event was claimed with the body of
/// the message. `age` is the time since it was first received.
pub fn decide(
    origin: Origin,
    state: EventState,
    same_body: bool,
    age: Option<Duration>,
    dedup_window: Duration,
    although_unclear: bool,
) -> Decision {
    let unclear = match although_unclear {
        true => Decision::Redrive,
        false => Decision::Unclear,
    };
    match (state, origin) {
        (EventState::Delivered, _) if same_body => Decision::Delivered,
        (EventState::Delivered, _) => Decision::OtherDelivered,
        // Sent again as it is, it would be rejected again, unless the sink was changed. The reject list has it.
        (EventState::Rejected, _) if same_body => Decision::Rejected,
        (EventState::Rejected, _) => Decision::Redrive,
        (EventState::Live, _) => Decision::Live,
        // Its claim has ended without a delivery.
        (EventState::Orphan, _) => Decision::Redrive,
        // The service put it into the quarantine because it did not deliver it.
        (EventState::SetAside | EventState::Unknown, Origin::Quarantine) => Decision::Redrive,
        // A copy is in the quarantine, and redriven from there. With `message-id`, this one would be another event.
        (EventState::SetAside, Origin::DeadLetter) => unclear,
        // It was delivered once, and the quarantine or the dead-letter queue has another message of it, or this one.
        (EventState::Forgotten | EventState::Unclear, _) => unclear,
        // Within the window, the tombstone of a delivery would be there.
        (EventState::Unknown, Origin::DeadLetter) => match age {
            Some(age) if age < dedup_window => Decision::Redrive,
            Some(_) | None => unclear,
        },
    }
}

/// Returns the time since a message was first received.
pub fn age(first_received_at: Option<u64>, now: Timestamp) -> Option<Duration> {
    first_received_at.map(|at| Timestamp::from_ms(at).until(now))
}

#[cfg(test)]
mod tests {
    use super::Decision::{Delivered, Live, OtherDelivered, Redrive, Rejected, Unclear};
    use super::*;

    const WINDOW: Duration = Duration::from_secs(3_600);

    #[test]
    fn a_message_is_redriven_only_if_its_event_was_not_delivered_and_is_not_claimed() {
        use EventState as State;

        for (state, same_body, secs, expected) in [
            (State::Delivered, true, None, [Delivered; 2]),
            (State::Delivered, true, Some(5), [Delivered; 2]),
            (State::Delivered, false, None, [OtherDelivered; 2]),
            (State::Rejected, true, None, [Rejected; 2]),
            (State::Rejected, false, None, [Redrive; 2]),
            (State::Live, true, Some(5), [Live; 2]),
            // What was set aside is redriven from the quarantine only.
            (State::SetAside, true, Some(5), [Unclear, Redrive]),
            // A dead letter that was never claimed is redriven within the window.
            (State::Unknown, true, Some(3_599), [Redrive; 2]),
            (State::Unknown, true, Some(3_600), [Unclear, Redrive]),
            (State::Unknown, true, None, [Unclear, Redrive]),
        ] {
            let age = secs.map(Duration::from_secs);
            let decisions = [Origin::DeadLetter, Origin::Quarantine]
                .map(|origin| decide(origin, state, same_body, age, WINDOW, false));
            assert_eq!(decisions, expected, "{state:?} {secs:?}");
        }
        assert_ne!(Delivered.words(), OtherDelivered.words());
    }

    #[test]
    fn only_what_is_unclear_is_redriven_on_demand() {
        let demanded = |origin, state| decide(origin, state, true, None, WINDOW, true);
        for origin in [Origin::DeadLetter, Origin::Quarantine] {
            assert_eq!(demanded(origin, EventState::Unknown), Redrive);
            assert_eq!(demanded(origin, EventState::Delivered), Delivered);
        }
    }
}
