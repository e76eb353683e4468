//! Happenings days after everything has drained: tombstones and records have expired, and messages are sent again.

use std::time::Duration;

use crate::burst;
use crate::plan::IdKind;
use crate::queue::Queue;
use crate::world::World;
use crate::world::lock_table::live_seat;

/// Messages that are sent again after days, with new message ids.
const NEW_MAX: usize = 12;
/// How long queues keep messages.
const RETENTION_DAYS: u64 = 7;
/// Deleted messages that SQS delivers again.
const GHOSTS_MAX: usize = 4;

impl World {
    /// Adds a new message with the content of another; returns its position.
    fn resend(&mut self, index: usize) -> usize {
        let id = self.ledger.next_message_id();
        let mut again = self.ledger.messages[index].again(id);
        if self.plan.id_kind == IdKind::MessageId {
            again.name = Some(again.sqs_message_id.to_string());
            again.event_id = burst::event_id(&self.plan, &again.source, again.name.as_deref());
        }
        self.ledger.add_message(again)
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
        let is_live = |index: &usize| {
            let id = self.ledger.messages[*index].event_id.as_ref();
            // Everything has drained: no batch will deliver it.
            let item = id.and_then(|id| self.locks.get(id));
            item.is_some_and(|item| live_seat(&item).is_some())
        };
        let all = 0..self.ledger.messages.len();
        let (mut chosen, mut again): (Vec<usize>, Vec<usize>) = all.partition(is_live);
        again.retain(|index| !self.ledger.messages[*index].bad);
        self.rng.shuffle(&mut again);
        chosen.extend(again);
        chosen.truncate(NEW_MAX);
        let resent = chosen.into_iter().map(|index| self.resend(index));
        let mut sent: Vec<usize> = resent.collect();
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
