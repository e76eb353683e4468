//! The simulated services (tables, index, queues and sink), their faults, and the ledger of what happened.
//!
//! The tables are the fakes of [`shared::memory`], which pass the adapters' contract tests. The faults are added here.

mod batch_table;
mod calendar;
mod deliveries;
mod discards;
mod faults;
pub(crate) mod lock_table;
mod log;
pub mod named_items;
mod objects;
mod queues;
mod rates;
mod redriving;
pub(crate) mod reports;
mod waits;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use futures::FutureExt;
use protocol::ids::ObjectId;
use protocol::invariants::{Broken, Check};
use protocol::time::Timestamp;
use shared::memory::{MemoryBatchStore, MemoryLockStore, MemoryNamedItems, MemoryObjectStore};
use shared::ports::Quarantined;
use tempfile::TempDir;

use crate::index::LaggingIndex;
use crate::ledger::Ledger;
use crate::pauses::PauseTable;
use crate::plan::Plan;
use crate::queue::Queue;
use crate::schedule::{Act, Effect, Happening, Schedule};

/// The sink's error when it refuses a part permanently.
pub const REFUSAL: &str = "the simulated sink refuses this part permanently";

/// A name under which the sink keeps a part.
#[derive(Clone, Debug, Default)]
pub struct Name {
    /// Hash of the data; absent before they are written and after a consumer took them.
    pub data: Option<String>,
    /// Hash of the data in the manifest, once it is written.
    pub manifest: Option<String>,
    /// How often a consumer took the data.
    pub taken: u32,
}

/// Returns the result of a call of a fake: a future that never waits.
pub(crate) fn now<T>(call: impl Future<Output = T>) -> T {
    call.now_or_never().expect("fakes return at once")
}

/// Everything outside the functions.
pub struct World {
    /// Milliseconds since the start of the history.
    pub now_ms: u64,
    pub schedule: Schedule<World>,
    /// The only random generator of the world.
    pub rng: Rng,
    pub plan: Plan,
    /// Whether faults still occur.
    pub faulty: bool,
    pub locks: MemoryLockStore,
    /// The index of the lock table.
    pub index: LaggingIndex,
    /// The bodies in the overflow store, by key.
    pub overflow: BTreeMap<String, Arc<str>>,
    /// Loads, slots, runs and lists of runs.
    pub objects: MemoryObjectStore,
    /// When each load, slot, run and list may be removed.
    pub objects_expire_at: BTreeMap<ObjectId, Timestamp>,
    pub batches: MemoryBatchStore,
    /// Pauses, turns and sequences.
    pub named_items: MemoryNamedItems,
    /// The pauses as they really were.
    pub pauses: PauseTable,
    /// The input queues: positions in [`Ledger::messages`].
    pub inputs: Vec<Queue<usize>>,
    /// The dead-letter queue of each source, once an operator looks there.
    pub dead: Vec<Queue<usize>>,
    /// The messages in the quarantine, each with the time at which it arrived.
    pub quarantined: Queue<(u64, Quarantined)>,
    /// The batch queue: bodies of tickets.
    pub tickets: Queue<String>,
    /// When each mapping polls next: one per input queue, and the batch queue's last.
    pub polls: Vec<Option<u64>>,
    pub ledger: Ledger,
    /// By how much the clock of each environment is ahead or behind, in milliseconds.
    pub skews_ms: BTreeMap<u64, i64>,
    /// The names that the sink keeps, with [`SinkKind::Names`](crate::plan::SinkKind).
    pub names: BTreeMap<String, Name>,
    /// Where operators keep the events of batches that they discard.
    pub discards: Option<TempDir>,
    /// The first broken promise.
    pub broken: Option<Broken>,
    /// What happened, in words, if a trace was asked for.
    pub trace: Option<Vec<String>>,
    /// How often each kind of thing happened.
    pub counts: BTreeMap<&'static str, u64>,
    /// The longest time from the close of a batch of the log to its end, if nothing held it back.
    pub late_max: Duration,
    /// When the last batch of the log was decided.
    pub decided_at: Timestamp,
}

