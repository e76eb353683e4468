//! Lambda and its event source mappings: start invocations, freeze and kill environments, and end the history.

mod ending;
mod environments;
mod invocations;
mod mappings;
mod operators;

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Wake, Waker};

use protocol::ids::BatchId;
use protocol::time::Timestamp;

use crate::burst;
use crate::checks;
use crate::environment::{Shared, lock};
use crate::plan::Plan;
use crate::queue::Received;
use crate::redeploy::Change;
use crate::schedule::{Act, Happening};
use crate::world::World;

/// Time between two runs of the TTL.
const EXPIRE_EVERY_MS: u64 = 60_000;
/// Time between two visits of the operator.
const OPERATOR_EVERY_MS: u64 = 120_000;
/// When an operator primes an index once more after a switch to the log.
const PRIMED_AGAIN_MS: [u64; 3] = [5_000, 60_000, 300_000];
/// A limit on steps that no history reaches, with [`STEPS_OF_MESSAGE_MAX`] more for each message.
const STEPS_MAX: u64 = 4_000_000;
const STEPS_OF_MESSAGE_MAX: u64 = 1_000;

/// A running history.
pub struct Run {
    world: Shared,
    plan: Plan,
    /// The plan as it is deployed now.
    deployed: Plan,
    aggregator_config: aggregator::Config,
    processor_config: batch_processor::Config,
    environments: BTreeMap<u64, Execution>,
    tasks: BTreeMap<u64, Task>,
    ready: Arc<Ready>,
    number: u64,
    /// Messages that are still to be sent.
    unsent: usize,
    /// Whether an operator has stopped the mappings of the input queues.
    input_stopped: bool,
    steps: u64,
    /// When everything must have drained.
    drain_by_ms: u64,
    /// What happens after everything has drained, in reverse order.
    to_come: Vec<Coming>,
}

/// Events of the history after everything has drained.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Coming {
    /// An operator sends the dead letters again.
    Redrive,
    /// This many days pass without invocations.
    Days(u64),
}

/// The handler that an environment runs.
enum Function {
    Aggregator(Arc<aggregator::Handler>),
    Processor(Arc<batch_processor::Handler>),
    /// An operator runs commands.
    Operator,
}

/// An execution environment.
struct Execution {
    function: Function,
    frozen_until_ms: u64,
    /// Whether the environment ends with its invocation, because it passed a deadline or ran the sweep.
    last: bool,
}

/// The event of an invocation.
enum Work {
    Input {
        source: usize,
        messages: Vec<Received<usize>>,
    },
    Ticket(Received<String>),
    /// The sweep, with the batches that it must send a ticket, and their due times.
    Sweep(Vec<(BatchId, Timestamp)>),
    Operator,
}

/// The message ids that an invocation reported as failed; `None` for an error.
type Outcome = Option<Vec<String>>;

/// An invocation that has not ended.
struct Task {
    environment: u64,
    work: Work,
    /// In the time of the world, not by the environment's clock.
    deadline_ms: u64,
    was_frozen: bool,
    timed_out: bool,
    future: Pin<Box<dyn Future<Output = Outcome>>>,
    waker: Waker,
}

/// The numbers of the tasks whose future was woken.
#[derive(Default)]
struct Ready(Mutex<Vec<u64>>);

impl Ready {
    fn add(&self, task: u64) {
        let mut ready = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !ready.contains(&task) {
            ready.push(task);
        }
    }

    fn take(&self) -> Vec<u64> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

struct TaskWaker {
    task: u64,
    ready: Arc<Ready>,
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        self.ready.add(self.task);
    }
}

impl Run {
    /// Sets up the history of a plan.
    pub fn new(plan: Plan, traced: bool) -> Run {
        let mut world = World::new(plan.clone(), traced);
        burst::plan(&mut world);
        for index in 0..world.ledger.messages.len() {
            let sent_at = world.ledger.messages[index].sent_at;
            let at_ms = plan.start.until(sent_at).as_millis() as u64;
            world.at(at_ms, Act::Send(index));
        }
        world.at(plan.sweep_every_ms, Act::Sweep);
        world.at(EXPIRE_EVERY_MS, Act::Expire);
        world.at(plan.calm_at_ms, Act::Calm);
        for at_ms in &plan.forgets_at_ms {
            world.at(*at_ms, Act::Forget);
        }
        if let Some((at_ms, _)) = plan.switch {
            world.at(at_ms, Act::Switch);
        }
        if let Some(at_ms) = plan.manifest_lost_at_ms {
            world.at(at_ms, Act::LoseManifest);
        }
        for (at_ms, change) in &plan.redeploys {
            world.at(*at_ms, Act::Redeploy(*change));
        }
        for (index, pause) in plan.pauses.iter().enumerate() {
            world.at(pause.at_ms, Act::Pause(index));
            if let Some(after_ms) = pause.resumed_after_ms {
                let at_ms = pause.at_ms + after_ms;
                world.at(at_ms, Act::Resume(index));
            }
        }
        if plan.operates_early {
            world.at(OPERATOR_EVERY_MS, Act::Operator);
        }
        // In reverse order: `run` takes them from the end.
        let mut to_come: Vec<Coming> = plan.afterlife_days.map(Coming::Days).into_iter().collect();
        to_come.extend(plan.redrives.then_some(Coming::Redrive));
        let unsent = world.ledger.messages.len();
        let (aggregator_config, processor_config) = plan.configs();
        Run {
            aggregator_config,
            processor_config,
            world: Arc::new(Mutex::new(world)),
            deployed: plan.clone(),
            drain_by_ms: plan.calm_at_ms + plan.drain_max_ms(),
            plan,
            environments: BTreeMap::new(),
            tasks: BTreeMap::new(),
            ready: Arc::default(),
            number: 0,
            unsent,
            input_stopped: false,
            steps: 0,
            to_come,
        }
    }

