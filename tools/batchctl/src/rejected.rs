//! What to do with a rejected event: the table "What `rejects` leaves" of docs/batchctl.md.

use protocol::ids::{BatchId, Seq};

use crate::event_state::{Classification, EventState};

/// What to do with a rejected event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Send its body to the input queue.
    Redrive,
    /// It was delivered since, by another message.
    Delivered,
    /// Another message has claimed it, and its batch is not complete.
    Live,
    /// Another message has claimed it, and was rejected too.
    Again,
    /// Another message has claimed it, and is in the quarantine.
    SetAside,
    /// A processor of an earlier version delivered the part, and its event id is remembered as delivered.
    TakenForDelivered,
    /// Nobody knows whether it was claimed since. Only a look at the sink can tell.
    Unclear,
    /// It repeats an event that is redriven now.
    Repeated,
    /// Its body cannot be had.
    NoBody,
    /// Sent again, it would be another event.
    OtherEvent,
}

impl Decision {
    pub fn words(self) -> &'static str {
        match self {
            Decision::Redrive => "redrive",
            Decision::Delivered => "left: delivered since, by another message",
            Decision::Live => "left: claimed again, its batch is not complete",
            Decision::Again => "left: claimed again, and rejected again",
            Decision::SetAside => "left: claimed again, and now in the quarantine",
            Decision::TakenForDelivered => {
                "left: an earlier version remembers it as delivered; forget it first"
            }
            Decision::Unclear => "left: it may have been delivered since; look for it at the sink",
            Decision::Repeated => "left: the same event is redriven already",
            Decision::NoBody => "left: its body cannot be had",
            Decision::OtherEvent => {
                "left: sent again, it would be another event; its id needs more than its body, or another queue"
            }
        }
    }
}

/// Returns what to do with an event that was rejected in `seat`. `found` is what the tables say about it now. `although_unclear` is an
/// operator's word that it was not delivered since.
pub fn decide(seat: (BatchId, Seq), found: &Classification, although_unclear: bool) -> Decision {
    let is_same = found.seat == Some(seat);
    match found.state {
        EventState::Rejected if is_same => Decision::Redrive,
        EventState::Rejected => Decision::Again,
        EventState::Delivered | EventState::Forgotten if is_same => Decision::TakenForDelivered,
        EventState::Delivered | EventState::Forgotten => Decision::Delivered,
        // The message of an orphan was not acknowledged, and comes back.
        EventState::Live | EventState::Orphan => Decision::Live,
        EventState::SetAside => Decision::SetAside,
        EventState::Unclear | EventState::Unknown if although_unclear => Decision::Redrive,
        EventState::Unclear | EventState::Unknown => Decision::Unclear,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEATS: [Seq; 2] = [3, 4];

    fn decision(state: EventState, seq: Seq, although: bool) -> Decision {
        let batch: BatchId = "0190163d-8694-739b-aea5-966c26f8ad91".parse().unwrap();
        let found = Classification {
            seat: Some((batch, seq)),
            ..Classification::of(state)
        };
        decide((batch, SEATS[0]), &found, although)
    }

    #[test]
    fn only_an_event_whose_item_still_has_the_rejected_seat_is_redriven() {
        use super::Decision::{Again, Delivered, Live, Redrive, SetAside, TakenForDelivered};

        for (state, [own, other]) in [
            (EventState::Rejected, [Redrive, Again]),
            (EventState::Live, [Live, Live]),
            (EventState::SetAside, [SetAside, SetAside]),
            (EventState::Delivered, [TakenForDelivered, Delivered]),
            (EventState::Forgotten, [TakenForDelivered, Delivered]),
        ] {
            for although in [false, true] {
                let decisions = SEATS.map(|seq| decision(state, seq, although));
                assert_eq!(decisions, [own, other], "{state:?}");
            }
        }
    }

    #[test]
    fn what_is_not_remembered_is_redriven_on_demand_only() {
        for state in [EventState::Unknown, EventState::Unclear] {
            assert_eq!(decision(state, SEATS[0], false), Decision::Unclear);
            assert_eq!(decision(state, SEATS[0], true), Decision::Redrive);
        }
    }
}
