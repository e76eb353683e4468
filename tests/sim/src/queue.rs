//! A standard SQS queue: it delivers every message at least once, in any order.

use fastrand::Rng;
use shared::ports::QueueDepth;

/// A queue of messages that an operator works with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OperatorQueue {
    /// The input queue of a source.
    Input(usize),
    /// Its dead-letter queue.
    DeadLetters(usize),
    Quarantine,
}

#[derive(Clone, Debug)]
pub struct Received<T> {
    /// The receipt of this receive.
    pub receipt: u64,
    pub body: T,
    /// How often the message was received, this time included.
    pub receives: u32,
}

#[derive(Debug)]
struct Waiting<T> {
    number: u64,
    body: T,
    visible_at_ms: u64,
    receives: u32,
}

#[derive(Debug)]
pub struct Queue<T> {
    messages: Vec<Waiting<T>>,
    number: u64,
    receives_max: u32,
    /// Messages that were received too often: the dead letters.
    pub dead_letters: Vec<T>,
}

impl<T: Clone> Queue<T> {
    pub fn new(receives_max: u32) -> Queue<T> {
        Queue {
            messages: Vec::new(),
            number: 0,
            receives_max,
            dead_letters: Vec::new(),
        }
    }

    pub fn send(&mut self, body: T, visible_at_ms: u64) {
        self.number += 1;
        self.messages.push(Waiting {
            number: self.number,
            body,
            visible_at_ms,
            receives: 0,
        });
    }

    /// Receives up to `max` visible messages in random order; they become visible again at `until_ms`.
    pub fn receive(
        &mut self,
        now_ms: u64,
        until_ms: u64,
        max: usize,
        rng: &mut Rng,
    ) -> Vec<Received<T>> {
        let receives_max = self.receives_max;
        let dead = |message: &mut Waiting<T>| {
            message.visible_at_ms <= now_ms && message.receives >= receives_max
        };
        let dead = self.messages.extract_if(.., dead);
        self.dead_letters.extend(dead.map(|message| message.body));
        let mut visible: Vec<usize> = (0..self.messages.len())
            .filter(|index| self.messages[*index].visible_at_ms <= now_ms)
            .collect();
        rng.shuffle(&mut visible);
        visible.truncate(max);
        visible
            .into_iter()
            .map(|index| {
                let message = &mut self.messages[index];
                message.visible_at_ms = until_ms;
                message.receives += 1;
                Received {
                    receipt: message.number,
                    body: message.body.clone(),
                    receives: message.receives,
                }
            })
            .collect()
    }

    /// Deletes a message; returns it, if it was there.
    pub fn delete(&mut self, receipt: u64) -> Option<T> {
        let found = |message: &Waiting<T>| message.number == receipt;
        let index = self.messages.iter().position(found)?;
        Some(self.messages.remove(index).body)
    }

    /// Makes a message visible at another time.
    pub fn set_visible(&mut self, receipt: u64, at_ms: u64) {
        let found = |message: &&mut Waiting<T>| message.number == receipt;
        if let Some(message) = self.messages.iter_mut().find(found) {
            message.visible_at_ms = at_ms;
        }
    }

    /// Returns when the next message becomes visible, if there is one.
    pub fn next_visible_ms(&self) -> Option<u64> {
        self.messages.iter().map(|one| one.visible_at_ms).min()
    }

    /// Returns how many messages the queue holds. A message that is invisible and was never received is not counted: it
    /// was deleted and will be delivered again by a fault. Delayed messages are not counted because input queues have
    /// none.
    pub fn depth(&self, now_ms: u64) -> QueueDepth {
        let (visible, others): (Vec<_>, Vec<_>) = self
            .messages
            .iter()
            .partition(|message| message.visible_at_ms <= now_ms);
        let received = others.iter().filter(|message| message.receives > 0);
        QueueDepth {
            visible: visible.len() as u64,
            in_flight: received.count() as u64,
            delayed: 0,
        }
    }

    /// Drops every message, as SQS does at the end of the retention period. Returns the messages.
    pub fn forget(&mut self) -> Vec<T> {
        let messages = std::mem::take(&mut self.messages);
        messages.into_iter().map(|message| message.body).collect()
    }

    /// Returns every message, visible or not.
    pub fn all(&self) -> impl Iterator<Item = &T> {
        self.messages.iter().map(|message| &message.body)
    }

    /// Returns whether there is no message, visible or not.
    pub fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_comes_back_until_it_is_deleted_or_a_dead_letter() {
        let rng = &mut Rng::with_seed(1);
        let mut queue = Queue::new(2);
        queue.send('a', 0);
        assert_eq!(queue.receive(0, 10, 5, rng).len(), 1);
        assert_eq!(queue.receive(9, 20, 5, rng).len(), 0);
        assert_eq!(queue.receive(10, 20, 5, rng).len(), 1);
        assert_eq!(queue.receive(20, 30, 5, rng).len(), 0);
        assert_eq!(queue.dead_letters, ['a']);
        queue.send('b', 0);
        let receipt = queue.receive(0, 10, 5, rng)[0].receipt;
        queue.delete(receipt);
        assert!(queue.is_empty());
    }
}