    /// Runs the history to its end, or to the first broken promise. Returns the number of steps.
    pub fn run(&mut self) -> u64 {
        loop {
            self.steps += 1;
            let mut world = lock(&self.world);
            let Some((at_ms, happening)) = world.schedule.take() else {
                break;
            };
            debug_assert!(at_ms >= world.now_ms);
            world.now_ms = at_ms;
            drop(world);
            match happening {
                Happening::Wake(waker) => waker.wake(),
                Happening::Effect(effect) => effect(&mut lock(&self.world)),
                Happening::Act(act) => self.act(act),
            }
            self.go_on();
            lock(&self.world).take_away();
            if lock(&self.world).broken.is_some() {
                break;
            }
            if self.drained() {
                let Some(coming) = self.to_come.pop() else {
                    break;
                };
                self.comes(coming);
                continue;
            }
            let now_ms = lock(&self.world).now_ms;
            let steps_max = STEPS_MAX + STEPS_OF_MESSAGE_MAX * self.plan.messages as u64;
            if now_ms > self.drain_by_ms || self.steps > steps_max {
                let left = self.left();
                lock(&self.world).check(checks::p7_everything_drains(false, || left));
                break;
            }
        }
        if lock(&self.world).broken.is_none() {
            self.check_the_end();
        }
        self.steps
    }

    /// Returns the world, so that a caller can read it after the run.
    pub fn world(&self) -> MutexGuard<'_, World> {
        lock(&self.world)
    }

    fn number(&mut self) -> u64 {
        self.number += 1;
        self.number
    }

    fn act(&mut self, act: Act) {
        match act {
            Act::Send(index) => self.send(index),
            Act::Poll(mapping) => self.poll(mapping),
            Act::Deadline(task) => self.deadline(task),
            Act::Thaw(environment) => self.thaw(environment),
            Act::Sweep => {
                let environment = self.cold_start_processor(true);
                let left = lock(&self.world).left_to_the_sweep();
                self.start_processor(environment, Work::Sweep(left));
                lock(&self.world).after(self.plan.sweep_every_ms, Act::Sweep);
            }
            Act::Expire => {
                let mut world = lock(&self.world);
                world.expire();
                world.after(EXPIRE_EVERY_MS, Act::Expire);
            }
            Act::Rebuild => self.rebuild_index(),
            Act::Forget => self.forget(),
            Act::Switch => self.switch(),
            Act::Switched => self.switched(),
            Act::PrimeAgain => self.prime_again(),
            Act::LoseManifest => lock(&self.world).lose_manifest(),
            Act::Calm => {
                let mut world = lock(&self.world);
                world.note("calm", String::new);
                world.faulty = false;
                if !self.plan.operates_early {
                    world.after(OPERATOR_EVERY_MS, Act::Operator);
                }
                drop(world);
                if let Some(days) = self.plan.standstill_days {
                    // While batches are under way.
                    self.days_pass(|world| world.stand_still(days));
                }
            }
            Act::Operator => {
                let mut world = lock(&self.world);
                world.edit();
                world.after(OPERATOR_EVERY_MS, Act::Operator);
                let redrives = self.plan.redrives_early && world.faulty;
                drop(world);
                self.look_at_errors();
                if redrives {
                    self.redrive_quarantine();
                }
            }
            Act::Pause(index) => self.pause(index),
            Act::Resume(index) => self.resume_deliveries(index),
            Act::Redeploy(change) => self.deploy(change),
        }
    }

    /// New environments start with the changed configuration; existing ones end after their current invocations.
    fn deploy(&mut self, change: Change) {
        change.apply(&mut self.deployed);
        (self.aggregator_config, self.processor_config) = self.deployed.configs();
        lock(&self.world).note("redeployed", || format!("{change:?}"));
        let tasks = &self.tasks;
        self.environments.retain(|number, execution| {
            execution.last = true;
            tasks.values().any(|task| task.environment == *number)
        });
    }

    /// The log or `items` is deployed, and the mappings of the input queues start again.
    fn switched(&mut self) {
        let (_, to) = self.plan.switch.expect("the history has a switch");
        self.deploy(Change::Bodies(to));
        if to.is_log() {
            for after_ms in PRIMED_AGAIN_MS {
                lock(&self.world).after(after_ms, Act::PrimeAgain);
            }
        }
        self.input_stopped = false;
        self.poll_all();
    }

    /// Lets days `pass`, which no environment outlives. Returns what `pass` does.
    fn days_pass<T>(&mut self, pass: impl FnOnce(&mut World) -> T) -> T {
        let mut world = lock(&self.world);
        let passed = pass(&mut world);
        world.after(self.plan.sweep_every_ms, Act::Sweep);
        world.after(EXPIRE_EVERY_MS, Act::Expire);
        world.after(OPERATOR_EVERY_MS, Act::Operator);
        self.drain_by_ms = world.now_ms + self.plan.drain_max_ms();
        drop(world);
        self.tasks.clear();
        self.environments.clear();
        self.poll_all();
        passed
    }

    /// Continues after everything has drained: messages are redriven, or days pass.
    fn comes(&mut self, coming: Coming) {
        let sent = match coming {
            Coming::Redrive => {
                self.redrive();
                Vec::new()
            }
            Coming::Days(days) => self.days_pass(|world| world.days_pass(days)),
        };
        self.unsent += sent.len();
        let mut world = lock(&self.world);
        for index in sent {
            world.note("comes again", || format!("{index} {coming:?}"));
            let after_ms = world.rng.u64(0..60_000);
            world.after(after_ms, Act::Send(index));
        }
        self.drain_by_ms = world.now_ms + self.plan.drain_max_ms();
    }
}
