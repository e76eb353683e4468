//! The aggregator: invocations, claims, and what becomes of messages that are not claimed.
//!
//! An invocation claims its messages in steps. A step takes the time of its CPU or of its requests, whichever is more, and
//! no less than until the tables have units for it. So invocations that share a table get their units in turn.

use protocol::limits::DRAINED_LOOKS_APART;
use protocol::limits::aws::SQS_RECEIVE_MESSAGES_MAX;

use super::batches::{BatchId, Flushed};
use super::environments::end_of_invocation;
use super::limit::{Limit, latest};
use super::queue::{Cohort, push, totals};
use super::settings::NEAR_MESSAGES;
use super::world::{Event, Invocation, STEP_ITEMS, World};

impl World {
    /// Returns the seconds of one message: of CPU, or of requests with as many in flight as may be.
    pub(super) fn secs_per_message(&self, count: u64) -> f64 {
        let requests = &self.settings.requests;
        let parallel = (count as f64 / f64::from(requests.items)).ceil();
        let parallel = parallel.min(f64::from(requests.concurrency)).max(1.0);
        let waiting = match self.is_log() {
            true => 0.0,
            false => requests.write_secs / (f64::from(requests.items) * parallel),
        };
        self.settings.aggregator.secs_per_message().max(waiting)
    }

    /// Returns the share of an invocation's duplicates that only the table recognises: their originals are neither in the invocation nor
    /// among the claims in open batches that its environment remembers. Half of the duplicates come soon after their originals.
    pub(super) fn unknown_share(&self, count: u64, environment: usize) -> f64 {
        let gatherers = self.mapping.gatherers.len().max(1) as f64;
        let together =
            (1.0 - NEAR_MESSAGES as f64 / 2.0 / count.max(1) as f64).max(0.0) / gatherers;
        let elsewhere = 1.0 - 1.0 / self.environments.count.max(1) as f64;
        let remembered = self.batches.claims_remembered(environment);
        let remembered_share = match self.claimed {
            0 => 1.0,
            claimed => remembered as f64 / claimed as f64,
        };
        0.5 * (1.0 - together) * elsewhere + 0.5 * (1.0 - remembered_share)
    }

    /// Retires the batches whose windows have ended for an invocation. They wait for their tickets.
    pub(super) fn retire_old(&mut self, environment: usize, started_at: f64) {
        let ends_at = self.window_counts_from(started_at);
        let open = self.batches.current_of(environment);
        let old = open.filter(|id| ends_at >= self.batches.all[*id].closes_at);
        for batch in Vec::from_iter(old) {
            self.batches.retire(environment, batch, Flushed::Window);
        }
    }

    /// Returns from when on the window of a batch counts that an invocation opens now. An environment with batches of its own claims into
    /// them until its invocation ends.
    fn window_counts_from(&self, started_at: f64) -> f64 {
        match self.settings.batches.own_batches {
            true => started_at + self.settings.aggregator.timeout_secs,
            false => self.now,
        }
    }

    /// An invocation ends its step, and begins the next one.
    pub fn step(&mut self, index: usize) {
        let Some(mut invocation) = self.invocations[index].take() else {
            return;
        };
        if invocation.in_step > 0 {
            self.end_step(&mut invocation);
        }
        let next = match invocation.left.is_empty() {
            true => self.wrap_up(&mut invocation),
            false if self.is_log() => Some(self.bring(&mut invocation)),
            false => Some(self.begin_step(&mut invocation)),
        };
        match next {
            Some(at) => {
                self.agenda.add(at, Event::Step(index));
                self.invocations[index] = Some(invocation);
            }
            None => self.end_invocation(&invocation),
        }
    }