impl World {
    /// Makes a world in which nothing has happened yet.
    pub fn new(plan: Plan, traced: bool) -> World {
        World {
            now_ms: 0,
            schedule: Schedule::default(),
            rng: Rng::with_seed(plan.seed ^ 0x5eed),
            faulty: !plan.calm,
            locks: MemoryLockStore::new(),
            index: LaggingIndex::default(),
            overflow: BTreeMap::new(),
            objects: MemoryObjectStore::new(),
            objects_expire_at: BTreeMap::new(),
            batches: MemoryBatchStore::new().with_pages_of(plan.page_entries),
            named_items: MemoryNamedItems::new(),
            pauses: PauseTable::default(),
            inputs: (0..plan.sources)
                .map(|_| Queue::new(plan.receives_max))
                .collect(),
            dead: (0..plan.sources).map(|_| Queue::new(u32::MAX)).collect(),
            quarantined: Queue::new(u32::MAX),
            tickets: Queue::new(plan.receives_max),
            polls: vec![None; plan.sources + 1],
            ledger: Ledger::default(),
            skews_ms: BTreeMap::new(),
            names: BTreeMap::new(),
            discards: None,
            broken: None,
            trace: traced.then(Vec::new),
            counts: BTreeMap::new(),
            late_max: Duration::ZERO,
            decided_at: Timestamp::EPOCH,
            plan,
        }
    }

    /// Returns the time by a correct clock.
    pub fn now(&self) -> Timestamp {
        self.plan.start + Duration::from_millis(self.now_ms)
    }

    /// Returns the time by the clock of an environment.
    pub fn now_in(&self, environment: u64) -> Timestamp {
        let skew_ms = self.skews_ms.get(&environment).copied().unwrap_or_default();
        Timestamp::from_ms(self.now().as_ms().saturating_add_signed(skew_ms))
    }

    /// Sets the clock of an environment to a random error within the limit of the plan.
    pub fn set_clock(&mut self, environment: u64) {
        let max_ms = self.plan.skew_max_ms;
        let skew_ms = match self.plan.calm {
            true => 0,
            false => self.rng.i64(-max_ms..=max_ms),
        };
        self.skews_ms.insert(environment, skew_ms);
    }

    /// Counts an occurrence of `kind`, and adds it to the trace if there is one.
    pub fn note(&mut self, kind: &'static str, what: impl FnOnce() -> String) {
        *self.counts.entry(kind).or_default() += 1;
        if let Some(trace) = &mut self.trace {
            trace.push(format!("{:>9} {kind} {}", self.now_ms, what()));
        }
    }

    /// Keeps the first broken promise.
    pub fn check(&mut self, check: Check) {
        if let Err(broken) = check
            && self.broken.is_none()
        {
            if let Some(trace) = &mut self.trace {
                trace.push(format!("{:>9} BROKEN {broken}", self.now_ms));
            }
            self.broken = Some(broken);
        }
    }

    /// Draws whether a fault with this rate strikes now.
    pub fn strikes(&mut self, rate: f64) -> bool {
        self.faulty && rate > 0.0 && self.rng.f64() < rate
    }

    /// Draws whether a fault with this rate strikes now; notes it as `kind` if it does.
    pub fn strikes_as(&mut self, rate: f64, kind: &'static str) -> bool {
        let strikes = self.strikes(rate);
        if strikes {
            self.note(kind, String::new);
        }
        strikes
    }

    /// Schedules an act `ms` from now.
    pub fn after(&mut self, ms: u64, act: Act) {
        self.at(self.now_ms + ms, act);
    }

    pub fn at(&mut self, at_ms: u64, act: Act) {
        self.happens_at(at_ms, Happening::Act(act));
    }

    /// Schedules a change of the world `ms` from now.
    pub fn effect_after(&mut self, ms: u64, effect: Effect<World>) {
        self.happens_at(self.now_ms + ms, Happening::Effect(effect));
    }

    pub fn happens_at(&mut self, at_ms: u64, happening: Happening<World>) {
        let tie = self.rng.u32(..);
        self.schedule.add(at_ms, tie, happening);
    }

    /// Makes a mapping poll its queue at this time, unless it polls earlier anyway.
    pub fn poll_by(&mut self, mapping: usize, at_ms: u64) {
        if self.polls[mapping].is_none_or(|planned_ms| at_ms < planned_ms) {
            self.polls[mapping] = Some(at_ms);
            self.at(at_ms, Act::Poll(mapping));
        }
    }

    /// Returns the shortest dedup window of any environment, less the largest error of its clocks.
    pub fn dedup_window(&self) -> Duration {
        let window = Duration::from_secs(self.plan.dedup_window_min_secs());
        window.saturating_sub(self.plan.excess_skew())
    }
}
