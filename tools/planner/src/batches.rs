//! The batches: which one an environment fills, or all of them in the log, and what became of each.

use std::collections::BTreeMap;

use super::environments::EnvironmentId;
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
    /// Its events.
    pub count: u64,
    /// The seats that were given out: to events, and in the log to duplicates too.
    pub seats: u64,
    pub last_claim_at: f64,
    /// The events, by when they were sent.
    pub cohorts: Vec<Cohort>,
    /// Loads that have its lines, and their bytes.
    pub loads: u64,
    pub load_bytes: f64,
    /// Write units of the keys under which the index lists its claims; in the log, of its record.
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
    /// The open batch of each key, by environment; in the log, all environments share the first row.
    open: Vec<Vec<Option<BatchId>>>,
    is_shared: bool,
    /// The batch of each key that an environment reserved seats in last, in the log.
    pub remembered: BTreeMap<(EnvironmentId, u32), BatchId>,
    keys: usize,
    seats_max: u64,
    /// Units a second of all index keys of a batch, or of its record.
    keys_limit: Option<f64>,
    paced_share: f64,
    /// Batches that are not complete.
    pub incomplete: usize,
}

impl AllBatches {
    pub fn new(settings: &Settings) -> AllBatches {
        let rules = &settings.batches;
        let by_bytes = rules.bytes_max / settings.burst.size_bytes.max(1);
        let shards = match rules.bodies {
            Bodies::Items => settings.tables.shards,
            Bodies::LogTable | Bodies::LogS3 => 1,
        };
        AllBatches {
            all: Vec::new(),
            open: Vec::new(),
            is_shared: rules.bodies.is_log(),
            remembered: BTreeMap::new(),
            keys: settings.burst.keys as usize,
            seats_max: rules.items_max.min(by_bytes).max(1),
            keys_limit: settings.tables.key.map(|key| key * f64::from(shards)),
            paced_share: settings.tables.paced_share,
            incomplete: 0,
        }
    }

    fn row(&self, environment: EnvironmentId) -> usize {
        match self.is_shared {
            true => 0,
            false => environment,
        }
    }

    /// Returns the batch that an environment fills, if it has one for this key.
    pub fn current(&self, environment: EnvironmentId, key: u32) -> Option<BatchId> {
        *self.open.get(self.row(environment))?.get(key as usize)?
    }

    /// Returns all batches that an environment fills.
    pub fn current_of(&self, environment: EnvironmentId) -> impl Iterator<Item = BatchId> + '_ {
        self.open
            .get(self.row(environment))
            .into_iter()
            .flatten()
            .filter_map(|batch| *batch)
    }

    /// Opens a batch.
    pub fn open(
        &mut self,
        environment: EnvironmentId,
        key: u32,
        now: f64,
        closes_at: f64,
    ) -> BatchId {
        let row = self.row(environment);
        let id = self.all.len();
        self.all.push(Batch {
            key,
            opened_at: now,
            closes_at,
            count: 0,
            seats: 0,
            last_claim_at: now,
            cohorts: Vec::new(),
            loads: 0,
            load_bytes: 0.0,
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
        if self.open.len() <= row {
            self.open.resize_with(row + 1, Vec::new);
        }
        let row = &mut self.open[row];
        if row.is_empty() {
            row.resize(self.keys, None);
        }
        row[key as usize] = Some(id);
        id
    }

    /// Returns how many seats a batch still has.
    pub fn room(&self, batch: BatchId) -> u64 {
        self.seats_max - self.all[batch].seats
    }

    /// Adds messages to a batch, each with a seat.
    pub fn add(&mut self, batch: BatchId, claimed: Cohort, now: f64) {
        let batch = &mut self.all[batch];
        batch.last_claim_at = now;
        batch.count += claimed.unique;
        batch.seats += claimed.count;
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
    pub fn retire(&mut self, environment: EnvironmentId, batch: BatchId, flushed: Flushed) {
        let (row, key) = (self.row(environment), self.all[batch].key as usize);
        self.open[row][key] = None;
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
