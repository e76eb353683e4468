//! The start, the steps and the end of invocations.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use aws_lambda_events::event::sqs::{SqsEvent, SqsMessage, SqsMessageAttribute};
use batch_processor::{Event, Response};
use protocol::batch::Status;
use protocol::time::Timestamp;
use shared::message_attributes::MESSAGE_GROUP_ID;

use super::mappings::acknowledge;
use super::{Execution, Function, Outcome, Run, Task, TaskWaker, Work};
use crate::checks;
use crate::environment::lock;
use crate::operator::OPERATOR;
use crate::queue::Received;
use crate::schedule::Act;
use crate::sources::source_index;
use crate::world::World;

impl Run {
    /// Invokes an aggregator with messages of a source.
    pub(super) fn start_aggregator(
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
            let records = messages.iter().map(|one| record(&world, one.body));
            event.records = records.collect();
            let event = serde_json::to_string(&event).expect("texts make JSON");
            serde_json::from_str(&event).expect("the value is an event")
        };
        let timeout_ms = self.plan.aggregator_timeout_ms;
        let invocation = aggregator::Invocation {
            function: "aggregator".to_owned(),
            deadline: self.deadline_after(timeout_ms, environment),
        };
        let future = Box::pin(async move {
            let response = handler.handle(event, &invocation).await.ok()?;
            Some(failures(response.batch_item_failures))
        });
        let work = Work::Input { source, messages };
        self.start_task(environment, work, timeout_ms, future);
    }

    /// Invokes a batch processor with a ticket or for the sweep.
    pub(super) fn start_processor(&mut self, environment: u64, work: Work) {
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
            Work::Sweep(_) | Work::Input { .. } | Work::Operator => Event::Sweep,
        };
        let timeout_ms = self.plan.processor_timeout_ms;
        let invocation = batch_processor::Invocation {
            function: "batch-processor".to_owned(),
            request_id: format!("r{number}"),
            deadline: self.deadline_after(timeout_ms, environment),
        };
        let future = Box::pin(async move {
            match handler.handle(event, &invocation).await.ok()? {
                Response::Tickets(response) => Some(failures(response.batch_item_failures)),
                Response::Swept(swept) => (!swept.cut_short).then(Vec::new),
            }
        });
        self.start_task(environment, work, timeout_ms, future);
    }

    fn deadline_after(&self, timeout_ms: u64, environment: u64) -> Timestamp {
        lock(&self.world).now_in(environment) + Duration::from_millis(timeout_ms)
    }

    /// Starts an invocation, or an operator's command.
    pub(super) fn start_task(
        &mut self,
        environment: u64,
        work: Work,
        timeout_ms: u64,
        future: Pin<Box<dyn Future<Output = Outcome>>>,
    ) {
        let number = self.number();
        let waker = Waker::from(Arc::new(TaskWaker {
            task: number,
            ready: self.ready.clone(),
        }));
        let mut world = lock(&self.world);
        world.note("invoked", || {
            let task = format!("#{number} in environment {environment}");
            match &work {
                Work::Input { source, messages } => {
                    let messages: Vec<usize> = messages.iter().map(|one| one.body).collect();
                    format!("{task} with {messages:?} of source {source}")
                }
                Work::Ticket(ticket) => format!("{task} with {}", ticket.body),
                Work::Sweep(_) => format!("{task} to sweep"),
                Work::Operator => format!("#{number} by an operator"),
            }
        });
        let deadline_ms = world.now_ms.saturating_add(timeout_ms);
        if environment != OPERATOR {
            world.at(deadline_ms, Act::Deadline(number));
        }
        drop(world);
        let task = Task {
            environment,
            work,
            deadline_ms,
            was_frozen: false,
            timed_out: false,
            future,
            waker,
        };
        self.tasks.insert(number, task);
        self.ready.add(number);
    }

    /// Polls the woken futures until none is woken any more.
    pub(super) fn go_on(&mut self) {
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

    /// Polls a task once; at a step that waits, its environment may be killed or frozen.
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
            // `thaw` makes the task ready again.
            return;
        }
        let context = &mut Context::from_waker(&task.waker);
        match task.future.as_mut().poll(context) {
            Poll::Ready(outcome) => self.completed(number, outcome),
            Poll::Pending => {
                if environment == OPERATOR {
                    return;
                }
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

    /// Ends an invocation whose deadline was reached.
    pub(super) fn deadline(&mut self, number: u64) {
        let Some(task) = self.tasks.get_mut(&number) else {
            return;
        };
        task.timed_out = true;
        let (environment, was_frozen) = (task.environment, task.was_frozen);
        let sweep = matches!(task.work, Work::Sweep(_));
        if was_frozen {
            // The environment may thaw and continue. Lambda ignores its response, and gives it no other
            // invocation.
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

    fn completed(&mut self, number: u64, outcome: Outcome) {
        let Some(task) = self.tasks.remove(&number) else {
            return;
        };
        let environment = task.environment;
        {
            let mut world = lock(&self.world);
            world.note("answered", || format!("#{number} {outcome:?}"));
            let too_late = task.timed_out || world.now_ms > task.deadline_ms;
            let lost = world.strikes_as(self.plan.faults.lose_answer, "answer lost");
            let source = match task.work {
                Work::Input { source, .. } => Some(source),
                Work::Ticket(_) | Work::Sweep(_) | Work::Operator => None,
            };
            if let (Work::Sweep(left), Some(_)) = (&task.work, &outcome) {
                world.check_swept(left);
            }
            if let (false, false, Some(failures)) = (too_late, lost, outcome) {
                acknowledge(&mut world, &self.plan, task.work, &failures);
            }
            if let Some(source) = source {
                self.check_a_drained_source(&mut world, source);
                let is_input = |task: &Task| matches!(task.work, Work::Input { .. });
                if self.plan.calm && self.plan.urgent > 0.0 && !self.tasks.values().any(is_input) {
                    world.check_urgent();
                }
            }
        }
        let execution = self.environments.get(&environment);
        if execution.is_some_and(|one| one.last) && self.running(environment) == 0 {
            self.environments.remove(&environment);
        }
        self.poll_all();
    }

    /// Checks P6: without faults, the only aggregator has sealed its batch after it drained its source.
    ///
    /// One of several seals only the batches that it knows, and of two that work at the same time, each may leave it to the other.
    fn check_a_drained_source(&self, world: &mut World, source: usize) {
        let alone = self.plan.aggregators * self.plan.invocations == 1;
        let seals = self.plan.calm && self.plan.seal_when_drained && alone;
        if !seals || !world.inputs[source].is_empty() {
            return;
        }
        let now = world.now();
        let records = world.batches.records();
        let open = records.iter().find(|record| {
            record.status == Some(Status::Open)
                && record.reservations.as_ref().is_some_and(|one| one.reserved > 0)
                // One whose window has ended waits for its ticket.
                && now + self.plan.skew_max() < record.closes_at
                // A batch of a period waits until the period is over.
                && record.period.is_none_or(|period| period.ends <= now)
                && source_index(&record.source) == source
        });
        let open = open.map(|record| record.batch_id);
        world.check(checks::p6_a_drained_source_is_sealed(open));
    }
}

/// The message ids in a partial batch response.
fn failures(failures: Vec<aws_lambda_events::event::sqs::BatchItemFailure>) -> Vec<String> {
    let ids = failures.into_iter().map(|one| one.item_identifier);
    ids.collect()
}

/// The SQS record of a message of the burst.
fn record(world: &World, index: usize) -> SqsMessage {
    let sent = &world.ledger.messages[index];
    let mut message = SqsMessage::default();
    message.message_id = Some(sent.sqs_message_id.to_string());
    message.body = Some(sent.body.as_ref().to_owned());
    message.event_source_arn = Some(sent.source.to_string());
    message
        .attributes
        .insert("SentTimestamp".to_owned(), sent.sent_at.as_ms().to_string());
    let attributes = sent.attributes.as_ref().map(|all| all.to_map());
    let mut attributes = attributes.unwrap_or_default();
    let group = attributes.remove(MESSAGE_GROUP_ID);
    let group = group.and_then(|group| Some(("MessageGroupId".to_owned(), group.string_value?)));
    message.attributes.extend(group);
    let attributes = attributes.into_iter().map(|(name, one)| {
        let mut attribute = SqsMessageAttribute::default();
        attribute.data_type = Some(one.data_type);
        attribute.string_value = one.string_value;
        (name, attribute)
    });
    message.message_attributes = attributes.collect();
    message
}
