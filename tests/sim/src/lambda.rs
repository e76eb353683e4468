//! Lambda, the mappings between queues and functions, and the burst: who runs when, and who dies.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use aggregator::shared_allocator::SharedAllocator;
use aws_lambda_events::event::sqs::{SqsEvent, SqsMessage, SqsMessageAttribute};
use batch_processor::{Event, Response};
use protocol::batch::Status;
use protocol::claim::{DuplicateRule, LockState};
use protocol::ids::Place;
use protocol::time::Timestamp;

use crate::act::Act;
use crate::burst;
use crate::checks;
use crate::clocks::{SKEW_MAX_MS, START};
use crate::environment::{Environment, Shared, lock};
use crate::plan::{IdKind, Plan};
use crate::queue::Received;
use crate::schedule::Happening;
use crate::sources::source_index;
use crate::world::World;

/// Between two rounds of the table's TTL.
const EXPIRE_EVERY_MS: u64 = 60_000;
/// Between two looks of the operator.
const OPERATOR_EVERY_MS: u64 = 120_000;
/// What is left to be done must be done this long after the faults stop.
const DRAIN_MAX_MS: u64 = 6 * 3_600_000;
/// More steps than any history needs.
const STEPS_MAX: u64 = 400_000;

enum Function {
    Aggregator(Arc<aggregator::Handler>),
    Processor(Arc<batch_processor::Handler>),
}

struct Execution {
    function: Function,
    frozen_until_ms: u64,
    /// Whether it goes away with the answer of its invocation: it outlived a deadline, or ran the sweep.
    last: bool,
}

/// What an invocation was started for.
enum Work {
    Input {
        source: usize,
        messages: Vec<Received<usize>>,
    },
    Ticket(Received<String>),
    Sweep,
}

/// What an invocation answered: the ids of what must come back; `None` for an error.
type Answer = Option<Vec<String>>;

struct Task {
    environment: u64,
    work: Work,
    /// By the environment's own clock.
    deadline_ms: u64,
    was_frozen: bool,
    timed_out: bool,
    future: Pin<Box<dyn Future<Output = Answer> + Send>>,
    waker: Waker,
}

/// Tasks that can go on.
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

/// One history, while it runs.
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
    steps: u64,
    /// When everything must have drained.
    drain_by_ms: u64,
    /// What comes after everything has drained.
    to_come: Vec<Coming>,
}

/// What comes after everything has drained.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Coming {
    Redrive,
    Days(u64),
}

impl Run {
    /// Sets everything up.
    pub fn new(plan: Plan, traced: bool) -> Run {
        let mut world = World::new(plan.clone(), traced);
        burst::plan(&mut world);
        for index in 0..world.ledger.messages.len() {
            let at_ms = world.ledger.messages[index].sent_at_ms;
            world.at(at_ms, Happening::Act(Act::Send(index)));
        }
        world.at(plan.sweep_every_ms, Happening::Act(Act::Sweep));
        world.at(EXPIRE_EVERY_MS, Happening::Act(Act::Expire));
        world.at(plan.calm_at_ms, Happening::Act(Act::Calm));
        for (index, redeploy) in plan.redeploys.iter().enumerate() {
            world.at(redeploy.at_ms, Happening::Act(Act::Redeploy(index)));
        }
        if plan.operates_early {
            world.at(OPERATOR_EVERY_MS, Happening::Act(Act::Operator));
        }
        // The last to come first.
        let mut to_come: Vec<Coming> = plan.afterlife_days.map(Coming::Days).into_iter().collect();
        to_come.extend(plan.redrives.then_some(Coming::Redrive));
        let unsent = world.ledger.messages.len();
        let (aggregator_config, processor_config) = plan.configs();
        Run {
            aggregator_config,
            processor_config,
            world: Arc::new(Mutex::new(world)),
            deployed: plan.clone(),
            drain_by_ms: plan.calm_at_ms + DRAIN_MAX_MS,
            plan,
            environments: BTreeMap::new(),
            tasks: BTreeMap::new(),
            ready: Arc::default(),
            number: 0,
            unsent,
            steps: 0,
            to_come,
        }
    }

