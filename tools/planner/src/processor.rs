//! The batch-processor: tickets, and what it does with a batch.

use super::batches::{BatchId, Flushed};
use super::environments::{Assigned, EnvironmentId};
use super::limit::{Limit, latest};
use super::usage::Sizes;
use super::world::{Event, Processing, STEP_ITEMS, Stage, World};

/// Keys of one request for items, and bytes of one page of a query.
const KEYS_OF_REQUEST: f64 = protocol::limits::BATCH_GET_KEYS_MAX as f64;
const PAGE_BYTES: f64 = 1_048_576.0;
/// How long a ticket that is given back stays away, in seconds: the first of `RetryPolicy::TICKET`, on average.
const GIVEN_BACK_SECS: f64 = 5.0;
/// Half of the CPU of a message is for collecting and delivering, half for releasing it, or in the log for deciding about it.
const COLLECT_SHARE: f64 = 0.5;

impl World {
    /// A ticket arrives.
    pub fn ticket(&mut self, batch: BatchId) {
        let state = &mut self.batches.all[batch];
        if state.completed_at.is_some() || state.claimed_by_processor {
            return;
        }
        state.claimed_by_processor = true;
        self.tickets.push_back(batch);
        self.take_tickets();
    }

    /// Starts batch-processors as long as there are tickets and free environments.
    fn take_tickets(&mut self) {
        while !self.tickets.is_empty() {
            let (environment, cold) = match self.processors.assign(self.now) {
                Assigned::Warm(environment) => (environment, 0.0),
                Assigned::Cold(environment) => {
                    (environment, self.settings.processor.cold_start_secs)
                }
                Assigned::Throttled(..) => return,
            };
            let Some(batch) = self.tickets.pop_front() else {
                return;
            };
            self.start_processing(batch, environment, self.now + cold);
        }
    }

    fn start_processing(&mut self, batch: BatchId, environment: EnvironmentId, started_at: f64) {
        let state = &mut self.batches.all[batch];
        state.leased_at.get_or_insert(started_at);
        if state.sealed_at.is_none() {
            state.flushed.get_or_insert(Flushed::Window);
        }
        let stage = match self.resumed.remove(&batch) {
            Some(stage) => stage,
            None => Stage::Close,
        };
        let stop_at = started_at + self.settings.processor.timeout_secs
            - self.settings.batches.deadline_margin_secs;
        self.usage.processor_invocations += 1.0;
        self.processings.push(Some(Processing {
            batch,
            environment,
            stage,
            manifest: 0,
            started_at,
            stop_at,
            waits_for: Limit::ProcessorTime,
        }));
        let index = self.processings.len() - 1;
        let begins_at = started_at + self.settings.requests.control_secs;
        self.agenda.add(begins_at, Event::Process(index));
    }

    /// A batch-processor begins its next step.
    pub fn process(&mut self, index: usize) {
        let Some(mut run) = self.processings[index].take() else {
            return;
        };
        if self.now > run.stop_at && !matches!(run.stage, Stage::Complete | Stage::Merge) {
            self.give_back(&run);
            return;
        }
        let next = match run.stage {
            Stage::Close => self.close(&mut run),
            Stage::Resolve => self.resolve(&mut run),
            Stage::Commit => self.commit(&mut run),
            Stage::Collect => self.collect(&mut run),
            Stage::Deliver(parts) => self.deliver(&mut run, parts),
            Stage::Release(events) => self.release_events(&mut run, events),
            Stage::Complete => match self.complete(&mut run) {
                Some(merged_at) => merged_at,
                None => return,
            },
            Stage::Merge => {
                self.free_processor(&run);
                return;
            }
        };
        self.agenda.add(next, Event::Process(index));
        self.processings[index] = Some(run);
    }

    /// Ends a run whose time is over. Its ticket comes back, and the next run goes on from there.
    fn give_back(&mut self, run: &Processing) {
        let stage = match run.stage {
            // The lines are not kept.
            Stage::Resolve | Stage::Commit => Stage::Close,
            stage => stage,
        };
        self.resumed.insert(run.batch, stage);
        self.batches.all[run.batch].claimed_by_processor = false;
        self.tickets_given_back += 1;
        self.agenda
            .add(self.now + GIVEN_BACK_SECS, Event::Ticket(run.batch));
        self.free_processor(run);
    }

    fn free_processor(&mut self, run: &Processing) {
        self.usage.processor_secs += self.now - run.started_at;
        self.processors.release(run.environment);
        self.take_tickets();
    }

    /// Closes a batch: reads its slots, and in the log its lines.
    fn close(&mut self, run: &mut Processing) -> f64 {
        let slots_secs = self.read_slots(run.batch);
        if !self.is_log() {
            run.stage = Stage::Collect;
            return self.now + slots_secs * self.jitter();
        }
        let seats = self.batches.all[run.batch].seats;
        let cpu = (1.0 - COLLECT_SHARE) * seats as f64 * self.settings.processor.secs_per_message();
        let secs = (slots_secs + self.read_lines(run)).max(cpu);
        self.now + secs * self.jitter()
    }

