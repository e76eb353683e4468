//! Runs the model: takes one event after the other until the burst is over.

use std::collections::BTreeMap;

use super::limit::Limit;
use super::plan::Plan;
use super::queue::Cohort;
use super::settings::Settings;
use super::world::{Event, World};
use crate::record::Sample;

/// The longest burst that is modelled, in seconds. One that lasts longer is reported as not drained.
pub const SECS_MAX: f64 = 14.0 * 24.0 * 3_600.0;
/// The time between two looks at the growth of the mapping, in seconds.
const GROW_SECS: f64 = 1.0;

/// Computes what a burst does. The same settings give the same plan.
pub fn plan(settings: &Settings) -> Plan {
    let mut world = World::new(settings);
    world.agenda.add(0.0, Event::Arrive);
    world.agenda.add(0.0, Event::Look);
    while let Some((at, event)) = world.agenda.next() {
        world.now = at;
        world.happen(event);
        if world.is_done() || world.now > SECS_MAX {
            break;
        }
    }
    world.mapping.grow(world.now);
    world.usage.poller_secs = world.mapping.provisioned_secs();
    world.look();
    Plan::of(world)
}

/// Batch-processors whose state is looked at, the last that started.
const PROCESSINGS_LOOKED_AT: usize = 64;

/// Returns the limit that occurs most often.
fn most_frequent(limits: impl Iterator<Item = Limit>) -> Option<Limit> {
    let mut counts: BTreeMap<Limit, u32> = BTreeMap::new();
    limits.for_each(|limit| *counts.entry(limit).or_default() += 1);
    let most = counts.into_iter().max_by_key(|(_, count)| *count);
    most.map(|(limit, _)| limit)
}

impl World {
    fn happen(&mut self, event: Event) {
        match event {
            Event::Arrive => self.arrive(),
            Event::Poll(gatherer) => self.poll(gatherer),
            Event::Grow => self.grow(),
            Event::Retry => self.retry_blocked(),
            Event::Step(invocation) => self.step(invocation),
            Event::Release(environment, gatherer) => self.release(environment, gatherer),
            Event::Return(messages) => self.return_messages(messages),
            Event::Ticket(batch) => self.ticket(batch),
            Event::Process(processing) => self.process(processing),
            Event::Look => {
                self.look();
                let every = self.observer.every;
                self.lock_table.grow(self.now, every);
                self.lock_index.grow(self.now, every);
                self.batch_table.grow(self.now, every);
                self.agenda.add(self.now + every, Event::Look);
            }
        }
    }

    /// Sends what was due since the last look at the arrivals.
    fn arrive(&mut self) {
        let burst = &self.settings.burst;
        let (messages, shape) = (burst.messages, burst.shape);
        let sent = shape.sent(messages, self.now);
        let unique = (u128::from(sent) * u128::from(self.unique) / u128::from(messages)) as u64;
        let count = sent - self.sent;
        if count > 0 {
            self.queue.send(Cohort {
                sent_at: self.now,
                count,
                unique: unique - self.sent_unique,
                receives: 0,
            });
            (self.sent, self.sent_unique, self.sent_after) = (sent, unique, self.now);
            if self.mapping.gatherers.is_empty() {
                self.grow();
            }
            self.wake();
        }
        if sent < messages {
            self.agenda
                .add(self.now + shape.slice_secs(messages), Event::Arrive);
        }
    }

    /// Adds the gatherers that the mapping has by now.
    fn grow(&mut self) {
        let new = self.mapping.grow(self.now);
        self.mapping.idle.extend(new);
        self.retry_blocked();
        self.wake();
        if self.mapping.grows() {
            self.agenda.add(self.now + GROW_SECS, Event::Grow);
        }
    }

    /// Takes a sample.
    fn look(&mut self) {
        let (limit, oldest) = (self.held_up_by(), self.queue.oldest());
        let sample = Sample {
            at_secs: self.now,
            sent: Some(self.sent),
            taken: Some(self.taken),
            claimed: Some(self.claimed),
            duplicates: Some(self.taken.saturating_sub(self.claimed)),
            delivered: Some(self.delivered),
            visible: Some(self.queue.visible_count),
            in_flight: Some(self.queue.in_flight),
            oldest_secs: Some(oldest.map_or(0.0, |sent_at| self.now - sent_at)),
            aggregators: Some(self.environments.busy),
            batch_processors: Some(self.processors.busy),
            throttled: Some(self.observer.throttled_total()),
            returned: Some(self.queue.returned),
        };
        self.observer.look(sample, limit);
    }

    /// Returns what holds the burst up now.
    fn held_up_by(&self) -> Limit {
        // What the gatherers take with their next receive is not held up.
        let one_receive = self.one_receive();
        let all_sent = self.sent == self.settings.burst.messages;
        let none_blocked = self.mapping.blocked.is_empty();
        let few = self.queue.visible_count <= one_receive && !all_sent && none_blocked;
        if self.queue.visible_count > 0 && !few {
            return self.taking_held_up_by();
        }
        if self.sent < self.settings.burst.messages {
            return Limit::Producers;
        }
        if let Some(limit) = self.waited_for_by_invocations() {
            return limit;
        }
        if self.away > 0 {
            return Limit::Visibility;
        }
        self.delivery_held_up_by()
    }

    /// Returns how many messages all gatherers together receive at once.
    fn one_receive(&self) -> u64 {
        self.mapping.receive_max() * self.mapping.gatherers.len() as u64
    }

    /// Returns why messages are visible and not taken.
    fn taking_held_up_by(&self) -> Limit {
        if self.queue.room() < self.one_receive().min(self.queue.visible_count) {
            return Limit::InFlight;
        }
        let Some(first) = self.mapping.blocked.front() else {
            return match self.mapping.grows() {
                true => Limit::MappingRamp,
                false => Limit::ReceiveRate,
            };
        };
        let by_tables = self
            .waited_for_by_invocations()
            .filter(|limit| *limit != Limit::MappingConcurrency);
        let of_mapping = self.mapping.gatherers[*first].blocked;
        by_tables.or(of_mapping).unwrap_or(Limit::ReceiveRate)
    }

    /// Returns what most invocations of the aggregator wait for.
    fn waited_for_by_invocations(&self) -> Option<Limit> {
        most_frequent(self.running())
    }

    fn running(&self) -> impl Iterator<Item = Limit> + '_ {
        // Those that run are among the last that started.
        let recent = self.invocations.iter().rev();
        recent
            .take(4 * self.environments.count + 4)
            .flatten()
            .map(|each| each.waits_for)
    }

    /// Returns what batches wait for.
    fn delivery_held_up_by(&self) -> Limit {
        let recent = self.processings.iter().rev().take(PROCESSINGS_LOOKED_AT);
        let waits_for = most_frequent(recent.flatten().map(|run| run.waits_for));
        if let Some(limit) = waits_for {
            let by_own_time = matches!(limit, Limit::ProcessorTime | Limit::Sink);
            return match by_own_time && !self.tickets.is_empty() {
                true => Limit::ProcessorConcurrency,
                false => limit,
            };
        }
        Limit::BatchWindow
    }
}
