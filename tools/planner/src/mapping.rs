//! The event source mapping of the input queue: who gathers batches, how fast, and how many invocations run at once.

use std::collections::VecDeque;

use protocol::limits::aws;

use super::limit::Limit;
use super::queue::Cohort;
use super::settings::{Input, Scaling};

/// The time between two receives of a gatherer, in seconds: that of a provisioned poller.
pub const POLL_SECS: f64 = 1.0 / aws::POLLER_RECEIVES_PER_SECOND;

/// A gatherer, by its number.
pub type GathererId = usize;

/// What gathers one batch after the other: a poller, or one of the batches that a mapping has under way.
#[derive(Debug, Default)]
pub struct Gatherer {
    pub held: Vec<Cohort>,
    pub count: u64,
    /// When it received the first message of its batch.
    pub first_at: Option<f64>,
    /// Whether its last receive returned nothing.
    pub waits: bool,
    /// Invocations of its batches that run.
    pub running: u64,
    /// What keeps its complete batch from being taken by an invocation.
    pub blocked: Option<Limit>,
}

#[derive(Debug)]
pub struct Mapping {
    scaling: Scaling,
    /// Messages a second of one gatherer.
    pub rate: f64,
    /// Most messages of a batch, by its size and by the bytes of an invocation.
    pub batch_max: u64,
    pub window_secs: f64,
    pub gatherers: Vec<Gatherer>,
    /// Gatherers that found nothing.
    pub idle: Vec<GathererId>,
    /// Gatherers with a complete batch, in the order in which it was complete.
    pub blocked: VecDeque<GathererId>,
    /// Invocations that run.
    pub running: u64,
    /// When it found the first message.
    began_at: Option<f64>,
    /// Seconds of provisioned pollers so far, until `counted_at`.
    poller_secs: f64,
    counted_at: f64,
}

impl Mapping {
    /// Makes a mapping that has been dormant. `size_bytes` is the length of a body.
    pub fn new(input: &Input, size_bytes: u64) -> Mapping {
        let record = input.record_bytes + size_bytes;
        let rate = match input.scaling {
            Scaling::Provisioned { .. } => (aws::POLLER_RECEIVES_PER_SECOND
                * aws::SQS_RECEIVE_MESSAGES_MAX as f64)
                .min(aws::POLLER_BYTES_PER_SECOND / record as f64),
            Scaling::MaximumConcurrency(_) | Scaling::Local(_) => input.receive_rate,
        };
        Mapping {
            scaling: input.scaling,
            rate,
            batch_max: input
                .batch_size
                .min(aws::LAMBDA_PAYLOAD_BYTES_MAX / record)
                .max(1),
            window_secs: input.window_secs,
            gatherers: Vec::new(),
            idle: Vec::new(),
            blocked: VecDeque::new(),
            running: 0,
            began_at: None,
            poller_secs: 0.0,
            counted_at: 0.0,
        }
    }

    /// Returns how many messages one gatherer asks for at once.
    pub fn receive_max(&self) -> u64 {
        ((self.rate * POLL_SECS) as u64).max(1)
    }

    /// Notes that there are messages, and adds the gatherers that there are by now. Returns the new ones.
    pub fn grow(&mut self, now: f64) -> std::ops::Range<GathererId> {
        let began_at = *self.began_at.get_or_insert(now);
        let before = self.gatherers.len();
        let wanted = match self.scaling {
            Scaling::Local(_) => 1,
            Scaling::MaximumConcurrency(_) => self.slots(now) as usize,
            Scaling::Provisioned { min, max } => {
                let pollers =
                    aws::POLLERS_RISE_PER_MINUTE / 60.0 / aws::POLLER_CONCURRENCY_MAX as f64;
                (f64::from(min) + (now - began_at) * pollers).min(f64::from(max)) as usize
            }
        };
        self.poller_secs += before as f64 * (now - self.counted_at);
        self.counted_at = now;
        self.gatherers
            .resize_with(wanted.max(before), Gatherer::default);
        before..self.gatherers.len()
    }

    /// Returns the seconds of provisioned pollers so far, which are paid for.
    pub fn provisioned_secs(&self) -> f64 {
        match self.scaling {
            Scaling::Provisioned { .. } => self.poller_secs,
            Scaling::MaximumConcurrency(_) | Scaling::Local(_) => 0.0,
        }
    }