    /// Takes the units of the next claims, and returns when they are done. Gives the messages back if that is too late.
    fn begin_step(&mut self, invocation: &mut Invocation) -> f64 {
        let first = invocation.in_step == 0;
        let (left, left_unique) = totals(&invocation.left);
        let count = STEP_ITEMS.min(left);
        let unique = left_unique as f64 * count as f64 / left as f64;
        let refused = (count as f64 - unique) * invocation.unknown_share;
        let (mut done, mut waits_for) = (self.now, Limit::MappingConcurrency);
        if self.settings.burst.keys == 1
            && self.batches.current(invocation.environment, 0).is_none()
        {
            self.open_batch(invocation, 0);
        }
        if first {
            let scopes = self.scopes_of(invocation.count);
            (done, waits_for) = self.reserve_units(invocation.environment, scopes);
            if waits_for != Limit::MappingConcurrency {
                self.observer.throttled(waits_for, 1.0);
            }
            done += self.secs_of_reservations(scopes) + self.settings.requests.write_secs;
        }
        done += count as f64 * invocation.secs_per_message;
        let claimed = (done, waits_for);
        let (done, waits_for) = self.units_at(invocation.environment, claimed, unique, refused);
        if done > invocation.stop_at {
            let left = std::mem::take(&mut invocation.left);
            self.fail(left, invocation.received_at);
            invocation.in_step = 0;
            return self.now.max(invocation.stop_at);
        }
        invocation.in_step = count;
        invocation.waits_for = waits_for;
        self.take_units(invocation.environment, unique, refused);
        done
    }

    /// Returns when the tables have units for claims, at the earliest when these are `done` without limits, and what decides that.
    fn units_at(
        &self,
        environment: usize,
        done: (f64, Limit),
        unique: f64,
        refused: f64,
    ) -> (f64, Limit) {
        let (now, units) = (self.now, (unique + refused) * self.sizes.item_units);
        let share = unique / f64::from(self.settings.burst.keys);
        let open = self.batches.current_of(environment);
        let keys = open.map(|id| self.batches.all[id].keys.when(now, share));
        let others = [
            (self.lock_table.bucket.when(now, units), Limit::LockTable),
            (self.lock_index.bucket.when(now, unique), Limit::LockIndex),
            (keys.fold(0.0, f64::max), Limit::IndexKeys),
        ];
        latest(done, others)
    }

    fn take_units(&mut self, environment: usize, unique: f64, refused: f64) {
        let item = self.sizes.item_units;
        let now = self.now;
        self.usage.lock_writes += unique * item;
        self.usage.refused_writes += refused * item;
        self.usage.reads += refused;
        let before = self.lock_table.bucket.waited_for + self.lock_index.bucket.waited_for;
        self.lock_table.bucket.take(now, (unique + refused) * item);
        self.usage.index_writes += unique;
        self.lock_index.bucket.take(now, unique);
        let share = unique / f64::from(self.settings.burst.keys);
        let open: Vec<BatchId> = self.batches.current_of(environment).collect();
        for id in open {
            let keys = &mut self.batches.all[id].keys;
            let waited = keys.waited_for;
            keys.take(now, share);
            self.observer
                .refused(Limit::IndexKeys, keys.waited_for - waited);
        }
        let waited = self.lock_table.bucket.waited_for + self.lock_index.bucket.waited_for - before;
        self.observer.refused(Limit::LockTable, waited);
    }

    /// Puts the claims of a step into batches, evenly over the keys. What does not divide goes to keys drawn by the seed.
    fn end_step(&mut self, invocation: &mut Invocation) {
        let keys = self.settings.burst.keys;
        self.retire_old(invocation.environment, invocation.started_at);
        let count = invocation.in_step;
        let (each, more) = (count / u64::from(keys), count % u64::from(keys));
        let first = self.random.u32(0..keys);
        invocation.left.reverse();
        for number in 0..keys {
            let mut of_key = each + u64::from(u64::from(number) < more);
            while of_key > 0
                && let Some(last) = invocation.left.last_mut()
            {
                let taken = last.take(of_key);
                if last.count == 0 {
                    invocation.left.pop();
                }
                of_key -= taken.count;
                self.claim(invocation, (first + number) % keys, taken);
            }
        }
        invocation.left.reverse();
    }

