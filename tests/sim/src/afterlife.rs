//! Happenings days after everything has drained: tombstones and records have expired, and messages are sent again.

use std::time::Duration;

use protocol::claim::LockState;

use crate::burst;
use crate::ledger::Sent;
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
                // Everything has drained: no batch will deliver it.
                item.is_some_and(|(_, item)| matches!(item.state, LockState::Live { .. }))
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
