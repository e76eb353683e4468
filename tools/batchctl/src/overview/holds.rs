//! What holds deliveries back at present.

use protocol::pause::Pause;
use protocol::time::Timestamp;
use serde::Serialize;

use crate::waiting::Waits;

/// What holds deliveries back at present.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Holds {
    /// The pauses that have not ended.
    pub pauses: Vec<Pause>,
    /// When the next of `DELIVERY_HOURS` begin, if now is in none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub closed_until: Option<Timestamp>,
    /// The next turn by `DELIVERY_MAX_PER_SECOND`, if a batch has to wait for one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_turn: Option<NextTurn>,
}

/// The first turn that no batch has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NextTurn {
    pub at: Timestamp,
    /// `DELIVERY_MAX_PER_SECOND`.
    pub events_per_second: u64,
}

impl Holds {
    pub(super) fn of(waits: Waits, now: Timestamp) -> Holds {
        let pauses = waits.pauses.into_iter();
        let next_turn = waits.turns.map(|turns| NextTurn {
            at: turns.free_at.max(turns.next_at),
            events_per_second: turns.rate,
        });
        Holds {
            pauses: pauses.filter(|pause| now < pause.until).collect(),
            closed_until: waits.hours.and_then(|hours| hours.closed_until(now)),
            next_turn: next_turn.filter(|turn| now < turn.at),
        }
    }

    /// Returns whether nothing holds deliveries back.
    pub fn is_empty(&self) -> bool {
        self.pauses.is_empty() && self.closed_until.is_none() && self.next_turn.is_none()
    }
}

#[cfg(test)]
mod tests {
    use protocol::turns::Turns;

    use super::*;

    /// Returns an hour of 2026-11-26, a Thursday, UTC.
    fn at(hour: u64) -> Timestamp {
        Timestamp::from_ms(1_795_651_200_000 + hour * 3_600_000)
    }

    fn waits() -> Waits {
        let pause = |until| Pause {
            source: None,
            batch_key: None,
            until,
            at: at(1),
            by: "me".to_owned(),
            why: "the sink is moved".to_owned(),
        };
        Waits {
            pauses: vec![pause(at(8)), pause(at(12))],
            hours: "Mon-Fri 11:00-15:00 UTC".parse().ok(),
            turns: Some(Turns {
                rate: 50,
                free_at: at(13),
                next_at: at(9),
            }),
        }
    }

    #[test]
    fn pauses_hours_and_turns_hold_back_until_they_end() {
        let holds = Holds::of(waits(), at(10));
        assert_eq!(holds.pauses.len(), 1, "one has ended");
        assert_eq!(holds.closed_until, Some(at(11)));
        let turn = holds.next_turn.unwrap();
        assert_eq!((turn.at, turn.events_per_second), (at(13), 50));
        assert!(!holds.is_empty());
        let holds = Holds::of(waits(), at(14));
        assert!(holds.is_empty(), "{holds:?}");
    }
}
