//! The batch-processor reads the slots of a closed batch; in the log it decides which lines win, commits them as a run, and merges runs.

use std::collections::BTreeSet;

use protocol::limits::{BATCH_GET_KEYS_MAX, SLOT_CALLS_MAX};

use super::batches::BatchId;
use super::calibration::LIST_ENTRY_BYTES;
use super::environments::EnvironmentId;
use super::limit::Limit;
use super::log_index::run_bytes;
use super::world::{Processing, Stage, World};

impl World {
    /// Returns the seconds in which the slots of a closed batch are read, and counts them.
    pub(super) fn read_slots(&mut self, batch: BatchId) -> f64 {
        let slots = self.batches.all[batch].slots;
        self.usage.reads += slots as f64;
        let rounds = slots.div_ceil((SLOT_CALLS_MAX * BATCH_GET_KEYS_MAX) as u64) as f64;
        rounds * self.settings.requests.control_secs
    }

    /// Reads the lines of a closed batch.
    pub(super) fn read_lines(&mut self, run: &mut Processing) -> f64 {
        // Before the lines: the manifest has the secret with which they are hashed.
        run.manifest = self.index.version;
        run.stage = Stage::Resolve;
        self.read_loads(run.batch)
    }

    /// Returns the seconds in which the loads of a batch are read, and counts them. In S3 only their frames of the batch are read.
    pub(super) fn read_loads(&mut self, batch: BatchId) -> f64 {
        let state = &self.batches.all[batch];
        let loads = state.slots.max(1);
        let bytes = state.load_bytes / loads as f64;
        let frame_bytes = self.sizes.load_bytes(state.count.div_ceil(loads), 1);
        let secs = (0..loads)
            .map(|_| self.read_range(frame_bytes, bytes))
            .fold(0.0, f64::max);
        // The first one shows how large they are.
        let rounds = 1 + (loads - 1).div_ceil(protocol::limits::OBJECT_CALLS_MAX as u64);
        rounds as f64 * secs
    }

    /// Decides about the lines of a batch, and stores the run of its winners and the list. Returns when they are stored.
    pub(super) fn resolve(&mut self, run: &mut Processing) -> f64 {
        // The manifest and the item with its name, and the record.
        self.usage.reads += 3.0;
        let mut secs = 3.0 * self.settings.requests.control_secs;
        secs += self.read_object(self.index.list_bytes());
        let listed = self.index.runs.clone();
        for unread in self.index.unread(run.environment, &listed) {
            secs += self.read_object(run_bytes(unread.entries));
        }
        let winners = self.batches.all[run.batch].count;
        let (stored_at, waited) = self.store_run(winners, self.now + secs);
        run.stage = Stage::Commit;
        run.waits_for = match waited {
            true => Limit::BatchTable,
            false => Limit::ProcessorTime,
        };
        stored_at + self.settings.requests.control_secs
    }

    /// Stores a run and the list that names it, from `from` on. Returns when that is done, and whether it waited for units.
    fn store_run(&mut self, entries: u64, from: f64) -> (f64, bool) {
        let run = self.store_object(run_bytes(entries), from);
        let list = self.store_object(self.index.list_bytes() + LIST_ENTRY_BYTES, run.at);
        self.usage.run_writes += run.units + list.units;
        (list.at, run.waited || list.waited)
    }

    /// Replaces the manifest. If another batch did so since it was read, the batch is decided again; otherwise it is collected.
    pub(super) fn commit(&mut self, run: &mut Processing) -> f64 {
        self.usage.run_writes += 1.0;
        if self.index.version != run.manifest {
            run.manifest = self.index.version;
            run.stage = Stage::Resolve;
            return self.now;
        }
        self.index.version += 1;
        let winners = self.batches.all[run.batch].count;
        self.index.add(winners, Some(run.batch));
        run.stage = Stage::Collect;
        self.now + self.settings.requests.control_secs
    }

    /// Merges runs if there are many of one size. Returns when that is done.
    pub(super) fn merge(&mut self, environment: EnvironmentId) -> Option<f64> {
        self.usage.reads += 2.0;
        let mut secs = 2.0 * self.settings.requests.control_secs;
        secs += self.read_object(self.index.list_bytes());
        let batches = &self.batches.all;
        let inputs = self
            .index
            .mergeable(|batch| batches[batch].completed_at.is_some());
        if inputs.is_empty() {
            return None;
        }
        // The records of their batches.
        self.usage.reads += inputs.len() as f64;
        for unread in self.index.unread(environment, &inputs) {
            secs += self.read_object(run_bytes(unread.entries));
        }
        let names: BTreeSet<u64> = inputs.iter().map(|run| run.name).collect();
        let entries = inputs.iter().map(|run| run.entries).sum();
        self.index.runs.retain(|run| !names.contains(&run.name));
        self.index.add(entries, None);
        self.index.version += 1;
        self.usage.run_writes += 1.0;
        Some(self.store_run(entries, self.now + secs).0)
    }
}
