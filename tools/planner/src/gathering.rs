//! The mapping at work: gatherers receive, hand over batches, and wait for environments.

use std::collections::BTreeSet;

use protocol::limits::aws::SQS_RECEIVE_MESSAGES_MAX;

use super::environments::Assigned;
use super::limit::Limit;
use super::mapping::{GathererId, POLL_SECS};
use super::settings::Scaling;
use super::world::{Event, Invocation, World};

/// How long a gatherer is busy with handing over a batch before it receives again, in seconds.
const HAND_OVER_SECS: f64 = 0.01;

impl World {
    /// A gatherer receives, or hands over what it has.
    pub fn poll(&mut self, id: GathererId) {
        let (batch_max, window) = (self.mapping.batch_max, self.mapping.window_secs);
        let rate = self.mapping.rate;
        let gatherer = &self.mapping.gatherers[id];
        if gatherer.blocked.is_some() {
            return;
        }
        let over = gatherer
            .first_at
            .is_some_and(|at| self.now + 1e-9 >= at + window);
        // A gatherer that has received all the time has nothing more at the end of its window. One that waited has whatever
        // came meanwhile.
        let may_receive = !over || gatherer.waits;
        let wanted = self.mapping.receive_max().min(batch_max - gatherer.count);
        let wanted = if may_receive { wanted } else { 0 };
        let receives_max = self.settings.input.receives_max;
        let gatherer = &mut self.mapping.gatherers[id];
        let got = self.queue.receive(wanted, receives_max, &mut gatherer.held);
        gatherer.count += got;
        gatherer.waits = got == 0;
        if got > 0 {
            gatherer.first_at.get_or_insert(self.now);
            self.usage.queue_requests += (got as f64 / SQS_RECEIVE_MESSAGES_MAX as f64).ceil();
        }
        let Some(first_at) = gatherer.first_at else {
            self.mapping.idle.push(id);
            return;
        };
        if over || (gatherer.count >= batch_max && got == 0) {
            self.hand_over(id);
            return;
        }
        let busy = got as f64 / rate;
        let full = gatherer.count >= batch_max;
        let at = match (got, full) {
            (0, _) => (self.now + POLL_SECS).min(first_at + window),
            (_, true) => self.now + busy,
            (_, false) => (self.now + busy).min((first_at + window).max(self.now)),
        };
        self.agenda.add(at, Event::Poll(id));
    }

    /// Wakes as many idle gatherers as the visible messages need.
    pub fn wake(&mut self) {
        if self.queue.room() == 0 {
            return;
        }
        let needed = self.queue.visible_count.div_ceil(SQS_RECEIVE_MESSAGES_MAX);
        for _ in 0..needed.min(self.mapping.idle.len() as u64) {
            if let Some(id) = self.mapping.idle.pop() {
                self.agenda.add(self.now, Event::Poll(id));
            }
        }
    }

    /// Invokes the aggregator with what a gatherer has, or leaves it waiting.
    fn hand_over(&mut self, id: GathererId) {
        if let Err(limit) = self.invoke(id) {
            self.mapping.gatherers[id].blocked = Some(limit);
            self.mapping.blocked.push_back(id);
        }
    }

    /// Tries again to invoke with the batches that wait, the oldest first.
    pub fn retry_blocked(&mut self) {
        for _ in 0..self.mapping.blocked.len() {
            let Some(id) = self.mapping.blocked.pop_front() else {
                return;
            };
            let first_at = self.mapping.gatherers[id].first_at.unwrap_or(self.now);
            if self.now - first_at > self.settings.input.visibility_secs {
                self.give_up(id);
                continue;
            }
            match self.invoke(id) {
                Ok(()) => self.mapping.gatherers[id].blocked = None,
                Err(limit) => {
                    self.mapping.gatherers[id].blocked = Some(limit);
                    let own = matches!(self.settings.input.scaling, Scaling::Provisioned { .. })
                        && matches!(limit, Limit::MappingConcurrency | Limit::MappingRamp);
                    if own {
                        // Another poller may have room.
                        self.mapping.blocked.push_back(id);
                    } else {
                        self.mapping.blocked.push_front(id);
                        return;
                    }
                }
            }
        }
    }

    /// Lets go of a batch whose messages became visible again while it waited.
    fn give_up(&mut self, id: GathererId) {
        let gatherer = &mut self.mapping.gatherers[id];
        let held = std::mem::take(&mut gatherer.held);
        (gatherer.count, gatherer.first_at, gatherer.blocked) = (0, None, None);
        self.queue.give_back(held);
        self.agenda.add(self.now, Event::Poll(id));
    }

    fn invoke(&mut self, id: GathererId) -> Result<(), Limit> {
        if let Some(limit) = self.mapping.refusal(id, self.now) {
            return Err(limit);
        }
        let (environment, cold) = match self.environments.assign(self.now) {
            Assigned::Warm(environment) => (environment, 0.0),
            Assigned::Cold(environment) => (environment, self.settings.aggregator.cold_start_secs),
            Assigned::Throttled(limit, at) => {
                self.observer.throttled(limit, 1.0);
                if let Some(at) = at {
                    self.agenda.add(at, Event::Retry);
                }
                return Err(limit);
            }
        };
        let gatherer = &mut self.mapping.gatherers[id];
        gatherer.running += 1;
        let left = std::mem::take(&mut gatherer.held);
        let received_at = gatherer.first_at.take().unwrap_or(self.now);
        let count = std::mem::take(&mut gatherer.count);
        self.mapping.running += 1;
        self.agenda.add(self.now + HAND_OVER_SECS, Event::Poll(id));
        let started_at = self.now + cold;
        let stop_at = started_at + self.settings.aggregator.timeout_secs
            - self.settings.batches.deadline_margin_secs;
        let invocation = Invocation {
            gatherer: id,
            environment,
            left,
            count,
            in_step: 0,
            received_at,
            started_at,
            stop_at,
            unknown_share: self.unknown_share(count, environment),
            secs_per_message: self.secs_per_message(count) * self.jitter(),
            waits_for: Limit::MappingConcurrency,
            done: 0,
            in_flight_seen: None,
            touched: BTreeSet::new(),
            wrapped_up: false,
        };
        self.retire_old(environment, started_at);
        self.usage.aggregator_invocations += 1.0;
        self.invocations.push(Some(invocation));
        self.agenda
            .add(started_at, Event::Step(self.invocations.len() - 1));
        Ok(())
    }

    /// Frees the environment of an invocation that has ended.
    pub fn release(&mut self, environment: usize, gatherer: GathererId) {
        self.environments.release(environment);
        self.mapping.gatherers[gatherer].running -= 1;
        self.mapping.running -= 1;
        self.retry_blocked();
        self.wake();
    }
}
