//! The modelled service: everything that has a state, and what can happen to it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use protocol::limits::CLOCK_SKEW_MAX;

use super::agenda::Agenda;
use super::batches::{AllBatches, BatchId};
use super::environments::{EnvironmentId, Environments};
use super::limit::Limit;
use super::log_index::Index;
use super::mapping::{GathererId, Mapping};
use super::observer::Observer;
use super::queue::{Cohort, Queue};
use super::settings::Settings;
use super::tables::Table;
use super::usage::{Sizes, Usage};

/// Something that happens.
#[derive(Debug)]
pub enum Event {
    /// More messages may have been sent.
    Arrive,
    /// A gatherer receives.
    Poll(GathererId),
    /// The mapping may have grown.
    Grow,
    /// Batches that wait for an environment are tried again.
    Retry,
    /// An invocation of the aggregator has done its step.
    Step(usize),
    /// The environment of an invocation is free.
    Release(EnvironmentId, GathererId),
    /// Messages that failed become visible.
    Return(Vec<Cohort>),
    /// A ticket arrives.
    Ticket(BatchId),
    /// A batch-processor has done its step.
    Process(usize),
    /// The state is looked at.
    Look,
}

/// An invocation of the aggregator.
#[derive(Debug)]
pub struct Invocation {
    pub gatherer: GathererId,
    pub environment: EnvironmentId,
    /// Messages that were not claimed yet.
    pub left: Vec<Cohort>,
    /// How many messages it has.
    pub count: u64,
    /// Messages whose claims are under way.
    pub in_step: u64,
    pub received_at: f64,
    /// When it began to run in its environment.
    pub started_at: f64,
    /// When it starts no more claims.
    pub stop_at: f64,
    /// Share of its duplicates that meet the table.
    pub unknown_share: f64,
    /// Seconds that a message takes, of CPU or of requests, whichever is more.
    pub secs_per_message: f64,
    pub waits_for: Limit,
    /// Messages that are claimed, or recognised as duplicates.
    pub done: u64,
    /// Messages in flight when it first saw the queue without visible ones.
    pub in_flight_seen: Option<u64>,
    /// Batches that it reserved seats in.
    pub touched: BTreeSet<BatchId>,
    pub wrapped_up: bool,
}

/// What a batch-processor does next with its batch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Stage {
    /// Its slots are to be read, and in the log its lines.
    Close,
    /// In the log: its lines are to be decided, and that is to be committed to the index.
    Resolve,
    Commit,
    Collect,
    /// So many parts are not delivered.
    Deliver(u64),
    /// So many events are not released.
    Release(u64),
    Complete,
    /// It is complete, and the index is being merged.
    Merge,
}

/// A batch that is being processed, or waits for it.
#[derive(Debug)]
pub struct Processing {
    pub batch: BatchId,
    pub environment: EnvironmentId,
    pub stage: Stage,
    /// The version of the manifest of the log that it has read.
    pub manifest: u64,
    pub started_at: f64,
    pub stop_at: f64,
    pub waits_for: Limit,
}

/// The modelled service.
#[derive(Debug)]
pub struct World {
    pub settings: Settings,
    pub sizes: Sizes,
    pub now: f64,
    pub agenda: Agenda<Event>,
    pub random: fastrand::Rng,
    pub sent: u64,
    pub sent_unique: u64,
    pub unique: u64,
    pub sent_after: f64,
    pub queue: Queue,
    pub mapping: Mapping,
    pub environments: Environments,
    pub invocations: Vec<Option<Invocation>>,
    /// Messages that failed and are not visible yet.
    pub away: u64,
    pub lock_table: Table,
    pub lock_index: Table,
    pub batch_table: Table,
    pub batches: AllBatches,
    pub index: Index,
    pub taken: u64,
    pub claimed: u64,
    pub delivered: u64,
    pub taken_after: f64,
    pub tickets: VecDeque<BatchId>,
    pub processings: Vec<Option<Processing>>,
    /// What is still to be done of batches whose ticket was given back.
    pub resumed: BTreeMap<BatchId, Stage>,
    pub processors: Environments,
    pub tickets_given_back: u64,
    pub usage: Usage,
    pub observer: Observer,
}

