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
    /// It is a notice of the service about a lost load, slot or chunk, not an event.
    Notice,
}

impl Decision {
    /// Returns the decision in words.
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
    use super::*;

    const WINDOW: Duration = Duration::from_secs(3_600);

    fn decision(origin: Origin, state: EventState, age_secs: u64) -> Decision {
        let age = Some(Duration::from_secs(age_secs));
        decide(origin, state, true, age, WINDOW, false)
    }

    #[test]
    fn another_body_of_a_delivered_id_is_kept_and_of_a_rejected_one_redriven() {
        let decision = |state, same_body| {
            [Origin::DeadLetter, Origin::Quarantine]
                .map(|origin| decide(origin, state, same_body, None, WINDOW, false))
        };
        assert_eq!(
            decision(EventState::Delivered, true),
            [Decision::Delivered; 2]
        );
        assert_eq!(
            decision(EventState::Delivered, false),
            [Decision::OtherDelivered; 2]
        );
        assert_ne!(
            Decision::Delivered.words(),
            Decision::OtherDelivered.words()
        );
        assert_eq!(
            decision(EventState::Rejected, true),
            [Decision::Rejected; 2]
        );
        assert_eq!(
            decision(EventState::Rejected, false),
            [Decision::Redrive; 2]
        );
    }

    #[test]
    fn what_was_delivered_or_is_claimed_is_left() {
        for origin in [Origin::DeadLetter, Origin::Quarantine] {
            assert_eq!(
                decision(origin, EventState::Delivered, 5),
                Decision::Delivered
            );
            assert_eq!(decision(origin, EventState::Live, 5), Decision::Live);
            for although in [false, true] {
                let decision = decide(origin, EventState::Delivered, true, None, WINDOW, although);
                assert_eq!(decision, Decision::Delivered, "on demand neither");
            }
        }
    }

    #[test]
    fn a_dead_letter_that_was_never_claimed_is_redriven_within_the_window() {
        let decision = |secs| decision(Origin::DeadLetter, EventState::Unknown, secs);
        assert_eq!(decision(3_599), Decision::Redrive);
        assert_eq!(decision(3_600), Decision::Unclear);
        let unknown = decide(
            Origin::DeadLetter,
            EventState::Unknown,
            true,
            None,
            WINDOW,
            false,
        );
        assert_eq!(unknown, Decision::Unclear);
        let demanded = decide(
            Origin::DeadLetter,
            EventState::Unknown,
            true,
            None,
            WINDOW,
            true,
        );
        assert_eq!(demanded, Decision::Redrive);
    }

    #[test]
    fn what_was_set_aside_is_redriven_from_the_quarantine_only() {
        assert_eq!(
            decision(Origin::Quarantine, EventState::SetAside, 5),
            Decision::Redrive
        );
        assert_eq!(
            decision(Origin::DeadLetter, EventState::SetAside, 5),
            Decision::Unclear
        );
        assert_eq!(
            decision(Origin::Quarantine, EventState::Unknown, 9_999),
            Decision::Redrive
        );
    }
}
