//! Execution environments: cold starts, freezes and deaths.

use std::sync::Arc;

use aggregator::shared_allocator::SharedAllocator;
use shared::ports::QuarantineQueue;

use super::Run;
use super::invocation::{Execution, Function};
use crate::act::Act;
use crate::environment::{DuplicateReports, Environment, lock};
use crate::schedule::Happening;

impl Run {
    /// Returns whether Lambda would give this environment an invocation.
    fn takes_work(&self, execution: &Execution) -> bool {
        !execution.last && execution.frozen_until_ms <= lock(&self.world).now_ms
    }

    /// Returns how many invocations run in an environment.
    pub(super) fn running(&self, environment: u64) -> usize {
        self.tasks
            .values()
            .filter(|task| task.environment == environment)
            .count()
    }

    /// Returns an aggregator that can take an event, warm or new; `None` if all are busy and their limit is reached.
    pub(super) fn aggregator(&mut self) -> Option<u64> {
        let warm = self.environments.iter().find(|(number, one)| {
            matches!(one.function, Function::Aggregator(_))
                && self.takes_work(one)
                && self.running(**number) < self.plan.invocations
        });
        if let Some((number, _)) = warm {
            return Some(*number);
        }
        let count = self
            .environments
            .values()
            .filter(|one| matches!(one.function, Function::Aggregator(_)) && !one.last)
            .count();
        if count >= self.plan.aggregators {
            return None;
        }
        let (number, environment) = self.environment();
        let current = Arc::new(SharedAllocator::new(self.aggregator_config.limits));
        let config = self.aggregator_config.clone();
        let mut ports = environment.ports();
        ports.duplicates_queue = config
            .duplicates_url
            .is_some()
            .then(|| Arc::new(DuplicateReports(environment.clone())) as Arc<dyn QuarantineQueue>);
        let handler = aggregator::Handler::new(config, ports, environment, current);
        let function = Function::Aggregator(Arc::new(handler));
        Some(self.cold_start(number, function, false))
    }

    /// Returns a batch processor that can take a ticket, as [`Run::aggregator`] does.
    pub(super) fn processor(&mut self) -> Option<u64> {
        let warm = self.environments.iter().find(|(number, one)| {
            matches!(one.function, Function::Processor(_))
                && self.takes_work(one)
                && self.running(**number) == 0
        });
        if let Some((number, _)) = warm {
            return Some(*number);
        }
        let count = self
            .environments
            .values()
            .filter(|one| matches!(one.function, Function::Processor(_)) && !one.last)
            .count();
        (count < self.plan.processors).then(|| self.cold_start_processor(false))
    }

    /// Starts a new batch processor, which ends with its invocation if it is to be the `last`.
    pub(super) fn cold_start_processor(&mut self, last: bool) -> u64 {
        let (number, environment) = self.environment();
        let handler = batch_processor::Handler::new(
            self.processor_config.clone(),
            environment.ports(),
            environment,
        );
        self.cold_start(number, Function::Processor(Arc::new(handler)), last)
    }

    /// Returns the number and the ports of a new environment.
    fn environment(&mut self) -> (u64, Arc<Environment>) {
        let number = self.number();
        let seed = {
            let mut world = lock(&self.world);
            world.set_clock(number);
            world.rng.u64(..)
        };
        let world = self.world.clone();
        let environment = Environment::new(world, number, &self.processor_config, seed);
        (number, Arc::new(environment))
    }

    fn cold_start(&mut self, number: u64, function: Function, last: bool) -> u64 {
        let execution = Execution {
            function,
            frozen_until_ms: 0,
            last,
        };
        self.environments.insert(number, execution);
        number
    }

    /// Suspends an environment for some time.
    pub(super) fn freeze(&mut self, environment: u64) {
        let mut world = lock(&self.world);
        let longest_ms = if world.rng.bool() { 2_000 } else { 150_000 };
        let for_ms = world.rng.u64(1..longest_ms);
        world.note("frozen", || {
            format!("environment {environment} for {for_ms} ms")
        });
        let until_ms = world.now_ms + for_ms;
        world.at(until_ms, Happening::Act(Act::Thaw(environment)));
        if let Some(execution) = self.environments.get_mut(&environment) {
            execution.frozen_until_ms = until_ms;
        }
        for task in self.tasks.values_mut() {
            task.was_frozen |= task.environment == environment;
        }
    }

    /// Lets the invocations of an environment continue.
    pub(super) fn thaw(&mut self, environment: u64) {
        {
            let mut world = lock(&self.world);
            if world.strikes_as(self.plan.faults.jump, "clock jumped") {
                world.set_clock(environment);
            }
        }
        for (number, task) in &self.tasks {
            if task.environment == environment {
                if task.timed_out {
                    lock(&self.world).note("thawed past its deadline", || format!("#{number}"));
                }
                self.ready.add(*number);
            }
        }
    }

    /// Ends an environment and its invocations.
    pub(super) fn kill(&mut self, environment: u64) {
        lock(&self.world).note("killed", || format!("environment {environment}"));
        // Requests in flight still arrive; their replies are lost.
        self.tasks.retain(|_, task| task.environment != environment);
        self.environments.remove(&environment);
        self.poll_all();
    }
}
