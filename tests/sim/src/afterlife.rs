//! Happenings after everything has drained: an operator redrives dead letters, and days later, when tombstones and
//! records have expired, messages are sent again.

use std::collections::BTreeSet;
use std::time::Duration;

use protocol::claim::{LockItem, LockState};
use protocol::ids::EventId;
use shared::quarantine_attributes::{of_producer, packed};

use crate::burst;
use crate::ledger::{Occurrence, Sent};
use crate::plan::IdKind;
use crate::queue::Queue;
use crate::world::World;

/// Messages that are sent again after days, with new message ids.
const NEW_MAX: usize = 12;
/// How long queues keep messages.
const RETENTION_DAYS: u64 = 7;
/// Deleted messages that SQS delivers again.
const GHOSTS_MAX: usize = 4;

impl World {
    /// Redrives dead letters and what was set aside; returns the positions of the new messages, which the caller sends.
    ///
    /// SQS gives them new message ids. With `EVENT_ID=message-id` an operator looks each dead letter up first, as the
    /// runbook says: a message whose event was claimed or is at the sink is not redriven.
    pub fn redrive(&mut self) -> Vec<usize> {
        let dead: Vec<usize> = self
            .inputs
            .iter_mut()
            .flat_map(|queue| std::mem::take(&mut queue.dead_letters))
            .collect();
        let mut sent = Vec::new();
        for index in dead {
            let letter = self.ledger.messages[index].clone();
            if self.plan.id_kind == IdKind::MessageId && self.was_processed(&letter) {
                self.note("dead letter deleted", || letter.sqs_message_id.to_string());
                continue;
            }
            // From now on the promises are checked for the new message instead.
            self.ledger.messages[index].reported = true;
            sent.push(self.resend(&letter));
        }
        sent.extend(self.redrive_quarantine());
        sent
    }

    /// Redrives the messages in the quarantine whose events are set aside, each event once, with the body and the message attributes that
    /// they have there.
    pub fn redrive_quarantine(&mut self) -> Vec<usize> {
        let mut redriven = BTreeSet::new();
        let mut sent = Vec::new();
        for message in std::mem::take(&mut self.quarantined) {
            let original = self.ledger.message(&message.sqs_message_id).cloned();
            let original = original.zip(message.event_id.clone());
            let is_redriven = |(original, id): &(Sent, EventId)| {
                let claims = self.ledger.occurrences.get(id).into_iter().flatten();
                let is_of_message =
                    |one: &&Occurrence| one.sqs_message_id == message.sqs_message_id;
                let is_set_aside = claims
                    .clone()
                    .filter(is_of_message)
                    .any(|one| one.set_aside)
                    && claims.clone().last().is_some_and(|one| one.set_aside);
                // What an operator edited, or what has no body any more, is another event.
                is_set_aside && *original.body == *message.body && redriven.insert(id.clone())
            };
            let Some((original, _)) = original.filter(is_redriven) else {
                self.quarantined.push(message);
                continue;
            };
            self.note("redriven", || message.sqs_message_id.to_string());
            let attributes = of_producer(&packed(&message).attributes);
            sent.push(self.resend(&original.with_attributes(attributes)));
        }
        sent
    }

    /// Returns whether the event of a dead letter is claimed, remembered, or at the sink.
    fn was_processed(&self, letter: &Sent) -> bool {
        let Some(id) = &letter.event_id else {
            return false;
        };
        let item = self.locks.get(id);
        let is_remembered = item.is_some_and(|item| !self.is_orphan(id, &item));
        is_remembered || self.ledger.given.contains_key(id)
    }

    /// Returns whether an item is a claim that no batch will deliver: everything has drained.
    fn is_orphan(&self, id: &EventId, item: &LockItem) -> bool {
        match item.state {
            LockState::Live { .. } => true,
            LockState::InChunk { batch, seq, .. } => {
                let claims = self.ledger.occurrences.get(id).into_iter().flatten();
                let mut of_seat =
                    claims.filter(|one| (one.seat.shard.batch, one.seat.seq) == (batch, seq));
                !of_seat.any(|one| one.delivered_at.is_some() || one.set_aside)
            }
            LockState::Tombstone { .. } => false,
        }
    }

    /// Adds a new message with the same content; returns its position.
    fn resend(&mut self, message: &Sent) -> usize {
        let index = self.ledger.messages.len();
        let mut again = message.clone();
        again.sqs_message_id = format!("m{index}").parse().expect("a short text is an id");
        if self.plan.id_kind == IdKind::MessageId {
            again.name = Some(again.sqs_message_id.to_string());
            again.event_id = burst::event_id(&self.plan, &again.source, again.name.as_deref());
        }
        again.acknowledged_at = None;
        again.reported = false;
        let id = again.sqs_message_id.clone();
        self.ledger.messages.push(again);
        self.ledger.by_id.insert(id, index);
        index
    }

    /// Lets days pass without invocations, and removes everything that has expired.
    pub fn stand_still(&mut self, days: u64) {
        for effect in self.schedule.drop_acts() {
            effect(self);
        }
        // No environment is left to receive the replies of these requests.
        self.schedule.drop_acts();
        self.polls.iter_mut().for_each(|poll| *poll = None);
        self.now_ms += Duration::from_secs(days * 24 * 3_600).as_millis() as u64;
        self.note("days passed", || days.to_string());
        self.expire_all(days);
        if days > RETENTION_DAYS {
            self.tickets.forget();
            let forgotten: Vec<usize> = self.inputs.iter_mut().flat_map(Queue::forget).collect();
            for index in forgotten {
                let message = &mut self.ledger.messages[index];
                // SQS says so in a metric. Nobody took the message off the queue, so no promise is about it.
                message.reported |= message.acknowledged_at.is_none();
            }
        }
    }

    /// Lets days pass as [`stand_still`](Self::stand_still) does. Returns the messages that are sent after that; messages
    /// whose event has an orphan come first.
    pub fn days_pass(&mut self, days: u64) -> Vec<usize> {
        self.stand_still(days);
        let live: Vec<usize> = (0..self.ledger.messages.len())
            .filter(|index| {
                let id = &self.ledger.messages[*index].event_id;
                let item = id.as_ref().and_then(|id| Some((id, self.locks.get(id)?)));
                item.is_some_and(|(id, item)| self.is_orphan(id, &item))
            })
            .collect();
        let mut again: Vec<usize> = (0..self.ledger.messages.len())
            .filter(|index| !live.contains(index) && !self.ledger.messages[*index].bad)
            .collect();
        self.rng.shuffle(&mut again);
        let mut chosen = live;
        chosen.extend(again);
        chosen.truncate(NEW_MAX);
        let mut sent = Vec::new();
        for index in chosen {
            let message = self.ledger.messages[index].clone();
            sent.push(self.resend(&message));
        }
        for index in 0..self.ledger.messages.len() - sent.len() {
            let was_deleted = self.ledger.messages[index].acknowledged_at.is_some();
            if was_deleted && sent.len() < NEW_MAX + GHOSTS_MAX && self.rng.u8(..) < 30 {
                self.note("ghost", || index.to_string());
                sent.push(index);
            }
        }
        sent
    }
}
