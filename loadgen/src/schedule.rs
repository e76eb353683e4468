//! When each message of a burst is due.
//!
//! The time of message `i` is computed from the shape and `i` alone, exactly, rounded down to a nanosecond. It is the
//! moment at which the sum of the rate reaches `i`: of a constant rate of 10, messages are due at 0, 0.1 s, 0.2 s and so
//! on. Later messages are never due earlier.

use std::time::Duration;

use crate::arrivals::{Arrivals, ArrivalsError};
use crate::shape::{Shape, ShapeError};

const NANOS_PER_SEC: i128 = 1_000_000_000;

/// When each message of a burst is due.
#[derive(Clone, Debug)]
pub struct Schedule(Kind);

/// As fast as possible.
impl Default for Schedule {
    fn default() -> Self {
        Self(Kind::Max)
    }
}

#[derive(Clone, Debug)]
enum Kind {
    Max,
    Constant { rate: i128 },
    Ramp(Ramp),
    Spikes(Spikes),
    Replay(Arrivals),
}

/// Why a shape has no schedule.
#[derive(Debug, thiserror::Error)]
pub enum ScheduleError {
    /// A value of the shape is out of range.
    #[error(transparent)]
    Shape(#[from] ShapeError),
    /// The recorded arrivals cannot be read.
    #[error(transparent)]
    Arrivals(#[from] ArrivalsError),
}

impl Schedule {
    /// Makes the schedule of a shape. Reads the file of `replay`.
    ///
    /// # Errors
    /// A value of the shape is out of range, or the file has no arrivals.
    pub fn new(shape: &Shape) -> Result<Self, ScheduleError> {
        shape.check()?;
        let nanos = |time: Duration| time.as_nanos() as i128;
        Ok(Self(match shape {
            Shape::Max => Kind::Max,
            Shape::Constant { per_second } => Kind::Constant {
                rate: i128::from(*per_second),
            },
            Shape::Ramp { from, to, over } => Kind::Ramp(Ramp {
                from: i128::from(*from),
                to: i128::from(*to),
                over: nanos(*over),
            }),
            Shape::Spikes {
                base,
                spike,
                every,
                length,
            } => Kind::Spikes(Spikes {
                base: i128::from(*base),
                spike: i128::from(*spike),
                quiet: nanos(*every) - nanos(*length),
                every: nanos(*every),
            }),
            Shape::Replay { file } => Kind::Replay(Arrivals::read(file)?),
        }))
    }

    /// Returns whether messages have times. If not, each is due as soon as it can be sent.
    pub fn is_paced(&self) -> bool {
        !matches!(self.0, Kind::Max)
    }

    /// Returns the number of messages that have a time, if there is a limit: the arrivals of a file.
    pub fn limit(&self) -> Option<u64> {
        match &self.0 {
            Kind::Replay(arrivals) => Some(arrivals.len()),
            Kind::Max | Kind::Constant { .. } | Kind::Ramp(_) | Kind::Spikes(_) => None,
        }
    }

    /// Returns when a message is due, from the start of the burst; 0 if messages have no times.
    ///
    /// # Panics
    /// If `index` is not below [`Schedule::limit`].
    pub fn due(&self, index: u64) -> Duration {
        let messages = i128::from(index);
        let nanos = match &self.0 {
            Kind::Max => 0,
            Kind::Constant { rate } => messages * NANOS_PER_SEC / rate,
            Kind::Ramp(ramp) => ramp.due(messages),
            Kind::Spikes(spikes) => spikes.due(messages),
            Kind::Replay(arrivals) => i128::from(arrivals.nanos(index)),
        };
        Duration::from_nanos_u128(nanos as u128)
    }

    /// Returns how many of the first `messages` messages are due before a time.
    pub fn due_before(&self, time: Duration, messages: u64) -> u64 {
        let (mut low, mut high) = (0, messages);
        while low < high {
            let middle = low + (high - low) / 2;
            match self.due(middle) < time {
                true => low = middle + 1,
                false => high = middle,
            }
        }
        low
    }
}

/// Rates in messages a second, times in nanoseconds.
#[derive(Clone, Copy, Debug)]
struct Ramp {
    from: i128,
    to: i128,
    over: i128,
}

impl Ramp {
    /// Within the ramp, `from × t + (to − from) × t² / (2 × over)` messages are due up to `t`. Solved for `t`, with the
    /// whole numbers of nanoseconds instead of seconds. All products fit: with the limits of a shape, the largest term
    /// under the root is below 10³⁸.
    fn due(self, messages: i128) -> i128 {
        let Self { from, to, over } = self;
        // Twice the number of messages of the ramp, as messages × nanoseconds.
        let whole = (from + to) * over;
        let wanted = 2 * NANOS_PER_SEC * messages;
        if wanted >= whole {
            return over + (wanted - whole) / (2 * to);
        }
        let start = from * over;
        let root = |square: i128| square.isqrt();
        match to - from {
            0 => wanted / (2 * to),
            up @ 1.. => (root(start * start + up * over * wanted) - start) / up,
            down => {
                let square = start * start + down * over * wanted;
                let floor = root(square);
                // Rounded up, because it is subtracted from what is rounded down.
                let ceil = floor + i128::from(floor * floor < square);
                (start - ceil) / -down
            }
        }
    }
}

/// Rates in messages a second, times in nanoseconds. A spike begins after `quiet` of each period.
#[derive(Clone, Copy, Debug)]
struct Spikes {
    base: i128,
    spike: i128,
    quiet: i128,
    every: i128,
}

impl Spikes {
    fn due(self, messages: i128) -> i128 {
        let Self {
            base,
            spike,
            quiet,
            every,
        } = self;
        // Messages × nanoseconds, so that nothing is rounded before the last division.
        let in_quiet = base * quiet;
        let in_period = in_quiet + spike * (every - quiet);
        let wanted = NANOS_PER_SEC * messages;
        let (periods, rest) = (wanted / in_period, wanted % in_period);
        let within = match rest < in_quiet {
            true => rest / base,
            false => quiet + (rest - in_quiet) / spike,
        };
        periods * every + within
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    use crate::shape::RATE_MAX;
    use crate::workload::MESSAGES_MAX;

    fn schedule(text: &str) -> Schedule {
        Schedule::new(&text.parse().unwrap()).unwrap()
    }

    #[test]
    fn a_constant_rate_has_even_distances_rounded_down_to_nanoseconds() {
        let constant = schedule("constant:10");
        let due = [0, 1, 2, 10, 1_000].map(|index| constant.due(index).as_millis());
        assert_eq!(due, [0, 100, 200, 1_000, 100_000]);
        assert_eq!(schedule("constant:3").due(1).as_nanos(), 333_333_333);
    }

    #[test]
    fn ramps_and_spikes_are_due_as_calculated_by_hand() {
        for (text, expected) in [
            // 500 messages within 10 s; the first quarter of them comes in half of the time.
            (
                "ramp:0..100/10s",
                [(0, 0), (125, 5_000), (500, 10_000), (600, 11_000)],
            ),
            (
                "ramp:100..1/10s",
                [(0, 0), (505, 10_000), (506, 11_000), (507, 12_000)],
            ),
            (
                "ramp:10..10/10s",
                [(0, 0), (50, 5_000), (99, 9_900), (101, 10_100)],
            ),
            // 9 s with 10 a second and 1 s with 100: 190 messages every 10 s. A spike ends each period.
            (
                "spikes:10,100,every=10s,for=1s",
                [(89, 8_900), (91, 9_010), (189, 9_990), (280, 19_000)],
            ),
            (
                "spikes:0,2,every=10s,for=1s",
                [(0, 9_000), (1, 9_500), (2, 19_000), (3, 19_500)],
            ),
        ] {
            let schedule = schedule(text);
            let due = expected.map(|(index, _)| (index, schedule.due(index).as_millis()));
            assert_eq!(due, expected, "{text}");
        }
    }

    #[test]
    fn a_replay_has_the_times_of_its_file_and_a_limit() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("arrivals");
        std::fs::write(&file, "0,2\n1").unwrap();
        let schedule = Schedule::new(&Shape::Replay { file }).unwrap();
        assert_eq!(schedule.limit(), Some(3));
        assert_eq!(schedule.due(2), Duration::from_secs(1));
        assert_eq!(schedule.due_before(Duration::from_secs(1), 3), 2);
    }

    #[test]
    fn as_fast_as_possible_has_no_times() {
        assert!(!schedule("max").is_paced());
        assert!(schedule("constant:1").is_paced());
        assert_eq!(schedule("max").due(MESSAGES_MAX), Duration::ZERO);
    }

    /// Returns twice the number of messages up to a time × the length of the ramp, as messages × nanoseconds².
    fn area_of_ramp(ramp: Ramp, nanos: i128) -> i128 {
        let within = nanos.min(ramp.over);
        2 * ramp.over * ramp.from * within
            + (ramp.to - ramp.from) * within * within
            + 2 * ramp.over * ramp.to * (nanos - within)
    }

    /// Returns the number of messages up to a time, as messages × nanoseconds. Both rates and both times are those of the shape.
    fn area_of_spikes([base, spike]: [u64; 2], [every, length]: [Duration; 2], at: i128) -> i128 {
        let [every, length] = [every, length].map(|time| time.as_nanos() as i128);
        let (periods, rest) = (at / every, at % every);
        let in_spikes = periods * length + (rest - (every - length)).max(0);
        i128::from(base) * (at - in_spikes) + i128::from(spike) * in_spikes
    }

    proptest! {
        #[test]
        fn a_message_of_a_ramp_is_due_in_the_nanosecond_in_which_the_area_reaches_it(
            from in 0..=RATE_MAX, to in 1..=RATE_MAX, over_ms in 1u64..=86_400_000, index in 0..MESSAGES_MAX,
        ) {
            let shape = Shape::Ramp { from, to, over: Duration::from_millis(over_ms) };
            let Kind::Ramp(ramp) = Schedule::new(&shape).unwrap().0 else { panic!("another shape") };
            let due = ramp.due(i128::from(index));
            let wanted = 2 * ramp.over * NANOS_PER_SEC * i128::from(index);
            prop_assert!(area_of_ramp(ramp, due) <= wanted);
            prop_assert!(area_of_ramp(ramp, due + 1) > wanted || (from == 0 && index == 0));
        }

        #[test]
        fn a_message_of_spikes_is_due_in_the_nanosecond_in_which_the_area_reaches_it(
            base in 0..=RATE_MAX, spike in 1..=RATE_MAX, every_ms in 2u64..=86_400_000, share in 0.0..1.0, index in 0..MESSAGES_MAX,
        ) {
            let length_ms = ((every_ms as f64 * share) as u64).clamp(1, every_ms - 1);
            let (every, length) = (Duration::from_millis(every_ms), Duration::from_millis(length_ms));
            let schedule = Schedule::new(&Shape::Spikes { base, spike, every, length }).unwrap();
            let due = schedule.due(index).as_nanos() as i128;
            let area = |at| area_of_spikes([base, spike], [every, length], at);
            let wanted = NANOS_PER_SEC * i128::from(index);
            prop_assert!(area(due) <= wanted);
            prop_assert!(area(due + 1) > wanted);
        }

        #[test]
        fn later_messages_are_never_due_earlier_and_are_counted_before_their_time(
            shape in prop_oneof![
                (1..=RATE_MAX).prop_map(|rate| format!("constant:{rate}")),
                (0..=RATE_MAX, 1..=RATE_MAX, 1u32..9_999).prop_map(|(from, to, over)| format!("ramp:{from}..{to}/{over}ms")),
                (0..=RATE_MAX, 1..=RATE_MAX, 2u32..9_999, 0.0..1.0).prop_map(|(base, spike, every, share)| {
                    let length = (f64::from(every) * share) as u32;
                    format!("spikes:{base},{spike},every={every}ms,for={}ms", length.clamp(1, every - 1))
                }),
            ],
            index in 0..MESSAGES_MAX,
        ) {
            let schedule = schedule(&shape);
            let (due, next) = (schedule.due(index), schedule.due(index + 1));
            prop_assert!(due < next, "{shape}: {due:?} {next:?}");
            prop_assert_eq!(schedule.due_before(due, MESSAGES_MAX), index);
            prop_assert_eq!(schedule.due_before(next, MESSAGES_MAX), index + 1);
        }
    }
}
