//! What a plan says about a burst.

use std::collections::BTreeMap;

use super::batches::{Batch, Flushed};
use super::limit::Limit;
use super::usage::Usage;
use super::world::World;
use crate::record::{LatencySummary, Sample};

/// The plan of a burst. Times are seconds from the start of the burst.
#[derive(Debug)]
pub struct Plan {
    pub messages: u64,
    pub unique: u64,
    /// When the last message was sent, when the last one was taken off the queue, when the last batch was delivered, and
    /// when it was complete.
    pub sent_secs: f64,
    pub claimed_secs: f64,
    pub delivered_secs: f64,
    pub drained_secs: f64,
    /// Whether the model came to the end of the burst.
    pub drained: bool,
    /// Batches with events, and how many of them were full, or sealed because the queue was empty.
    pub batches: u64,
    pub full: u64,
    pub sealed_drained: u64,
    pub aggregators_most: u64,
    pub processors_most: u64,
    pub cold_starts: u64,
    /// Messages of an invocation, on average.
    pub messages_per_invocation: f64,
    pub in_flight_most: u64,
    /// Messages that came back, and the most receives of one.
    pub returned: u64,
    pub receives_most: u32,
    pub dead_letters: u64,
    pub tickets_given_back: u64,
    pub throttles: Vec<(Limit, u64)>,
    /// Seconds for which each limit held the burst up.
    pub held_up: BTreeMap<Limit, f64>,
    pub usage: Usage,
    pub latencies: Vec<LatencySummary>,
    pub samples: Vec<Sample>,
    pub spans: Vec<Batch>,
}

impl Plan {
    /// Returns the plan of a world at its end.
    pub(super) fn of(world: World) -> Plan {
        let drained = world.is_done();
        let World {
            batches,
            observer,
            queue,
            environments,
            processors,
            usage,
            ..
        } = world;
        let mut spans = batches.all;
        spans.retain(|batch| batch.count > 0);
        let flushed = |why| {
            let flushed = spans.iter().filter(|batch| batch.flushed == Some(why));
            flushed.count() as u64
        };
        let last = |at: fn(&Batch) -> Option<f64>| spans.iter().filter_map(at).fold(0.0, f64::max);
        let samples = observer.samples.iter();
        let in_flight = samples.filter_map(|sample| sample.in_flight);
        Plan {
            messages: world.settings.burst.messages,
            unique: world.unique,
            sent_secs: world.sent_after,
            claimed_secs: world.taken_after,
            delivered_secs: last(|batch| batch.delivered_at),
            drained_secs: last(|batch| batch.completed_at),
            drained,
            batches: spans.len() as u64,
            full: flushed(Flushed::Full),
            sealed_drained: flushed(Flushed::Drained),
            aggregators_most: environments.busy_most,
            processors_most: processors.busy_most,
            cold_starts: environments.cold_starts + processors.cold_starts,
            messages_per_invocation: world.taken as f64 / usage.aggregator_invocations.max(1.0),
            in_flight_most: in_flight.max().unwrap_or(0),
            returned: queue.returned,
            receives_most: queue.receives_most,
            dead_letters: queue.dead,
            tickets_given_back: world.tickets_given_back,
            throttles: observer.throttles().collect(),
            latencies: observer.latencies(),
            held_up: observer.held_up,
            samples: observer.samples,
            usage,
            spans,
        }
    }

    /// Returns what held the burst up longest, and for which share of the time, in percent.
    pub fn binds(&self) -> Option<(Limit, f64)> {
        let all: f64 = self.held_up.values().sum();
        let most = self.held_up.iter().max_by(|a, b| a.1.total_cmp(b.1))?;
        Some((*most.0, most.1 / all * 100.0))
    }
}
