//! Execution environments: cold starts, freezes and deaths.

use std::sync::Arc;

use shared::ports::QuarantineQueue;

use super::{Execution, Function, Run};
use crate::environment::{DuplicateReports, Environment, lock};
use crate::schedule::Act;

impl Run {
    /// Returns a warm environment of a function in which fewer than `invocations` run.
    fn warm(&self, is: fn(&Function) -> bool, invocations: usize) -> Option<u64> {
        let now_ms = lock(&self.world).now_ms;
        let warm = self.environments.iter().find(|(number, one)| {
            let takes_work = !one.last && one.frozen_until_ms <= now_ms;
            is(&one.function) && takes_work && self.running(**number) < invocations
        });
        warm.map(|(number, _)| *number)
    }

    /// Returns how many environments a function has that take more than their present invocation.
    fn count(&self, is: fn(&Function) -> bool) -> usize {
        let all = self.environments.values();
        all.filter(|one| is(&one.function) && !one.last).count()
    }

    /// Returns how many invocations run in an environment.
    pub(super) fn running(&self, environment: u64) -> usize {
        let tasks = self.tasks.values();
        tasks.filter(|task| task.environment == environment).count()
    }

    /// Returns an aggregator that can take an event, warm or new; `None` if all are busy and their limit is reached.
    pub(super) fn aggregator(&mut self) -> Option<u64> {
        let is_aggregator = |function: &Function| matches!(function, Function::Aggregator(_));
        if let Some(number) = self.warm(is_aggregator, self.plan.invocations) {
            return Some(number);
        }
        if self.count(is_aggregator) >= self.plan.aggregators {
            return None;
        }
        let environment = self.environment();
        let number = environment.number;
        let config = self.aggregator_config.clone();
        let mut ports = environment.ports();
        let reports: Arc<dyn QuarantineQueue> = Arc::new(DuplicateReports(environment.clone()));
        ports.duplicates_queue = config.duplicates_url.is_some().then_some(reports);
        let current = Arc::default();
        let handler = aggregator::Handler::new(config, ports, environment, current);
        let function = Function::Aggregator(Arc::new(handler));
        Some(self.cold_start(number, function, false))
    }

    /// Returns a batch processor that can take a ticket, as [`Run::aggregator`] does.
    pub(super) fn processor(&mut self) -> Option<u64> {
        let is_processor = |function: &Function| matches!(function, Function::Processor(_));
        self.warm(is_processor, 1).or_else(|| {
            let is_free = self.count(is_processor) < self.plan.processors;
            is_free.then(|| self.cold_start_processor(false))
        })
    }

    /// Starts a new batch processor, which ends with its invocation if it is to be the `last`.
    pub(super) fn cold_start_processor(&mut self, last: bool) -> u64 {
        let environment = self.environment();
        let (number, ports) = (environment.number, environment.ports());
        let config = self.processor_config.clone();
        let handler = batch_processor::Handler::new(config, ports, environment);
        self.cold_start(number, Function::Processor(Arc::new(handler)), last)
    }

    fn environment(&mut self) -> Arc<Environment> {
        let number = self.number();
        lock(&self.world).set_clock(number);
        Environment::new(&self.world, number, &self.processor_config)
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
        world.at(until_ms, Act::Thaw(environment));
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
