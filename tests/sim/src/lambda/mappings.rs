//! The event source mappings: receive messages, and process the responses of invocations.

use super::{Run, Work};
use crate::checks;
use crate::environment::lock;
use crate::plan::Plan;
use crate::sources::source_index;
use crate::world::World;

impl Run {
    /// Sends a message of the burst.
    pub(super) fn send(&mut self, index: usize) {
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
        // The mapping's batching window.
        let gather_ms = world.rng.u64(0..2_000);
        world.poll_by(source, now_ms + gather_ms);
    }

    /// Makes a mapping poll its queue, unless the poll was moved to another time.
    pub(super) fn poll(&mut self, mapping: usize) {
        let mut world = lock(&self.world);
        if world.polls[mapping] != Some(world.now_ms) {
            return;
        }
        world.polls[mapping] = None;
        drop(world);
        if mapping < self.plan.sources {
            self.poll_input(mapping);
        } else {
            self.poll_tickets();
        }
    }

    fn poll_input(&mut self, source: usize) {
        if self.input_stopped {
            return;
        }
        let Some(environment) = self.aggregator() else {
            return;
        };
        let received = {
            let world = &mut *lock(&self.world);
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
            let world = &mut *lock(&self.world);
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

    /// Makes every mapping poll in one millisecond.
    pub(super) fn poll_all(&mut self) {
        let mut world = lock(&self.world);
        let soon_ms = world.now_ms + 1;
        for mapping in 0..=self.plan.sources {
            world.poll_by(mapping, soon_ms);
        }
    }
}

/// Deletes the messages that an invocation did not report as failed.
pub(super) fn acknowledge(world: &mut World, plan: &Plan, work: Work, failures: &[String]) {
    match work {
        Work::Input { source, messages } => {
            let sent = messages.iter().map(|one| &world.ledger.messages[one.body]);
            let own: Vec<String> = sent.map(|one| one.sqs_message_id.to_string()).collect();
            let stranger = failures.iter().find(|id| !own.contains(id));
            world.check(checks::p8_an_answer_names_its_own_messages(stranger));
            for (message, id) in messages.iter().zip(&own) {
                if failures.contains(id) {
                    // The message is visible again when its visibility timeout ends; some mappings end the timeout
                    // early.
                    if world.faulty && world.rng.u8(..) < 80 {
                        let at_ms = world.now_ms + world.rng.u64(1..5_000);
                        world.inputs[source].set_visible(message.receipt, at_ms);
                        world.poll_by(source, at_ms);
                    }
                    continue;
                }
                world.inputs[source].delete(message.receipt);
                let now = world.now();
                let sent = &mut world.ledger.messages[message.body];
                sent.acknowledged_at.get_or_insert(now);
                if world.strikes_as(plan.faults.ghost, "ghost") {
                    let again_ms = world.now_ms + world.rng.u64(1_000..600_000);
                    world.inputs[source].send(message.body, again_ms);
                    world.poll_by(source, again_ms);
                }
            }
        }
        Work::Ticket(ticket) if failures.is_empty() => {
            world.tickets.delete(ticket.receipt);
        }
        Work::Ticket(_) | Work::Sweep(_) | Work::Operator => {}
    }
}
