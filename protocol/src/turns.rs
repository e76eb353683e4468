//! Turns: when parts may go to the sink, if deliveries have a rate.
//!
//! A batch that may go on takes a turn, which lasts as long as the events that it still has may take, after the turns of all other
//! batches. So each comes when it is wanted, and the sink is never idle while batches wait. The batch record keeps the turn.
//!
//! Turns are taken for [`TURNS_AHEAD`] at most: for so long, a ticket that arrives at the turn can be sent at once. A batch that finds more
//! turns taken takes none, and comes back when there is room.
//!
//! A turn may be used late, and not at all. So the rate does not depend on turns: before a part goes to the sink, it moves the time
//! before which no other part may go. A part that comes too early for that waits, or takes another turn.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::batch::BatchRecord;
use crate::limits::{TICKET_BACKOFF_MAX, TURNS_AHEAD};
use crate::planted::planted;
use crate::time::Timestamp;

/// The turns of all batches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Turns {
    /// The rate for which they were taken, in events a second; 0 if none was ever taken.
    pub rate: u64,
    /// When the last turn that was taken ends.
    pub free_at: Timestamp,
    /// Before this time, no part goes to the sink.
    pub next_at: Timestamp,
}

/// The result of asking for a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// The turn begins at `at`, once `turns` is written.
    Taken { at: Timestamp, turns: Turns },
    /// So many turns are taken that there is room again at this time.
    Full { until: Timestamp },
}

impl Turns {
    /// Returns the turns that count at `rate`, of the stored ones. Turns that were taken at a lower rate do not, and the part
    /// that went last needs less time: otherwise a rate that was raised would have no effect for hours.
    pub fn at_rate(read: Turns, rate: u64, now: Timestamp) -> Turns {
        if read.rate >= rate {
            return Turns { rate, ..read };
        }
        let left_ms = now.until(read.next_at).as_millis();
        let left_ms = (left_ms * u128::from(read.rate) / u128::from(rate)) as u64;
        Turns {
            rate,
            free_at: Timestamp::EPOCH,
            next_at: now + Duration::from_millis(left_ms),
        }
    }

    /// Returns how long a turn of so many events lasts.
    pub fn length(self, events_count: u64) -> Duration {
        Duration::from_millis((events_count * 1_000).div_ceil(self.rate))
    }

    /// Takes a turn for `events_count` events, unless it is farther away than `ahead`, which is [`TURNS_AHEAD`] at most.
    pub fn take(self, events_count: u64, ahead: Duration, now: Timestamp) -> Turn {
        let at = self.free_at.max(self.next_at).max(now);
        if now + ahead < at && !planted("turns-without-end") {
            // Turns for half of the time are left then, so that the sink is busy until batches come back.
            let until = at.saturating_sub(TURNS_AHEAD / 2).max(now);
            return Turn::Full { until };
        }
        let free_at = at + self.length(events_count);
        let turns = Turns { free_at, ..self };
        Turn::Taken { at, turns }
    }

    /// Returns the turns after a part of `events_count` events went to the sink at `now`.
    ///
    /// # Errors
    /// When it may go, if that is later.
    pub fn begin(self, events_count: u64, now: Timestamp) -> Result<Turns, Timestamp> {
        if now < self.next_at {
            return Err(self.next_at);
        }
        let next_at = now + self.length(events_count);
        Ok(Turns { next_at, ..self })
    }
}

/// Returns the turn that a batch has. One that passed some time ago counts no more: while the sink is down, all turns pass, and all their parts
/// would come at once when it is back.
pub fn kept_turn(record: &BatchRecord, now: Timestamp) -> Option<Timestamp> {
    record
        .turn_at
        .filter(|at| at.until(now) <= TICKET_BACKOFF_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(secs: u64) -> Timestamp {
        Timestamp::from_ms(1_000_000_000 + secs * 1_000)
    }

    fn turns(free_at: u64, next_at: u64) -> Turns {
        Turns {
            rate: 10,
            free_at: at(free_at),
            next_at: at(next_at),
        }
    }

    #[test]
    fn one_turn_begins_when_the_other_ends() {
        let taken = |of: Turns, events, now| match of.take(events, TURNS_AHEAD, at(now)) {
            Turn::Taken { at, turns } => (at, turns.free_at),
            Turn::Full { until } => panic!("full until {until}"),
        };
        // No batch has one.
        assert_eq!(taken(turns(5, 0), 100, 7), (at(7), at(17)));
        let short = Duration::from_millis(100);
        assert_eq!(taken(turns(9, 0), 1, 7), (at(9), at(9) + short));
    }

    #[test]
    fn a_batch_that_would_wait_for_longer_than_a_ticket_takes_no_turn() {
        let ahead = TURNS_AHEAD.as_secs();
        let take = |free_at| turns(free_at, 0).take(1, TURNS_AHEAD, at(7));
        assert!(matches!(take(ahead + 7), Turn::Taken { .. }));
        let until = at(ahead + 8).saturating_sub(TURNS_AHEAD / 2);
        assert_eq!(take(ahead + 8), Turn::Full { until });
    }

    #[test]
    fn no_part_goes_before_the_one_before_it_had_its_time() {
        let began = turns(100, 20).begin(50, at(20)).unwrap();
        assert_eq!(began, turns(100, 25));
        assert_eq!(began.begin(50, at(24)), Err(at(25)));
    }

    #[test]
    fn turns_at_a_lower_rate_do_not_count() {
        let read = turns(100, 50);
        assert_eq!(Turns::at_rate(read, 10, at(0)), turns(100, 50));
        let slower = Turns {
            rate: 5,
            ..turns(100, 50)
        };
        assert_eq!(Turns::at_rate(read, 5, at(0)), slower);
        let raised = Turns::at_rate(read, 20, at(10));
        let half_of_the_time = at(30);
        let turn = raised.take(1, TURNS_AHEAD, at(10));
        assert!(matches!(turn, Turn::Taken { at, .. } if at == half_of_the_time));
        assert_eq!(raised.begin(1, at(10)), Err(half_of_the_time));
        assert!(Turns::at_rate(read, 20, at(60)).begin(1, at(60)).is_ok());
    }
}