    /// Runs to the end, or to the first broken promise; answers how many steps that took.
    pub fn run(&mut self) -> u64 {
        loop {
            self.steps += 1;
            let Some(happening) = self.next() else {
                break;
            };
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
            if now_ms > self.drain_by_ms || self.steps > STEPS_MAX {
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

    /// The world, for whoever asks afterwards.
    pub fn world(&self) -> std::sync::MutexGuard<'_, World> {
        lock(&self.world)
    }

    fn next(&mut self) -> Option<Happening<World>> {
        let mut world = lock(&self.world);
        let (at_ms, happening) = world.schedule.take()?;
        debug_assert!(at_ms >= world.now_ms);
        world.now_ms = at_ms;
        Some(happening)
    }

    fn number(&mut self) -> u64 {
        self.number += 1;
        self.number
    }

    fn act(&mut self, act: Act) {
        match act {
            Act::Send(index) => self.send(index),
            Act::Poll(mapping) => {
                {
                    let mut world = lock(&self.world);
                    if world.polls[mapping] != Some(world.now_ms) {
                        // It has looked since, or will look: this plan was overtaken.
                        return;
                    }
                    world.polls[mapping] = None;
                }
                if mapping < self.plan.sources {
                    self.poll_input(mapping);
                } else {
                    self.poll_tickets();
                }
            }
            Act::Deadline(task) => self.deadline(task),
            Act::Thaw(environment) => self.thaw(environment),
            Act::Sweep => {
                let environment = self.cold_start_processor(true);
                self.start_processor(environment, Work::Sweep);
                let every_ms = self.plan.sweep_every_ms;
                lock(&self.world).after(every_ms, Happening::Act(Act::Sweep));
            }
            Act::Expire => {
                let mut world = lock(&self.world);
                world.expire();
                world.after(EXPIRE_EVERY_MS, Happening::Act(Act::Expire));
            }
            Act::Calm => {
                let mut world = lock(&self.world);
                world.note("calm", String::new);
                world.faulty = false;
                if !self.plan.operates_early {
                    world.after(OPERATOR_EVERY_MS, Happening::Act(Act::Operator));
                }
            }
            Act::Operator => {
                let mut world = lock(&self.world);
                world.edit();
                world.operate();
                world.after(OPERATOR_EVERY_MS, Happening::Act(Act::Operator));
            }
            Act::Redeploy(index) => self.redeploy(index),
        }
    }

    /// New environments start with another configuration; those there are end after the invocations they are in.
    fn redeploy(&mut self, index: usize) {
        let change = self.plan.redeploys[index].change;
        change.apply(&mut self.deployed);
        (self.aggregator_config, self.processor_config) = self.deployed.configs();
        lock(&self.world).note("redeployed", || format!("{change:?}"));
        let idle: Vec<u64> = self
            .environments
            .keys()
            .copied()
            .filter(|number| self.running(*number) == 0)
            .collect();
        for number in idle {
            self.environments.remove(&number);
        }
        for execution in self.environments.values_mut() {
            execution.last = true;
        }
    }

    /// Everything has drained, and goes on.
    fn comes(&mut self, coming: Coming) {
        let sent = {
            let mut world = lock(&self.world);
            let world = &mut *world;
            match coming {
                Coming::Redrive => world.redrive(),
                Coming::Days(days) => {
                    let sent = world.days_pass(days);
                    world.after(self.plan.sweep_every_ms, Happening::Act(Act::Sweep));
                    world.after(EXPIRE_EVERY_MS, Happening::Act(Act::Expire));
                    world.after(OPERATOR_EVERY_MS, Happening::Act(Act::Operator));
                    sent
                }
            }
        };
        if coming != Coming::Redrive {
            // Nothing is kept warm for days.
            self.environments.clear();
            self.poll_all();
        }
        self.unsent += sent.len();
        let mut world = lock(&self.world);
        for index in sent {
            world.note("comes again", || format!("{index} {coming:?}"));
            let after_ms = world.rng.u64(0..60_000);
            world.after(after_ms, Happening::Act(Act::Send(index)));
        }
        self.drain_by_ms = world.now_ms + DRAIN_MAX_MS;
    }

    // The burst and the queues.

    fn send(&mut self, index: usize) {
        self.unsent -= 1;
        let mut world = lock(&self.world);
        let source = source_index(&world.ledger.messages[index].source);
        let now_ms = world.now_ms;
        let what = world.trace.is_some().then(|| {
            let sent = &world.ledger.messages[index];
            format!("{index} {:?} {}", sent.event_id, sent.body)
        });
        world.note("sent", || what.unwrap_or_default());
        world.inputs[source].send(index, now_ms);
        // A mapping gathers for a moment.
        let gather_ms = world.rng.u64(0..2_000);
        world.poll_by(source, now_ms + gather_ms);
    }

    fn poll_input(&mut self, source: usize) {
        let Some(environment) = self.aggregator() else {
            return;
        };
        let received = {
            let mut world = lock(&self.world);
            let world = &mut *world;
            let until_ms = world.now_ms + self.plan.input_visibility_ms();
            let max = world.rng.usize(1..=self.plan.event_records);
            let received =
                world.inputs[source].receive(world.now_ms, until_ms, max, &mut world.rng);
            for message in &received {
                if world.strikes_as(self.plan.faults.deliver_twice, "delivered twice") {
                    let again_ms = world.now_ms + world.rng.u64(1..20_000);
                    world.inputs[source].set_visible(message.receipt, again_ms);
                }
            }
            if let Some(next_ms) = world.inputs[source].next_visible_ms() {
                world.poll_by(source, next_ms.max(world.now_ms + 1));
            }
            received
        };
        if !received.is_empty() {
            self.start_aggregator(environment, source, received);
        }
    }

    fn poll_tickets(&mut self) {
        let Some(environment) = self.processor() else {
            return;
        };
        let received = {
            let mut world = lock(&self.world);
            let world = &mut *world;
            let until_ms = world.now_ms + self.plan.ticket_visibility_ms();
            let received = world
                .tickets
                .receive(world.now_ms, until_ms, 1, &mut world.rng);
            for message in &received {
                if world.strikes_as(self.plan.faults.deliver_twice, "delivered twice") {
                    let again_ms = world.now_ms + world.rng.u64(1..20_000);
                    world.tickets.set_visible(message.receipt, again_ms);
                }
            }
            if let Some(next_ms) = world.tickets.next_visible_ms() {
                world.poll_by(self.plan.sources, next_ms.max(world.now_ms + 1));
            }
            received
        };
        for ticket in received {
            self.start_processor(environment, Work::Ticket(ticket));
        }
    }

    // Environments.

    /// Whether Lambda would give it work.
    fn takes_work(&self, execution: &Execution) -> bool {
        !execution.last && execution.frozen_until_ms <= lock(&self.world).now_ms
    }

    fn running(&self, environment: u64) -> usize {
        self.tasks
            .values()
            .filter(|task| task.environment == environment)
            .count()
    }

    /// An aggregator that can take an event: a warm one, or a new one, if there may be one.
    fn aggregator(&mut self) -> Option<u64> {
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
        let handler = aggregator::Handler::new(
            self.aggregator_config.clone(),
            environment.ports(),
            environment,
            current,
        );
        let function = Function::Aggregator(Arc::new(handler));
        Some(self.cold_start(number, function, false))
    }

    fn processor(&mut self) -> Option<u64> {
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

    fn cold_start_processor(&mut self, last: bool) -> u64 {
        let (number, environment) = self.environment();
        let handler = batch_processor::Handler::new(
            self.processor_config.clone(),
            environment.ports(),
            environment,
        );
        self.cold_start(number, Function::Processor(Arc::new(handler)), last)
    }

    /// The number of a new environment, and its ports.
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

    // Invocations.

    fn start_aggregator(
        &mut self,
        environment: u64,
        source: usize,
        messages: Vec<Received<usize>>,
    ) {
        let Some(Execution {
            function: Function::Aggregator(handler),
            ..
        }) = self.environments.get(&environment)
        else {
            return;
        };
        let handler = handler.clone();
        let event = {
            let world = lock(&self.world);
            let mut event = SqsEvent::default();
            event.records = messages
                .iter()
                .map(|message| record(&world, message.body))
                .collect();
            let event = serde_json::to_string(&event).expect("texts make JSON");
            serde_json::from_str(&event).expect("it is an event")
        };
        let timeout_ms = self.plan.aggregator_timeout_ms;
        let invocation = aggregator::Invocation {
            function: "aggregator".to_owned(),
            deadline: self.deadline_after(timeout_ms, environment),
        };
        let future = Box::pin(async move {
            let answer = handler.handle(event, &invocation).await.ok()?;
            Some(failures(answer.batch_item_failures))
        });
        let work = Work::Input { source, messages };
        self.start(environment, work, timeout_ms, future);
    }

    fn start_processor(&mut self, environment: u64, work: Work) {
        let number = self.number();
        let Some(Execution {
            function: Function::Processor(handler),
            ..
        }) = self.environments.get(&environment)
        else {
            return;
        };
        let handler = handler.clone();
        let event = match &work {
            Work::Ticket(ticket) => {
                let mut message = SqsMessage::default();
                message.message_id = Some(format!("t{}", ticket.receipt));
                message.receipt_handle = Some(ticket.receipt.to_string());
                let receives = ticket.receives.to_string();
                let count = "ApproximateReceiveCount".to_owned();
                message.attributes.insert(count, receives);
                message.body = Some(ticket.body.clone());
                let mut event = SqsEvent::default();
                event.records.push(message);
                Event::Tickets(event)
            }
            Work::Sweep | Work::Input { .. } => Event::Sweep,
        };
        let timeout_ms = self.plan.processor_timeout_ms;
        let invocation = batch_processor::Invocation {
            function: "batch-processor".to_owned(),
            request_id: format!("r{number}"),
            deadline: self.deadline_after(timeout_ms, environment),
        };
        let future = Box::pin(async move {
            match handler.handle(event, &invocation).await.ok()? {
                Response::Tickets(answer) => Some(failures(answer.batch_item_failures)),
                Response::Swept(_) => Some(Vec::new()),
            }
        });
        self.start(environment, work, timeout_ms, future);
    }

    fn deadline_after(&self, timeout_ms: u64, environment: u64) -> Timestamp {
        lock(&self.world).now_in(environment) + Duration::from_millis(timeout_ms)
    }

    fn start(
        &mut self,
        environment: u64,
        work: Work,
        timeout_ms: u64,
        future: Pin<Box<dyn Future<Output = Answer> + Send>>,
    ) {
        let number = self.number();
        let waker = Waker::from(Arc::new(TaskWaker {
            task: number,
            ready: self.ready.clone(),
        }));
        let mut world = lock(&self.world);
        world.note("invoked", || match &work {
            Work::Input { source, messages } => {
                let messages: Vec<usize> = messages.iter().map(|one| one.body).collect();
                format!(
                    "#{number} in environment {environment} with {messages:?} of source {source}"
                )
            }
            Work::Ticket(ticket) => {
                format!(
                    "#{number} in environment {environment} with {}",
                    ticket.body
                )
            }
            Work::Sweep => format!("#{number} in environment {environment} to sweep"),
        });
        let deadline_ms = world.now_ms + timeout_ms;
        world.at(deadline_ms, Happening::Act(Act::Deadline(number)));
        drop(world);
        self.tasks.insert(
            number,
            Task {
                environment,
                work,
                deadline_ms,
                was_frozen: false,
                timed_out: false,
                future,
                waker,
            },
        );
        self.ready.add(number);
    }

    /// Everything that can go on does, until nothing can.
    fn go_on(&mut self) {
        loop {
            let ready = self.ready.take();
            if ready.is_empty() {
                return;
            }
            for task in ready {
                self.step(task);
            }
        }
    }

    fn step(&mut self, number: u64) {
        let now_ms = lock(&self.world).now_ms;
        let Some(task) = self.tasks.get_mut(&number) else {
            return;
        };
        let environment = task.environment;
        let Some(execution) = self.environments.get_mut(&environment) else {
            return;
        };
        if now_ms < execution.frozen_until_ms {
            // It goes on when the environment thaws.
            return;
        }
        match task
            .future
            .as_mut()
            .poll(&mut Context::from_waker(&task.waker))
        {
            Poll::Ready(answer) => self.answered(number, answer),
            Poll::Pending => {
                let (kills, freezes) = {
                    let mut world = lock(&self.world);
                    let faults = world.plan.faults.clone();
                    (world.strikes(faults.kill), world.strikes(faults.stall))
                };
                if kills {
                    self.kill(environment);
                } else if freezes {
                    self.freeze(environment);
                }
            }
        }
    }

    fn freeze(&mut self, environment: u64) {
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

    fn thaw(&mut self, environment: u64) {
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

    fn kill(&mut self, environment: u64) {
        lock(&self.world).note("killed", || format!("environment {environment}"));
        // Requests under way arrive all the same; nobody hears their replies.
        self.tasks.retain(|_, task| task.environment != environment);
        self.environments.remove(&environment);
        self.poll_all();
    }

    fn poll_all(&mut self) {
        let mut world = lock(&self.world);
        let soon_ms = world.now_ms + 1;
        for mapping in 0..=self.plan.sources {
            world.poll_by(mapping, soon_ms);
        }
    }

    fn deadline(&mut self, number: u64) {
        let Some(task) = self.tasks.get_mut(&number) else {
            return;
        };
        task.timed_out = true;
        let (environment, was_frozen) = (task.environment, task.was_frozen);
        let sweep = matches!(task.work, Work::Sweep);
        if was_frozen {
            // It may wake up and go on as if nothing had happened; nobody takes its answer, and it gets no other work.
            if let Some(execution) = self.environments.get_mut(&environment) {
                execution.last = true;
            }
            self.poll_all();
            return;
        }
        let function = if sweep { "the sweep" } else { "an invocation" };
        let check = checks::p8_an_invocation_ends_in_time(function, false);
        lock(&self.world).check(check);
        self.kill(environment);
    }

    fn answered(&mut self, number: u64, answer: Answer) {
        let Some(task) = self.tasks.remove(&number) else {
            return;
        };
        let environment = task.environment;
        {
            let mut world = lock(&self.world);
            world.note("answered", || format!("#{number} {answer:?}"));
            let too_late = task.timed_out || world.now_ms > task.deadline_ms;
            let lost = world.strikes_as(self.plan.faults.lose_answer, "answer lost");
            let source = match task.work {
                Work::Input { source, .. } => Some(source),
                Work::Ticket(_) | Work::Sweep => None,
            };
            if let (false, false, Some(failures)) = (too_late, lost, answer) {
                acknowledge(&mut world, &self.plan, task.work, &failures);
            }
            // Others would have batches of their own, which they seal when they see the end themselves.
            let alone = self.plan.aggregators * self.plan.invocations == 1;
            if let Some(source) = source
                && self.plan.calm
                && self.plan.seal_when_drained
                && alone
                && world.inputs[source].is_empty()
            {
                let records = world.batches.records();
                let open = records.iter().find(|record| {
                    record.status == Some(Status::Open)
                        && record.confirmed > 0
                        && source_index(&record.source) == source
                });
                let open = open.map(|record| record.batch_id);
                world.check(checks::p6_a_drained_source_is_sealed(open));
            }
        }
        if self
            .environments
            .get(&environment)
            .is_some_and(|execution| execution.last && self.running(environment) == 0)
        {
            self.environments.remove(&environment);
        }
        self.poll_all();
    }

    // The end.

    fn drained(&self) -> bool {
        let world = lock(&self.world);
        !world.faulty
            && self.unsent == 0
            && self.tasks.is_empty()
            && world.inputs.iter().all(|queue| queue.is_empty())
            && world.tickets.is_empty()
            && world
                .batches
                .records()
                .iter()
                .all(|record| record.status.is_none())
    }

    fn left(&self) -> String {
        let world = lock(&self.world);
        let waiting = world
            .inputs
            .iter()
            .filter(|queue| !queue.is_empty())
            .count();
        let open: Vec<String> = world
            .batches
            .records()
            .iter()
            .filter(|record| record.status.is_some())
            .map(|record| format!("{record:?}"))
            .collect();
        format!(
            "after {} steps: {} to be sent, {waiting} queues, {:?} tickets, {} invocations, batches {open:?}",
            self.steps,
            self.unsent,
            world.tickets.depth(world.now_ms),
            self.tasks.len()
        )
    }

    fn check_the_end(&mut self) {
        let mut world = lock(&self.world);
        let world = &mut *world;
        let dead: Vec<usize> = world
            .inputs
            .iter()
            .flat_map(|queue| queue.dead_letters.iter().copied())
            .collect();
        for index in dead {
            world.note("dead letter", || index.to_string());
            world.ledger.messages[index].reported = true;
        }
        let may_drop = self.plan.ever(DuplicateRule::Drop);
        // By clocks that are as wrong as they may be.
        let wrong_ms = 2 * (self.plan.skew_max_ms - SKEW_MAX_MS) as u64;
        let answer_time_max = Duration::from_millis(self.plan.aggregator_timeout_ms + wrong_ms);
        let mut checks = Vec::new();
        for message in &world.ledger.messages {
            checks.push(checks::p8_what_cannot_be_read_is_reported(message));
            let claims = message
                .event_id
                .as_ref()
                .and_then(|id| world.ledger.occurrences.get(id));
            checks.push(checks::p1_acknowledged_means_delivered_or_reported(
                message,
                claims.map(Vec::as_slice).unwrap_or_default(),
                may_drop,
                answer_time_max,
            ));
        }
        // Three kinds of live claims may stay, and are free for whoever comes: without a dedup window, a write that
        // arrives after its event was forgotten; a claim whose release was cut off and which the index hid until its
        // batch was complete; a write that arrives after its message was acknowledged for another claim.
        let left: Vec<String> = world
            .locks
            .items()
            .into_iter()
            .filter(|(_, item)| {
                item.expires_at().is_none() && self.plan.dedup_window_min_secs() > 0
            })
            .filter(|(id, item)| {
                let LockState::Live { shard, seq } = item.state else {
                    return false;
                };
                let place = Place { shard, seq };
                !world.ledger.seat_delivered(id, place)
                    && !world.ledger.seat_set_aside(id, place)
                    && !world.ledger.came_too_late(id, place)
            })
            .filter(|(_, item)| {
                let sent = world.ledger.by_id.get(&item.sqs_message_id);
                sent.is_none_or(|index| !world.ledger.messages[*index].reported)
            })
            .map(|(id, item)| format!("{id} {item:?}"))
            .collect();
        checks.push(checks::p7_no_claim_is_left(&left));
        if self.plan.calm {
            for record in world.batches.records() {
                let Some(sealed_at) = record.sealed_at else {
                    continue;
                };
                // Its first ticket belongs to the window; one that is visible at once belongs to the seal.
                let at_once = world
                    .ledger
                    .tickets
                    .get(&record.batch_id)
                    .and_then(|tickets| {
                        let at_once = tickets.iter().find(|one| one.visible_at == one.at);
                        at_once.map(|one| one.at)
                    });
                checks.push(checks::p6_a_sealed_batch_starts_at_once(sealed_at, at_once));
            }
        }
        for check in checks {
            world.check(check);
        }
    }
}

fn failures(failures: Vec<aws_lambda_events::event::sqs::BatchItemFailure>) -> Vec<String> {
    failures
        .into_iter()
        .map(|failure| failure.item_identifier)
        .collect()
}

/// What the mapping does with an answer.
fn acknowledge(world: &mut World, plan: &Plan, work: Work, failures: &[String]) {
    match work {
        Work::Input { source, messages } => {
            let own: Vec<String> = messages
                .iter()
                .map(|one| world.ledger.messages[one.body].sqs_message_id.to_string())
                .collect();
            let stranger = failures.iter().find(|id| !own.contains(id));
            world.check(checks::p8_an_answer_names_its_own_messages(stranger));
            for (message, id) in messages.iter().zip(&own) {
                if failures.contains(id) {
                    // Visible again when its visibility timeout ends; some mappings end it at once.
                    if world.faulty && world.rng.u8(..) < 80 {
                        let at_ms = world.now_ms + world.rng.u64(1..5_000);
                        world.inputs[source].set_visible(message.receipt, at_ms);
                        world.poll_by(source, at_ms);
                    }
                    continue;
                }
                world.inputs[source].delete(message.receipt);
                let now = world.now();
                world.ledger.messages[message.body]
                    .acknowledged_at
                    .get_or_insert(now);
                if world.strikes_as(plan.faults.ghost, "ghost") {
                    let again_ms = world.now_ms + world.rng.u64(1_000..600_000);
                    world.inputs[source].send(message.body, again_ms);
                    world.poll_by(source, again_ms);
                }
            }
        }
        Work::Ticket(ticket) if failures.is_empty() => world.tickets.delete(ticket.receipt),
        Work::Ticket(_) | Work::Sweep => {}
    }
}

fn record(world: &World, index: usize) -> SqsMessage {
    let sent = &world.ledger.messages[index];
    let mut message = SqsMessage::default();
    message.message_id = Some(sent.sqs_message_id.to_string());
    message.body = Some(sent.body.as_ref().to_owned());
    message.event_source_arn = Some(sent.source.to_string());
    let sent_at = START + Duration::from_millis(sent.sent_at_ms);
    message
        .attributes
        .insert("SentTimestamp".to_owned(), sent_at.as_ms().to_string());
    if world.plan.id_kind == IdKind::Attribute
        && let Some(id) = &sent.name
    {
        let mut attribute = SqsMessageAttribute::default();
        attribute.data_type = Some("String".to_owned());
        attribute.string_value = Some(id.clone());
        message
            .message_attributes
            .insert("id".to_owned(), attribute);
    }
    message
}
