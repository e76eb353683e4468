//! The checks of the rate of deliveries, and of what they cost.

use std::time::Duration;

use protocol::ids::BatchId;
use protocol::invariants::{Check, hold};
use protocol::time::Timestamp;

use crate::ledger::Handed;

/// The share of the rate that is reached while parts wait, in percent.
const REACHED_PERCENT: u64 = 95;
/// How late for its turn a part may begin: a few requests, without faults.
pub const PART_LATE_MAX: Duration = Duration::from_millis(100);
/// How much longer a part may take whose batch is decided first, while it has no turn yet.
pub const DECIDED_LATE_MAX: Duration = Duration::from_millis(600);

/// The pauses, the last number, the record of its holder, and the turns.
const LOOK_READS_MAX: u64 = 4;
/// The last number and the record of its holder again, if another part took the number since.
const NUMBER_READS_MAX: u64 = 2;

/// P12 rate: in no time that ends now, more events began than the rate allows and one part has. `late_max` is the longest time for which
/// a part that was let through takes to the sink, with the difference of two clocks.
pub fn p12_the_rate_is_not_exceeded(handed: &[Handed], rate: u64, late_max: Duration) -> Check {
    let Some(last) = handed.last() else {
        return Ok(());
    };
    let (mut events, mut largest) = (0, 0);
    let mut excess = None;
    for one in handed.iter().rev() {
        events += one.events;
        largest = largest.max(one.events);
        let time_ms = (one.at.until(last.at) + late_max).as_millis() as u64;
        if events.saturating_sub(largest) * 1_000 > rate * time_ms {
            excess.get_or_insert((events, one.at));
        }
    }
    hold("P12 the_rate_is_not_exceeded", excess.is_none(), || {
        format!(
            "{excess:?}: that many events since then at {}, and the rate is {rate}",
            last.at
        )
    })
}

/// P12 rate: a part that goes to the sink at `at` has the next one wait for as long as its events take. `late_max` is the longest time
/// for which a part that was let through takes to the sink, with the error of its clock.
pub fn p12_the_next_part_waits(
    next_at: Timestamp,
    at: Timestamp,
    events: u64,
    rate: u64,
    late_max: Duration,
) -> Check {
    let length = Duration::from_millis(events * 1_000 / rate);
    hold(
        "P12 the_next_part_waits",
        at + length <= next_at + late_max,
        || {
            format!(
                "{events} events go at {at}, and the next part from {next_at}, at a rate of {rate}"
            )
        },
    )
}

/// P12 rate: from a time on at which parts wait, as many events begin as the rate allows, but for 5 % and what each part may be late.
pub fn p12_the_rate_is_reached(
    handed: &[Handed],
    from: Timestamp,
    rate: u64,
    late_max: Duration,
) -> Check {
    let later = || handed.iter().filter(|one| one.at >= from);
    let until = later().map(|one| one.at).max().unwrap_or(from);
    let (events, largest) = later().fold((0, 0), |(events, largest), one| {
        (events + one.events, u64::max(largest, one.events))
    });
    let late = late_max * later().count() as u32;
    let time_ms = from.until(until).saturating_sub(late).as_millis() as u64;
    let wanted = rate * time_ms * REACHED_PERCENT / 100_000;
    let holds = events + largest >= wanted;
    hold("P12 the_rate_is_reached", holds, || {
        format!("{events} events from {from} to {until}, expected {wanted}")
    })
}

/// P13 cost, without faults: the bodies of a batch are read about as often as it has events.
pub fn p13_bodies_are_read_about_once(batch: BatchId, read: u64, read_max: u64) -> Check {
    hold("P13 bodies_are_read_about_once", read <= read_max, || {
        format!("batch {batch}: {read} bodies or pieces read, expected at most {read_max}")
    })
}

/// P13 cost, without faults: to find that a batch must wait, the pauses, the last number, its holder and the turns are read.
pub fn p13_a_look_reads_four_items(batch: BatchId, is_frozen: bool, read: u64) -> Check {
    let read_max = LOOK_READS_MAX + if is_frozen { NUMBER_READS_MAX } else { 0 };
    hold("P13 a_look_reads_four_items", read <= read_max, || {
        format!("batch {batch} must wait: {read} items read, expected at most {read_max}")
    })
}

/// P13 cost, without faults: a batch whose turn has not come is not read.
pub fn p13_no_body_is_read_early(batch: BatchId, is_early: bool) -> Check {
    hold("P13 no_body_is_read_early", !is_early, || {
        format!("bodies of batch {batch} are read before its turn")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn handed(parts: &[(u64, u64)]) -> Vec<Handed> {
        let part = |(secs, events): &(u64, u64)| Handed {
            key: String::new(),
            at: Timestamp::from_ms(secs * 1_000),
            events: *events,
        };
        parts.iter().map(part).collect()
    }

    #[test]
    fn more_than_the_rate_and_one_part_is_too_much() {
        let exceeds = |parts: &[(u64, u64)]| {
            p12_the_rate_is_not_exceeded(&handed(parts), 2, Duration::ZERO).is_err()
        };
        assert!(!exceeds(&[(0, 10), (5, 10), (10, 10)]));
        assert!(exceeds(&[(0, 10), (4, 10)]));
        assert!(exceeds(&[(0, 1), (0, 4), (100, 3), (100, 2)]));
        assert!(!exceeds(&[(0, 100)]));
    }

    #[test]
    fn the_next_part_waits_for_as_long_as_the_events_take() {
        let (next_at, late_max) = (Timestamp::from_ms(5_000), Duration::from_secs(1));
        let waits = |at_ms| {
            let at = Timestamp::from_ms(at_ms);
            p12_the_next_part_waits(next_at, at, 10, 2, late_max).is_ok()
        };
        assert!(waits(1_000));
        assert!(!waits(1_001));
    }

    #[test]
    fn a_gap_in_which_parts_wait_is_too_long() {
        let reached = |parts: &[(u64, u64)]| {
            p12_the_rate_is_reached(&handed(parts), Timestamp::EPOCH, 2, PART_LATE_MAX).is_ok()
        };
        assert!(reached(&[(0, 10), (5, 10), (10, 10)]));
        assert!(!reached(&[(0, 10), (5, 10), (100, 10)]));
    }
}