    /// Puts messages of one key into the current batch, and into others when it is full. Duplicates take seats too, except those of claims
    /// that the environment remembers.
    fn claim(&mut self, invocation: &mut Invocation, key: u32, mut messages: Cohort) {
        invocation.done += messages.count;
        if !self.is_log() {
            let duplicates = (messages.count - messages.unique) as f64;
            messages.count = messages.unique + self.whole(duplicates * invocation.unknown_share);
        }
        while messages.count > 0 {
            let environment = invocation.environment;
            let batch = match self.batches.current(environment, key) {
                Some(batch) => batch,
                None => self.open_batch(invocation, key),
            };
            let room = self.batches.room(batch);
            if messages.count > room {
                // The batch refuses, and says how much room it has.
                self.usage.refused_writes += 1.0;
            }
            let taken = messages.take(room);
            self.claimed += taken.unique;
            self.batches.add(batch, taken, self.now);
            if invocation.touched.insert(batch) {
                self.reserve(invocation, key, batch);
            }
            self.batches.remember(environment, batch, taken.unique);
            if self.batches.room(batch) == 0 {
                self.batches.retire(environment, batch, Flushed::Full);
                self.batches.forget(environment, key);
                self.seal(batch);
            }
        }
    }

    fn open_batch(&mut self, invocation: &Invocation, key: u32) -> BatchId {
        let from = self.window_counts_from(invocation.started_at);
        let closes_at = from + self.settings.batches.window_secs;
        let environment = invocation.environment;
        let batch = self.batches.open(environment, key, self.now, closes_at);
        self.send_window_ticket(batch);
        batch
    }

    /// Lets messages come back after the visibility timeout.
    pub(super) fn fail(&mut self, messages: Vec<Cohort>, received_at: f64) {
        self.away += totals(&messages).0;
        let at = (received_at + self.settings.input.visibility_secs).max(self.now);
        self.agenda.add(at, Event::Return(messages));
    }

    /// Makes messages visible again.
    pub fn return_messages(&mut self, messages: Vec<Cohort>) {
        self.away -= totals(&messages).0;
        let mut merged = Vec::new();
        for cohort in messages {
            push(&mut merged, cohort);
        }
        self.queue.give_back(merged);
        self.wake();
    }

    /// Seals if the queue is drained, and fills the slots. Returns when the invocation goes on; nothing if it ends.
    fn wrap_up(&mut self, invocation: &mut Invocation) -> Option<f64> {
        if invocation.wrapped_up {
            return None;
        }
        if self.settings.batches.seal_when_drained
            && let Some(again_at) = self.look_at_depth(invocation)
        {
            return Some(again_at);
        }
        invocation.wrapped_up = true;
        if self.is_log() {
            return None;
        }
        let scopes = self.scopes_of(invocation.count);
        Some(self.now + self.secs_of_reservations(scopes))
    }

    /// Seals the open batches if the queue holds nothing but the messages of this invocation. If other invocations have messages too,
    /// returns when to look a second time: if there are no more of them then, the burst is over.
    fn look_at_depth(&mut self, invocation: &mut Invocation) -> Option<f64> {
        let open = self.batches.current_of(invocation.environment).next();
        if open.is_none() || self.queue.visible_count > 0 {
            return None;
        }
        self.usage.queue_requests += 1.0;
        let in_flight = self.queue.in_flight;
        match invocation.in_flight_seen {
            None if in_flight > invocation.count => {
                invocation.in_flight_seen = Some(in_flight);
                return Some(self.now + DRAINED_LOOKS_APART.as_secs_f64());
            }
            Some(before) if in_flight > before => {}
            None | Some(_) => self.seal_all(invocation.environment),
        }
        None
    }

    fn seal_all(&mut self, environment: usize) {
        let open: Vec<BatchId> = self.batches.current_of(environment).collect();
        for batch in open {
            self.batches.retire(environment, batch, Flushed::Drained);
            self.seal(batch);
        }
    }

    fn end_invocation(&mut self, invocation: &Invocation) {
        self.queue.delete(invocation.done);
        self.taken += invocation.done;
        self.taken_after = self.now;
        self.usage.queue_requests +=
            (invocation.count as f64 / SQS_RECEIVE_MESSAGES_MAX as f64).ceil();
        self.usage.aggregator_secs += self.now - invocation.started_at;
        let free_at = end_of_invocation(invocation.started_at, self.now);
        let release = Event::Release(invocation.environment, invocation.gatherer);
        self.agenda.add(free_at, release);
    }
}
