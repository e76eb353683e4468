//! The batches: which one an environment fills, and what became of each.

use super::queue::{Cohort, push};
use super::settings::{Bodies, Settings};
use super::tables::Bucket;

/// A batch, by its number.
pub type BatchId = usize;

/// Why a batch gets no more events.
pub use crate::record::Flushed;

/// Cohorts of a batch are put together to at most this many.
const COHORTS_MAX: usize = 256;

/// One batch.
#[derive(Debug)]
pub struct Batch {
    pub key: u32,
    pub opened_at: f64,
    /// From when on a batch-processor may take it although it is not sealed.
    pub closes_at: f64,
    pub count: u64,
    pub last_claim_at: f64,
    /// The events, by when they were sent.
    pub cohorts: Vec<Cohort>,
    /// Chunks that have its bodies.
    pub chunks: u64,
    /// Write units of the keys under which the index lists its claims.
    pub keys: Bucket,
    pub sealed_at: Option<f64>,
    pub flushed: Option<Flushed>,
    pub leased_at: Option<f64>,
    pub delivered_at: Option<f64>,
    pub completed_at: Option<f64>,
    pub parts: u64,
    /// Whether it has a ticket that a batch-processor has not taken yet, or is being processed.
    pub claimed_by_processor: bool,
}

/// All batches, and which of them are open.
#[derive(Debug)]
pub struct AllBatches {
    pub all: Vec<Batch>,
    /// The open batch of each key, by environment.
    open: Vec<Vec<Option<BatchId>>>,
    keys: usize,
    items_max: u64,
    /// Units a second of all index keys of a batch.
    keys_limit: Option<f64>,
    paced_share: f64,
    /// Batches that are not complete.
    pub incomplete: usize,
}

impl AllBatches {
    pub fn new(settings: &Settings) -> AllBatches {
        let rules = &settings.batches;
        let by_bytes = rules.bytes_max / settings.burst.size_bytes.max(1);
        let keys_limit = match rules.bodies {
            Bodies::Items => settings
                .tables
                .key
                .map(|key| key * f64::from(settings.tables.shards)),
            Bodies::Table | Bodies::S3 => None,
        };
        AllBatches {
            all: Vec::new(),
            open: Vec::new(),
            keys: settings.burst.keys as usize,
            items_max: rules.items_max.min(by_bytes).max(1),
            keys_limit,
            paced_share: settings.tables.paced_share,
            incomplete: 0,
        }
    }

    /// Returns the batch that an environment fills, if it has one for this key.
    pub fn current(&self, environment: usize, key: u32) -> Option<BatchId> {
        *self.open.get(environment)?.get(key as usize)?
    }

    /// Returns all batches that an environment fills.
    pub fn current_of(&self, environment: usize) -> impl Iterator<Item = BatchId> + '_ {
        self.open
            .get(environment)
            .into_iter()
            .flatten()
            .filter_map(|batch| *batch)
    }

    /// Opens a batch.
    pub fn open(&mut self, environment: usize, key: u32, now: f64, closes_at: f64) -> BatchId {
        let id = self.all.len();
        self.all.push(Batch {
            key,
            opened_at: now,
            closes_at,
            count: 0,
            last_claim_at: now,
            cohorts: Vec::new(),
            chunks: 0,
            keys: Bucket::new(self.keys_limit, self.paced_share),
            sealed_at: None,
            flushed: None,
            leased_at: None,
            delivered_at: None,
            completed_at: None,
            parts: 0,
            claimed_by_processor: false,
        });
        self.incomplete += 1;
        if self.open.len() <= environment {
            self.open.resize_with(environment + 1, Vec::new);
        }
        let of_environment = &mut self.open[environment];
        if of_environment.is_empty() {
            of_environment.resize(self.keys, None);
        }
        of_environment[key as usize] = Some(id);
        id
    }

    /// Returns how many events a batch still takes.
    pub fn room(&self, batch: BatchId) -> u64 {
        self.items_max - self.all[batch].count
    }

    /// Adds claimed events to a batch.
    pub fn add(&mut self, batch: BatchId, claimed: Cohort, now: f64) {
        let batch = &mut self.all[batch];
        batch.last_claim_at = now;
        batch.count += claimed.unique;
        push(
            &mut batch.cohorts,
            Cohort {
                receives: 0,
                ..claimed
            },
        );
        if batch.cohorts.len() > COHORTS_MAX {
            halve(&mut batch.cohorts);
        }
    }

    /// Takes a batch from its environment: it gets no more events.
    pub fn retire(&mut self, environment: usize, batch: BatchId, flushed: Flushed) {
        let key = self.all[batch].key as usize;
        self.open[environment][key] = None;
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
