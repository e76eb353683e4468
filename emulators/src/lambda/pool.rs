//! The execution environments of one function: which takes an invocation, which are of an older configuration, which have
//! ended.
//!
//! An invocation takes the most recently used environment with room, or starts one.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::accounting::{EnvironmentState, EnvironmentStatus, FunctionStats};
use super::environment::Environment;
use super::function_config::FunctionConfig;
use super::start_failure::StartFailure;

/// The environments, with the configuration they start with.
pub(super) struct Pool {
    config: Arc<FunctionConfig>,
    /// Counts updates of the configuration.
    version: u64,
    seats: Vec<Seat>,
    /// Environments that ended, for their figures.
    past: Vec<Arc<Environment>>,
    /// Counts assignments, to tell which environment was used last.
    clock: u64,
    running: u32,
    closed: bool,
    pub(super) stats: FunctionStats,
    /// Of the last cold start, if it failed.
    pub(super) last_start_failure: Option<StartFailure>,
}

struct Seat {
    environment: Arc<Environment>,
    /// Of the configuration it was started with.
    version: u64,
    assigned: u32,
    last_assigned: u64,
}

impl Pool {
    /// No environments yet.
    pub(super) fn new(config: FunctionConfig) -> Pool {
        Pool {
            config: Arc::new(config),
            version: 0,
            seats: Vec::new(),
            past: Vec::new(),
            clock: 0,
            running: 0,
            closed: false,
            stats: FunctionStats::default(),
            last_start_failure: None,
        }
    }

    /// What environments start with.
    pub(super) fn config(&self) -> &Arc<FunctionConfig> {
        &self.config
    }

    /// Whether no more invocations are taken.
    pub(super) fn is_closed(&self) -> bool {
        self.closed
    }

    /// Takes no more invocations; returns the environments that are there.
    pub(super) fn close(&mut self) -> Vec<Arc<Environment>> {
        self.closed = true;
        let living = self.seats.iter();
        living.map(|seat| Arc::clone(&seat.environment)).collect()
    }

    /// The most recently used environment with room, else a new one, made by `start`; `None` when it is closed.
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
        let free = self.seats.iter_mut().filter(|seat| {
            seat.version == version && seat.assigned < room && !seat.environment.is_ending()
        });
        if let Some(seat) = free.max_by_key(|seat| seat.last_assigned) {
            seat.assigned += 1;
            seat.last_assigned = clock;
            return Some(Arc::clone(&seat.environment));
        }
        self.stats.cold_starts += 1;
        // Under the pool's lock, so that a shutdown that comes now finds the environment; starting one takes about 1 ms.
        let number = u32::try_from(self.stats.cold_starts).unwrap_or(u32::MAX);
        let environment = Arc::new(start(&self.config, number));
        self.seats.push(Seat {
            environment: Arc::clone(&environment),
            version,
            assigned: 1,
            last_assigned: clock,
        });
        Some(environment)
    }

    /// An invocation has ended in this environment. The last one of an older configuration is its end.
    pub(super) fn give_back(&mut self, number: u32) {
        self.running -= 1;
        let version = self.version;
        let seats = &mut self.seats;
        if let Some(seat) = seats
            .iter_mut()
            .find(|seat| seat.environment.number == number)
        {
            seat.assigned -= 1;
            seat.end_if_old(version);
        }
    }

    /// Updates the configuration; returns how many environments are of an older one now.
    pub(super) fn redeploy(&mut self, variables: &BTreeMap<String, String>) -> u64 {
        let mut config = FunctionConfig::clone(&self.config);
        config.variables.extend(variables.clone());
        self.config = Arc::new(config);
        let living = |seat: &&Seat| seat.version == self.version && !seat.environment.is_ending();
        let replaced = self.seats.iter().filter(living).count();
        self.version += 1;
        for seat in &self.seats {
            seat.end_if_old(self.version);
        }
        replaced as u64
    }

    /// Kills an environment; false if there is none with this number or it is ending already.
    pub(super) fn kill(&self, number: u32) -> bool {
        let found = self
            .seats
            .iter()
            .find(|seat| seat.environment.number == number && !seat.environment.is_ending());
        found.inspect(|seat| seat.environment.kill()).is_some()
    }

    /// Every environment there is and was, by number.
    pub(super) fn environments(&self) -> Vec<EnvironmentStatus> {
        let living = self
            .seats
            .iter()
            .map(|seat| status(&seat.environment, seat.assigned));
        let past = self.past.iter().map(|past| status(past, 0));
        let mut all: Vec<EnvironmentStatus> = past.chain(living).collect();
        all.sort_by_key(|environment| environment.number);
        all
    }

    /// Moves what has ended out of the way of the search.
    fn retire_ended(&mut self) {
        let ended = |seat: &mut Seat| seat.assigned == 0 && seat.environment.is_ended();
        self.past.extend(
            self.seats
                .extract_if(.., ended)
                .map(|seat| seat.environment),
        );
    }
}

impl Seat {
    fn end_if_old(&self, version: u64) {
        if self.version != version && self.assigned == 0 && !self.environment.is_ending() {
            self.environment.terminate();
        }
    }
}

fn status(environment: &Environment, assigned: u32) -> EnvironmentStatus {
    let state = match assigned {
        _ if environment.is_ended() => EnvironmentState::Ended {
            exit: environment.exit(),
        },
        _ if environment.is_ending() => EnvironmentState::Ending,
        _ if !environment.is_initialised() => EnvironmentState::Starting,
        0 => EnvironmentState::Idle,
        invocations => EnvironmentState::Busy { invocations },
    };
    let used = environment.used();
    EnvironmentStatus {
        number: environment.number,
        pid: environment.pid,
        state,
        invocations: used.invocations,
        invoke_time: used.invoke_time,
        timeouts: used.timeouts,
        crashes: used.crashes,
        init_time: environment.init_time(),
        cpu: used.cpu,
        peak_rss_bytes: used.peak_rss_bytes,
    }
}
