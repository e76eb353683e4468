//! A standard SQS queue: at least once, in no order.

use fastrand::Rng;
use shared::ports::QueueDepth;

/// A message of a queue, as received.
#[derive(Clone, Debug)]
pub struct Received<T> {
    /// The receipt of this receive.
    pub receipt: u64,
    /// The message.
    pub body: T,
    /// How often it was received, this time included.
    pub receives: u32,
}

#[derive(Debug)]
struct Waiting<T> {
    number: u64,
    body: T,
    visible_at_ms: u64,
    receives: u32,
}

/// A queue.
#[derive(Debug)]
pub struct Queue<T> {
    messages: Vec<Waiting<T>>,
    number: u64,
    receives_max: u32,
    /// Messages that were received too often.
    pub dead_letters: Vec<T>,
}

impl<T: Clone> Queue<T> {
    /// An empty queue.
    pub fn new(receives_max: u32) -> Queue<T> {
        Queue {
            messages: Vec::new(),
            number: 0,
            receives_max,
            dead_letters: Vec::new(),
        }
    }

    /// Adds a message.
    pub fn send(&mut self, body: T, visible_at_ms: u64) {
        self.number += 1;
        self.messages.push(Waiting {
            number: self.number,
            body,
            visible_at_ms,
            receives: 0,
        });
    }

    /// Takes up to `max` visible messages, any of them; they are visible again at `until_ms`.
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
        let dead: Vec<T> = self
            .messages
            .extract_if(.., dead)
            .map(|message| message.body)
            .collect();
        self.dead_letters.extend(dead);
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

    /// Deletes a message.
    pub fn delete(&mut self, receipt: u64) {
        self.messages.retain(|message| message.number != receipt);
    }

    /// Makes a message visible at another time.
    pub fn set_visible(&mut self, receipt: u64, at_ms: u64) {
        let found = |message: &&mut Waiting<T>| message.number == receipt;
        if let Some(message) = self.messages.iter_mut().find(found) {
            message.visible_at_ms = at_ms;
        }
    }

    /// When the next message becomes visible, if there is any.
    pub fn next_visible_ms(&self) -> Option<u64> {
        self.messages
            .iter()
            .map(|message| message.visible_at_ms)
            .min()
    }

    /// How many messages it holds. One that was never received and is not visible is a deleted one that will come back,
    /// of which the queue knows nothing: the only queue that is asked delays no messages.
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

    /// Drops every message: it was there for too long.
    pub fn forget(&mut self) {
        self.messages.clear();
    }

    /// Whether there is no message, visible or not.
    pub fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_comes_back_until_it_is_deleted_or_given_up() {
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