/// Claims or releases of one step. All environments take their units in steps of the same size, so those that share a table
/// get the same share of it.
pub const STEP_ITEMS: u64 = 200;
/// Time from a seal to the lease: that of a receive.
const TICKET_SECS: f64 = 0.05;
/// What SQS adds to the delay of a ticket, which is rounded up to whole seconds, on average.
const ROUNDED_UP_SECS: f64 = 0.5;

impl World {
    pub fn new(settings: &Settings) -> World {
        let messages = settings.burst.messages;
        let duplicates =
            (messages as f64 * settings.burst.duplicates_percent / 100.0).round() as u64;
        let tables = &settings.tables;
        World {
            sizes: Sizes::new(settings),
            now: 0.0,
            agenda: Agenda::new(),
            random: fastrand::Rng::with_seed(settings.seed),
            sent: 0,
            sent_unique: 0,
            unique: messages - duplicates,
            sent_after: 0.0,
            queue: Queue::default(),
            mapping: Mapping::new(&settings.input, settings.burst.size_bytes),
            environments: Environments::new(
                settings.account_concurrency,
                settings.aggregator.per_environment,
            ),
            invocations: Vec::new(),
            away: 0,
            lock_table: Table::new(tables.lock, tables.quota, tables.paced_share),
            lock_index: Table::new(tables.lock, tables.quota, tables.paced_share),
            batch_table: Table::new(tables.batch, tables.quota, tables.paced_share),
            batches: AllBatches::new(settings),
            index: Index::new(settings.batches.index_entries),
            taken: 0,
            claimed: 0,
            delivered: 0,
            taken_after: 0.0,
            tickets: VecDeque::new(),
            processings: Vec::new(),
            resumed: BTreeMap::new(),
            processors: Environments::new(u64::from(settings.processor.concurrency), 1),
            tickets_given_back: 0,
            usage: Usage::default(),
            observer: Observer::default(),
            settings: settings.clone(),
        }
    }

    /// Returns whether bodies are in the log. Duplicates are decided there when a batch is closed.
    pub fn is_log(&self) -> bool {
        self.settings.batches.bodies.is_log()
    }

    /// Returns a factor around 1, by which the time of an invocation differs from the computed one.
    pub fn jitter(&mut self) -> f64 {
        let percent = self.settings.jitter_percent;
        1.0 + percent / 100.0 * (2.0 * self.random.f64() - 1.0)
    }

    /// Returns one of the two whole numbers around a number, so that their mean is the number.
    pub fn whole(&mut self, number: f64) -> u64 {
        let less = number.floor();
        less as u64 + u64::from(self.random.f64() < number - less)
    }

    /// Returns whether nothing more can happen to the burst.
    pub fn is_done(&self) -> bool {
        let settled = self.taken + self.queue.dead == self.settings.burst.messages;
        settled && self.batches.incomplete == 0
    }

    /// Adds the ticket that comes when a batch's window closes.
    pub fn send_window_ticket(&mut self, batch: BatchId) {
        let at = self.batches.all[batch].closes_at + CLOCK_SKEW_MAX.as_secs_f64() + ROUNDED_UP_SECS;
        self.usage.queue_requests += 3.0;
        self.agenda.add(at, Event::Ticket(batch));
    }

    /// Seals a batch, which then starts at once, or when its window closes.
    pub fn seal(&mut self, batch: BatchId) {
        let state = &mut self.batches.all[batch];
        if state.leased_at.is_some() || state.sealed_at.is_some() {
            return;
        }
        state.sealed_at = Some(self.now);
        if self.settings.batches.full_starts_at_once {
            self.usage.queue_requests += 3.0;
            self.agenda
                .add(self.now + TICKET_SECS, Event::Ticket(batch));
        }
    }
}
