//! Random operations on a queue and on a model, which must agree.

use std::collections::{BTreeMap, BTreeSet};

use fastrand::Rng;

use super::*;

/// A queue, and a model that only knows the ids of its messages.
struct Pair {
    seed: u64,
    queue: Queue,
    model: BTreeSet<String>,
    /// The newest receipt handle of each message that was received.
    handles: BTreeMap<String, String>,
    random: Rng,
    now_ms: u64,
}

impl Pair {
    fn new(seed: u64) -> Pair {
        Pair {
            seed,
            queue: queue(QueueAttributes::default()),
            model: BTreeSet::new(),
            handles: BTreeMap::new(),
            random: Rng::with_seed(seed),
            now_ms: 0,
        }
    }

    fn step(&mut self, step: usize) {
        self.now_ms += self.random.u64(..3 * SECOND);
        match self.random.u64(..6) {
            0 | 1 => self.send(step.to_string()),
            2 | 3 => self.receive(),
            4 => self.delete(),
            _ => self.change_visibility(),
        }
        check_invariants(&self.queue);
    }

    fn send(&mut self, id: String) {
        let delay_ms = (self.random.u64(..2) == 0).then(|| self.random.u64(..20 * SECOND));
        let sent = self.queue.send(self.now_ms, content(&id), delay_ms);
        sent.unwrap();
        self.model.insert(id);
    }

    fn receive(&mut self) {
        let visibility_ms = Some(self.random.u64(..40 * SECOND));
        let options = ReceiveOptions {
            visibility_ms,
            ..up_to(1 + self.random.u64(..10) as usize)
        };
        for message in self.queue.receive(self.now_ms, options).unwrap().messages {
            assert!(
                self.model.contains(&message.message_id),
                "seed {}: a deleted message was received",
                self.seed
            );
            let handle = message.receipt_handle;
            self.handles.insert(message.message_id, handle);
        }
    }

    fn delete(&mut self) {
        if let Some((id, handle)) = self.handles.pop_first() {
            self.queue.delete(self.now_ms, &handle).unwrap();
            self.model.remove(&id);
        }
    }

    fn change_visibility(&mut self) {
        let Some(handle) = self.handles.values().next() else {
            return;
        };
        let timeout_ms = self.random.u64(..40 * SECOND);
        let queue = &mut self.queue;
        let changed = queue.change_visibility(self.now_ms, handle, timeout_ms);
        assert_eq!(changed, Ok(()), "seed {}", self.seed);
    }

    fn ids(&self) -> BTreeSet<String> {
        let entries = self.queue.entries.values();
        let ids = entries.map(|entry| entry.content.message_id.clone());
        ids.collect()
    }
}

#[test]
fn no_message_is_lost_and_no_deleted_message_is_received_under_random_operations() {
    for seed in 1..=20 {
        let mut pair = Pair::new(seed);
        for step in 0..2_000 {
            pair.step(step);
        }
        assert_eq!(pair.ids(), pair.model, "seed {seed}");
    }
}
