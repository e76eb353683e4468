//! The batches: which of them take events, and what became of each.

use std::collections::BTreeMap;

use super::environments::EnvironmentId;
use super::queue::{Cohort, push};
use super::settings::Settings;
use super::tables::Bucket;

/// A batch, by its number.
pub type BatchId = usize;

/// Why a batch gets no more events.
pub use crate::record::Flushed;

/// Cohorts of a batch are put together to at most this many.
const COHORTS_MAX: usize = 256;

#[derive(Debug, Default)]
pub struct Batch {
    pub key: u32,
    pub opened_at: f64,
    /// From when on a batch-processor may take it although it is not sealed.
    pub closes_at: f64,
    /// Its events.
    pub count: u64,
    /// The seats that were given out: to events, and to duplicates that nobody recognised before.
    pub seats: u64,
    pub last_claim_at: f64,
    /// The events, by when they were sent.
    pub cohorts: Vec<Cohort>,
    /// Its slots: one for each invocation that brought events. In the log each names a load; `load_bytes` are those of all.
    pub slots: u64,
    pub load_bytes: f64,
    /// Write units of the keys under which the index lists its claims, and of its record.
    pub keys: Bucket,
    pub record: Bucket,
    pub sealed_at: Option<f64>,
    pub flushed: Option<Flushed>,
    pub leased_at: Option<f64>,
    pub delivered_at: Option<f64>,
    pub completed_at: Option<f64>,
    pub parts: u64,
    /// Whether it has a ticket that a batch-processor has not taken yet, or is being processed.
    pub claimed_by_processor: bool,
}

/// The batch of a key that an environment reserved seats in last, and how many events it claimed there.
#[derive(Clone, Copy, Debug)]
struct Remembered {
    batch: BatchId,
    claims: u64,
}

/// All batches, and which of them are open.
#[derive(Debug, Default)]
pub struct AllBatches {
    pub all: Vec<Batch>,
    /// The open batches, by environment and key. All environments share those of the first one, unless each has its own.
    open: BTreeMap<(EnvironmentId, u32), BatchId>,
    has_own: bool,
    remembered: BTreeMap<(EnvironmentId, u32), Remembered>,
    seats_max: u64,
    /// Units a second of all index keys of a batch, and of its record.
    keys_limit: Option<f64>,
    record_limit: Option<f64>,
    paced_share: f64,
    /// Batches that are not complete.
    pub incomplete: usize,
}

impl AllBatches {
    pub fn new(settings: &Settings) -> AllBatches {
        let rules = &settings.batches;
        let by_bytes = rules.bytes_max / settings.burst.size_bytes.max(1);
        let (key, shards) = (settings.tables.key, settings.tables.shards);
        AllBatches {
            has_own: rules.own_batches,
            seats_max: rules.items_max.min(by_bytes).max(1),
            keys_limit: key.map(|key| key * f64::from(shards)),
            record_limit: key,
            paced_share: settings.tables.paced_share,
            ..AllBatches::default()
        }
    }

    fn owner(&self, environment: EnvironmentId) -> EnvironmentId {
        match self.has_own {
            true => environment,
            false => 0,
        }
    }

    /// Returns the batch that an environment fills, if it has one for this key.
    pub fn current(&self, environment: EnvironmentId, key: u32) -> Option<BatchId> {
        self.open.get(&(self.owner(environment), key)).copied()
    }

    /// Returns all batches that an environment fills.
    pub fn current_of(&self, environment: EnvironmentId) -> impl Iterator<Item = BatchId> + '_ {
        let owner = self.owner(environment);
        let open = self.open.range((owner, 0)..=(owner, u32::MAX));
        open.map(|(_, batch)| *batch)
    }

    pub fn open(
        &mut self,
        environment: EnvironmentId,
        key: u32,
        now: f64,
        closes_at: f64,
    ) -> BatchId {
        let id = self.all.len();
        self.all.push(Batch {
            key,
            opened_at: now,
            closes_at,
            last_claim_at: now,
            keys: Bucket::new(self.keys_limit, self.paced_share),
            record: Bucket::new(self.record_limit, self.paced_share),
            ..Batch::default()
        });
        self.incomplete += 1;
        self.open.insert((self.owner(environment), key), id);
        id
    }

    /// Returns how many seats a batch still has.
    pub fn room(&self, batch: BatchId) -> u64 {
        self.seats_max - self.all[batch].seats
    }

    /// Returns the batch of a key that an environment reserved seats in last.
    pub fn remembered(&self, environment: EnvironmentId, key: u32) -> Option<BatchId> {
        let remembered = self.remembered.get(&(environment, key));
        remembered.map(|one| one.batch)
    }

    /// Notes that an environment has claimed events in a batch.
    pub fn remember(&mut self, environment: EnvironmentId, batch: BatchId, claims: u64) {
        let key = (environment, self.all[batch].key);
        let new = Remembered { batch, claims: 0 };
        let remembered = self.remembered.entry(key).or_insert(new);
        if remembered.batch != batch {
            *remembered = new;
        }
        remembered.claims += claims;
    }

    /// Has an environment forget the batch of a key, because it has sealed that batch.
    pub fn forget(&mut self, environment: EnvironmentId, key: u32) {
        self.remembered.remove(&(environment, key));
    }

    /// Returns how many claims in open batches an environment remembers.
    pub fn claims_remembered(&self, environment: EnvironmentId) -> u64 {
        let all = self
            .remembered
            .range((environment, 0)..=(environment, u32::MAX));
        let open = all.filter(|((_, key), one)| self.current(environment, *key) == Some(one.batch));
        open.map(|(_, one)| one.claims).sum()
    }

    /// Adds messages to a batch, each with a seat.
    pub fn add(&mut self, batch: BatchId, claimed: Cohort, now: f64) {
        let batch = &mut self.all[batch];
        batch.last_claim_at = now;
        batch.count += claimed.unique;
        batch.seats += claimed.count;
        let claimed = Cohort {
            receives: 0,
            ..claimed
        };
        push(&mut batch.cohorts, claimed);
        if batch.cohorts.len() > COHORTS_MAX {
            halve(&mut batch.cohorts);
        }
    }

    /// Takes a batch out of the open ones: it gets no more events.
    pub fn retire(&mut self, environment: EnvironmentId, batch: BatchId, flushed: Flushed) {
        let key = self.all[batch].key;
        self.open.remove(&(self.owner(environment), key));
        self.all[batch].flushed.get_or_insert(flushed);
    }
}

/// Puts every two neighbours together, under the later time.
fn halve(cohorts: &mut Vec<Cohort>) {
    let halves = cohorts.chunks(2).map(|pair| {
        let unique = pair.iter().map(|cohort| cohort.unique).sum();
        let count = pair.iter().map(|cohort| cohort.count).sum();
        Cohort {
            unique,
            count,
            ..pair[pair.len() - 1]
        }
    });
    *cohorts = halves.collect();
}