    /// Finds and reads the events of a batch.
    fn collect(&mut self, run: &mut Processing) -> f64 {
        let batch = &self.batches.all[run.batch];
        let (events, seats) = (batch.count, batch.seats);
        let bytes = events * self.settings.burst.size_bytes;
        let held = (bytes + 256 * events) as f64;
        let parts = held / self.settings.batches.part_bytes_max as f64;
        let parts = parts.ceil().max(1.0) as u64;
        let requests = &self.settings.requests;
        let parallel = f64::from(requests.concurrency);
        let cpu = COLLECT_SHARE * seats as f64 * self.settings.processor.secs_per_message();
        run.waits_for = Limit::ProcessorTime;
        (run.stage, self.batches.all[run.batch].parts) = match events {
            0 => (Stage::Complete, 0),
            _ => (Stage::Deliver(parts), parts),
        };
        self.usage.record_writes += self.sizes.record_units(events, seats);
        let secs = match self.is_log() {
            false => {
                let entries = events as f64 * super::calibration::INDEX_ENTRY_BYTES;
                let pages = (entries / PAGE_BYTES).ceil() + f64::from(self.settings.tables.shards);
                self.usage.reads += entries / 4_096.0 / 2.0;
                self.usage.reads +=
                    events as f64 * Sizes::read_units(self.sizes.item_units * 1_024.0);
                let reads = (events as f64 / KEYS_OF_REQUEST).ceil() + pages;
                // The index shows a claim later than the table; what was claimed long ago is there.
                let claimed_at = self.batches.all[run.batch].last_claim_at;
                let lag_until = claimed_at + self.settings.tables.index_lag_secs;
                let lag = (lag_until - self.now).max(0.0);
                lag + cpu.max(reads * requests.write_secs / parallel.min(reads))
            }
            // The bodies were not kept when the lines were read.
            true => self.read_loads(run.batch).max(cpu),
        };
        self.now + secs * self.jitter()
    }

    /// Delivers one part.
    fn deliver(&mut self, run: &mut Processing, parts: u64) -> f64 {
        let batch = &self.batches.all[run.batch];
        let bytes =
            (batch.count * self.settings.burst.size_bytes) as f64 / batch.parts.max(1) as f64;
        let secs = self.settings.sink.secs_per_part + bytes / self.settings.sink.bytes_per_sec;
        run.waits_for = Limit::Sink;
        run.stage = match (parts - 1, self.is_log()) {
            (0, false) => Stage::Release(batch.count),
            (0, true) => Stage::Complete,
            (left, _) => Stage::Deliver(left),
        };
        let at = self.now + secs + self.settings.requests.control_secs;
        if parts == 1 {
            self.delivered_batch(run.batch, at);
        }
        at
    }

    /// Notes that a batch is delivered at a time.
    fn delivered_batch(&mut self, batch: BatchId, at: f64) {
        let state = &mut self.batches.all[batch];
        state.delivered_at = Some(at);
        self.delivered += state.count;
        let full = state.flushed == Some(Flushed::Full);
        let last_claim_at = state.last_claim_at;
        for cohort in std::mem::take(&mut state.cohorts) {
            self.observer.delivered(at - cohort.sent_at, cohort.unique);
        }
        self.observer.batch_delivered(full, at - last_claim_at);
    }

    /// Releases some of the events of a batch.
    fn release_events(&mut self, run: &mut Processing, events: u64) -> f64 {
        let all = self.batches.all[run.batch].count;
        let count = STEP_ITEMS.min(events);
        let requests = &self.settings.requests;
        let parallel = (all as f64 / f64::from(requests.items)).ceil();
        let parallel = parallel.min(f64::from(requests.concurrency)).max(1.0);
        let waiting = requests.write_secs / (f64::from(requests.items) * parallel);
        let each = self.settings.processor.secs_per_message() * (1.0 - COLLECT_SHARE);
        let (now, items) = (self.now, count as f64);
        let units = items * self.sizes.item_units;
        let keys = &mut self.batches.all[run.batch].keys;
        let others = [
            (self.lock_table.bucket.take(now, units), Limit::LockTable),
            (self.lock_index.bucket.take(now, items), Limit::LockIndex),
            (keys.take(now, items), Limit::IndexKeys),
        ];
        let done = (now + items * each.max(waiting), Limit::ProcessorTime);
        let (at, limit) = latest(done, others);
        self.usage.lock_writes += units;
        self.usage.index_writes += items;
        run.waits_for = limit;
        run.stage = match events - count {
            0 => Stage::Complete,
            left => Stage::Release(left),
        };
        at
    }

    /// Completes a batch. Returns until when its batch-processor merges the index, if it does.
    fn complete(&mut self, run: &mut Processing) -> Option<f64> {
        let state = &mut self.batches.all[run.batch];
        state.claimed_by_processor = false;
        state.completed_at = Some(self.now);
        self.batches.incomplete -= 1;
        let merged_at = match self.is_log() {
            true => self.merge(run.environment),
            false => None,
        };
        match merged_at {
            Some(_) => run.stage = Stage::Merge,
            None => self.free_processor(run),
        }
        merged_at
    }
}
