//! When each message of a burst was sent.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::schedule::Schedule;
use crate::workload::Workload;

/// Acknowledgements that come closer together than this count as one.
const STEP: Duration = Duration::from_millis(5);

/// How many messages the queue had acknowledged at which time.
#[derive(Debug)]
pub struct SentTimes {
    began: Instant,
    /// Times with totals, both growing.
    acknowledged: Mutex<Vec<(Duration, u64)>>,
}

impl SentTimes {
    /// Returns the times of a burst that begins now.
    pub fn new(began: Instant) -> SentTimes {
        SentTimes {
            began,
            acknowledged: Mutex::default(),
        }
    }

    /// Records that this many messages are acknowledged.
    pub fn acknowledged(&self, total: u64) {
        let at = self.began.elapsed();
        let mut acknowledged = self.lock();
        match acknowledged.last_mut() {
            Some((last, known)) if at - *last < STEP => *known = total,
            Some(_) | None => acknowledged.push((at, total)),
        }
    }

    /// Returns how many messages are acknowledged.
    pub fn total(&self) -> u64 {
        self.lock().last().map_or(0, |(_, total)| *total)
    }

    /// Returns when the first message of each event was sent, by the event's number. If messages have times, that is when it was due.
    /// Otherwise it is when as many messages were acknowledged as come up to it: the sender keeps about their order.
    pub fn of_events(&self, workload: &Workload, schedule: &Schedule) -> Vec<Duration> {
        let acknowledged = self.lock();
        let originals = (0..workload.len()).filter(|index| !workload.is_duplicate(*index));
        originals
            .map(|index| match schedule.is_paced() {
                true => schedule.due(index),
                false => {
                    let step = acknowledged.partition_point(|(_, total)| *total <= index);
                    let step = acknowledged.get(step).or(acknowledged.last());
                    step.map_or(Duration::ZERO, |(at, _)| *at)
                }
            })
            .collect()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<(Duration, u64)>> {
        let acknowledged = self.acknowledged.lock();
        acknowledged.unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shape::Shape;
    use crate::workload::WorkloadConfig;

    fn schedule(shape: &Shape) -> Schedule {
        Schedule::new(shape).unwrap()
    }

    fn workload() -> Workload {
        let config = WorkloadConfig {
            messages: 6,
            ..WorkloadConfig::default()
        };
        Workload::new(config).unwrap()
    }

    #[test]
    fn with_a_rate_a_message_was_sent_when_it_was_due() {
        let times = SentTimes::new(Instant::now());
        let secs = times.of_events(&workload(), &schedule(&Shape::Constant { per_second: 2 }));
        let expected = [0, 500, 1_000, 1_500, 2_000, 2_500].map(Duration::from_millis);
        assert_eq!(secs, expected);
    }

    #[test]
    fn without_a_rate_a_message_was_sent_when_the_queue_had_acknowledged_so_many() {
        let times = SentTimes::new(Instant::now());
        let steps = [(10, 2), (20, 5)].map(|(ms, total)| (Duration::from_millis(ms), total));
        times.acknowledged.lock().unwrap().extend(steps);
        let ms = times.of_events(&workload(), &schedule(&Shape::Max));
        // The last message was never acknowledged.
        assert_eq!(ms, [10, 10, 20, 20, 20, 20].map(Duration::from_millis));
        assert_eq!(times.total(), 5);
    }
}
