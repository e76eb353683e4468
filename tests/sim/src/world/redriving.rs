//! The queues whose messages an operator redrives: dead letters, and the quarantine.

use std::sync::Arc;
use std::time::Duration;

use aws::{BatchSummary, Summaries};
use protocol::ids::BatchId;
use shared::message_attributes::{AttributeMap, MessageAttributes};
use shared::quarantine_attributes::packed;

use super::World;
use crate::burst;
use crate::checks;
use crate::ledger::Sent;
use crate::plan::IdKind;
use crate::queue::OperatorQueue;
use crate::sources::source;
use batchctl::ports::Received;

/// How often the reply to a message that an operator sends is lost, of 256 times.
const REPLIES_LOST: u8 = 16;
/// How many replies an operator misses in a history. Each may leave one more message, and a message that cannot be read is redriven at each
/// visit, so without a limit there would be ever more.
const REPLIES_LOST_MAX: u32 = 20;

impl World {
    /// Puts what was received too often into the dead-letter queues, where operators look.
    pub fn collect_dead_letters(&mut self) {
        let now_ms = self.now_ms;
        for (input, dead) in self.inputs.iter_mut().zip(&mut self.dead) {
            for index in std::mem::take(&mut input.dead_letters) {
                dead.send(index, now_ms);
            }
        }
    }

    /// Returns the records of some batches.
    pub fn summaries(&mut self, ids: &[BatchId]) -> Summaries {
        let records = ids.iter().filter_map(|id| self.batches.get(*id));
        Summaries {
            summaries: records.map(BatchSummary::of).collect(),
            malformed: Vec::new(),
        }
    }

    /// An operator receives messages.
    pub fn receive(&mut self, queue: OperatorQueue, invisible_for: Duration) -> Vec<Received> {
        let until_ms = self.now_ms + invisible_for.as_millis() as u64;
        let (now_ms, start, rng) = (self.now_ms, self.plan.start, &mut self.rng);
        let mut messages = Vec::new();
        match queue {
            OperatorQueue::Input(_) => {}
            OperatorQueue::DeadLetters(number) => {
                for one in self.dead[number].receive(now_ms, until_ms, 10, rng) {
                    let sent = &self.ledger.messages[one.body];
                    let attributes = sent.attributes.as_ref().map(|all| all.to_map());
                    messages.push(Received {
                        message_id: sent.sqs_message_id.to_string(),
                        receipt: one.receipt.to_string(),
                        body: sent.body.as_ref().to_owned(),
                        attributes: attributes.unwrap_or_default(),
                        first_received_at: Some(sent.sent_at.as_ms()),
                        sent_at: Some(sent.sent_at.as_ms()),
                    });
                }
            }
            OperatorQueue::Quarantine => {
                for one in self.quarantined.receive(now_ms, until_ms, 10, rng) {
                    let (arrived_ms, message) = &one.body;
                    let arrived_at = start + Duration::from_millis(*arrived_ms);
                    messages.push(Received {
                        message_id: format!("q{}", one.receipt),
                        receipt: one.receipt.to_string(),
                        body: message.body.as_ref().to_owned(),
                        attributes: packed(message).attributes,
                        first_received_at: None,
                        sent_at: Some(arrived_at.as_ms()),
                    });
                }
            }
        }
        messages
    }

    /// An operator sends a message to an input queue. Returns whether the operator gets a reply.
    pub fn send_by_operator(
        &mut self,
        queue: OperatorQueue,
        body: &str,
        attributes: &AttributeMap,
    ) -> bool {
        let OperatorQueue::Input(number) = queue else {
            return true;
        };
        let is_lost = self.rng.u8(..) < REPLIES_LOST && self.ledger.replies_lost < REPLIES_LOST_MAX;
        self.ledger.replies_lost += u32::from(is_lost);
        if is_lost && self.rng.bool() {
            return false;
        }
        let (id, now) = (self.ledger.next_message_id(), self.now());
        let same = self.ledger.messages.iter().find(|sent| *sent.body == *body);
        let mut again = match same {
            Some(same) => same.again(id.clone()),
            // Such as one that was edited by hand.
            None => Sent {
                bad: false,
                ..burst::unread(id.clone(), source(number), body.to_owned(), now)
            },
        };
        again.source = source(number);
        again.attributes = MessageAttributes::of(attributes.clone());
        match self.plan.id_kind {
            // The body says it, and so does the message that was found by it.
            IdKind::Json => {}
            IdKind::Attribute => {
                let id = attributes.get("id");
                again.name = id.and_then(|id| id.string_value.clone());
            }
            IdKind::MessageId => again.name = Some(id.to_string()),
        }
        again.event_id = burst::event_id(&self.plan, &again.source, again.name.as_deref());
        again.sent_at = now;
        self.note("redriven", || format!("{id} to source {number}: {body}"));
        self.ledger.redriven.insert(Arc::from(body));
        let index = self.ledger.add_message(again);
        let now_ms = self.now_ms;
        self.inputs[number].send(index, now_ms);
        self.poll_by(number, now_ms + 1);
        !is_lost
    }

    pub fn delete_by_operator(&mut self, queue: OperatorQueue, receipt: u64) {
        let body = match queue {
            OperatorQueue::Input(_) => return,
            OperatorQueue::DeadLetters(number) => {
                let Some(index) = self.dead[number].delete(receipt) else {
                    return;
                };
                // From now on the promises are checked for the new message instead.
                self.ledger.messages[index].reported = true;
                self.ledger.messages[index].body.clone()
            }
            OperatorQueue::Quarantine => match self.quarantined.delete(receipt) {
                Some((_, message)) => message.body,
                None => return,
            },
        };
        let was_sent = self.ledger.redriven.contains(&body);
        self.check(checks::p1_what_is_redriven_was_sent(&body, was_sent));
    }

    /// An operator makes a message visible again.
    pub fn give_back(&mut self, queue: OperatorQueue, receipt: u64) {
        let now_ms = self.now_ms;
        match queue {
            OperatorQueue::Input(_) => {}
            OperatorQueue::DeadLetters(number) => self.dead[number].set_visible(receipt, now_ms),
            OperatorQueue::Quarantine => self.quarantined.set_visible(receipt, now_ms),
        }
    }
}