    /// Returns how many invocations may run at once.
    pub fn slots(&self, now: f64) -> u64 {
        let since = now - self.began_at.unwrap_or(now);
        match self.scaling {
            Scaling::Local(environments) => u64::from(environments),
            Scaling::Provisioned { .. } => {
                self.gatherers.len() as u64 * aws::POLLER_CONCURRENCY_MAX
            }
            Scaling::MaximumConcurrency(_) => {
                let risen =
                    aws::MAPPING_CONCURRENCY_AT_FIRST + since * aws::MAPPING_RISE_PER_MINUTE / 60.0;
                risen.min(self.slots_max()) as u64
            }
        }
    }

    /// Returns how many it may have in the end.
    fn slots_max(&self) -> f64 {
        match self.scaling {
            Scaling::Local(environments) => f64::from(environments),
            Scaling::Provisioned { max, .. } => f64::from(max) * aws::POLLER_CONCURRENCY_MAX as f64,
            Scaling::MaximumConcurrency(max) => {
                let with_overshoot = (f64::from(max) * (1.0 + aws::MAPPING_OVERSHOOT)).floor();
                with_overshoot.min(aws::MAPPING_CONCURRENCY_MAX)
            }
        }
    }

    /// Returns whether it still grows.
    pub fn grows(&self) -> bool {
        let (now, max) = match self.scaling {
            Scaling::Local(_) => return self.gatherers.is_empty(),
            Scaling::MaximumConcurrency(_) => (self.gatherers.len() as f64, self.slots_max()),
            Scaling::Provisioned { max, .. } => (self.gatherers.len() as f64, f64::from(max)),
        };
        now < max
    }

    /// Returns what keeps a gatherer's batch from being invoked now, as far as the mapping decides.
    pub fn refusal(&self, gatherer: GathererId, now: f64) -> Option<Limit> {
        let full = match self.scaling {
            Scaling::Provisioned { .. } => {
                self.gatherers[gatherer].running >= aws::POLLER_CONCURRENCY_MAX
            }
            Scaling::MaximumConcurrency(_) | Scaling::Local(_) => self.running >= self.slots(now),
        };
        let limit = match self.grows() {
            true => Limit::MappingRamp,
            false => Limit::MappingConcurrency,
        };
        full.then_some(limit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Settings;

    fn mapping(scaling: Scaling, size_bytes: u64) -> Mapping {
        let input = Input {
            scaling,
            ..Settings::default().input
        };
        let mut mapping = Mapping::new(&input, size_bytes);
        mapping.grow(0.0);
        mapping
    }

    #[test]
    fn a_mapping_starts_with_five_and_grows_by_three_hundred_a_minute_to_1_250() {
        let mut mapping = mapping(Scaling::MaximumConcurrency(2_000), 300);
        let slots = [0.0, 60.0, 120.0, 600.0].map(|at| mapping.slots(at));
        assert_eq!(slots, [5, 305, 605, 1_250]);
        assert_eq!(mapping.grow(60.0), 5..305);
    }

    #[test]
    fn a_maximum_concurrency_of_120_is_exceeded_as_measured_and_one_of_2_is_not() {
        for (max, slots) in [(120, 128), (2, 2)] {
            let mapping = mapping(Scaling::MaximumConcurrency(max), 300);
            assert_eq!(mapping.slots(600.0), slots);
        }
    }

    #[test]
    fn pollers_grow_by_a_hundred_a_minute_and_take_a_hundred_messages_a_second_or_a_megabyte() {
        let mut pollers = mapping(Scaling::Provisioned { min: 2, max: 200 }, 250);
        assert_eq!(pollers.rate, 100.0);
        pollers.grow(60.0);
        assert_eq!(pollers.gatherers.len(), 102);
        pollers.grow(600.0);
        assert_eq!(pollers.gatherers.len(), 200);
        assert_eq!(pollers.slots(600.0), 2_000);
        let large = mapping(Scaling::Provisioned { min: 2, max: 2 }, 99_250);
        assert_eq!(large.rate, 10.0);
    }

    #[test]
    fn a_batch_has_at_most_six_megabytes() {
        let mut input = Settings::default().input;
        input.record_bytes = 24;
        assert_eq!(Mapping::new(&input, 1_000).batch_max, 6_144);
        assert_eq!(Mapping::new(&input, 100).batch_max, 10_000);
        assert_eq!(Mapping::new(&input, 1 << 20).batch_max, 5);
    }
}
