//! The execution environments of one function. Assigns invocations to environments, ends environments with an outdated
//! configuration, and keeps the statistics of ended ones.
//!
//! An invocation takes the most recently used environment that has room. If none has, it starts a new one.

use std::sync::Arc;

use super::environment::Environment;
use super::function_config::FunctionConfig;
use super::start_failure::StartFailure;
use super::stats::{EnvironmentStatus, FunctionStats};

/// All environments of a function, and its current configuration.
pub(super) struct Pool {
    config: Arc<FunctionConfig>,
    /// Number of updates of the configuration.
    version: u64,
    active: Vec<PooledEnvironment>,
    /// Environments that ended, kept for their statistics.
    past: Vec<Arc<Environment>>,
    /// Number of assignments, which orders environments by their last use.
    clock: u64,
    running: u32,
    closed: bool,
    pub(super) stats: FunctionStats,
    /// Failure of the last cold start; `None` if it succeeded.
    pub(super) last_start_failure: Option<StartFailure>,
}

struct PooledEnvironment {
    environment: Arc<Environment>,
    /// Version of the configuration that it was started with.
    version: u64,
    assigned: u32,
    last_assigned: u64,
}

impl Pool {
    pub(super) fn new(config: FunctionConfig) -> Pool {
        Pool {
            config: Arc::new(config),
            version: 0,
            active: Vec::new(),
            past: Vec::new(),
            clock: 0,
            running: 0,
            closed: false,
            stats: FunctionStats::default(),
            last_start_failure: None,
        }
    }

    /// Returns the configuration that new environments start with.
    pub(super) fn config(&self) -> &Arc<FunctionConfig> {
        &self.config
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed
    }

    /// Closes the pool, so that it takes no more invocations; returns the environments that have not ended.
    pub(super) fn close(&mut self) -> Vec<Arc<Environment>> {
        self.closed = true;
        let living = self.active.iter().map(|pooled| &pooled.environment);
        living.cloned().collect()
    }

    /// Assigns an invocation to the most recently used environment that has room, or to a new one that `start` makes. Returns
    /// `None` if the pool is closed.
    pub(super) fn assign(
        &mut self,
        start: impl FnOnce(&FunctionConfig, u32) -> Environment,
    ) -> Option<Arc<Environment>> {
        if self.closed {
            return None;
        }
        self.retire_ended();
        self.clock += 1;
        self.running += 1;
        self.stats.concurrency_max = self.stats.concurrency_max.max(self.running);
        let (clock, version) = (self.clock, self.version);
        let room = self.config.concurrency_per_environment.max(1);
        let free = self.active.iter_mut().filter(|pooled| {
            pooled.version == version && pooled.assigned < room && !pooled.environment.is_ending()
        });
        if let Some(pooled) = free.max_by_key(|pooled| pooled.last_assigned) {
            pooled.assigned += 1;
            pooled.last_assigned = clock;
            return Some(Arc::clone(&pooled.environment));
        }
        self.stats.cold_starts += 1;
        // Started under the lock of the pool, so that a concurrent shutdown finds the environment. That takes about 1 ms.
        let number = u32::try_from(self.stats.cold_starts).unwrap_or(u32::MAX);
        let environment = Arc::new(start(&self.config, number));
        self.active.push(PooledEnvironment {
            environment: Arc::clone(&environment),
            version,
            assigned: 1,
            last_assigned: clock,
        });
        Some(environment)
    }

    /// Records that an invocation in this environment has ended. Ends the environment if its configuration is outdated and
    /// no other invocation runs in it.
    pub(super) fn release(&mut self, number: u32) {
        self.running -= 1;
        let mut active = self.active.iter_mut();
        if let Some(pooled) = active.find(|pooled| pooled.environment.number == number) {
            pooled.assigned -= 1;
            pooled.end_if_outdated(self.version);
        }
    }

    /// Changes the configuration; returns the number of environments that are outdated by it. Idle ones are ended.
    pub(super) fn redeploy(&mut self, change: impl FnOnce(&mut FunctionConfig)) -> u64 {
        let mut config = FunctionConfig::clone(&self.config);
        change(&mut config);
        self.config = Arc::new(config);
        let living = |pooled: &&PooledEnvironment| {
            pooled.version == self.version && !pooled.environment.is_ending()
        };
        let replaced = self.active.iter().filter(living).count();
        self.version += 1;
        for pooled in &self.active {
            pooled.end_if_outdated(self.version);
        }
        replaced as u64
    }

    /// Kills an environment. Returns `false` if none has this number, or if it is ending already.
    pub(super) fn kill(&self, number: u32) -> bool {
        let mut environments = self.active.iter().map(|pooled| &pooled.environment);
        let found = environments.find(|one| one.number == number && !one.is_ending());
        found.inspect(|found| found.kill()).is_some()
    }

    /// Returns the status of every environment, ended ones included, ordered by number.
    pub(super) fn environments(&self) -> Vec<EnvironmentStatus> {
        let living = self.active.iter();
        let living = living.map(|pooled| pooled.environment.status(pooled.assigned));
        let past = self.past.iter().map(|past| past.status(0));
        let mut all: Vec<EnvironmentStatus> = past.chain(living).collect();
        all.sort_by_key(|environment| environment.number);
        all
    }

    /// Moves ended environments to `past`, so that the search for a free one skips them.
    fn retire_ended(&mut self) {
        let ended =
            |pooled: &mut PooledEnvironment| pooled.assigned == 0 && pooled.environment.is_ended();
        let ended = self.active.extract_if(.., ended);
        self.past.extend(ended.map(|pooled| pooled.environment));
    }
}

impl PooledEnvironment {
    fn end_if_outdated(&self, version: u64) {
        if self.version != version && self.assigned == 0 && !self.environment.is_ending() {
            self.environment.terminate();
        }
    }
}
