//! Random operations on a queue and on a model, which must agree.

use std::collections::{BTreeMap, BTreeSet};

use super::*;

/// A queue, and a model that only knows the ids of its messages.
struct Pair {
    seed: u64,
    queue: Queue,
    model: BTreeSet<String>,
    /// The newest receipt handle of each message that was received.
    handles: BTreeMap<String, String>,
    random: Random,
    now_ms: u64,
}

impl Pair {
    fn new(seed: u64) -> Pair {
        Pair {
            seed,
            queue: queue(QueueAttributes::default()),
            model: BTreeSet::new(),
            handles: BTreeMap::new(),
            random: Random(seed),
            now_ms: 0,
        }
    }

    fn step(&mut self, step: usize) {
        self.now_ms += self.random.below(3 * SECOND);
        match self.random.below(6) {
            0 | 1 => self.send(step.to_string()),
            2 | 3 => self.receive(),
            4 => self.delete(),
            _ => self.change_visibility(),
        }
        check_invariants(&self.queue);
    }

    fn send(&mut self, id: String) {
        let delay_ms = (self.random.below(2) == 0).then(|| self.random.below(20 * SECOND));
        let sent = self.queue.send(self.now_ms, content(&id), delay_ms);
        sent.unwrap();
        self.model.insert(id);
    }

    fn receive(&mut self) {
        let visibility_ms = Some(self.random.below(40 * SECOND));
        let options = ReceiveOptions {
            visibility_ms,
            ..up_to(1 + self.random.below(10) as usize)
        };
        for message in self.queue.receive(self.now_ms, options).unwrap().messages {
            assert!(
                self.model.contains(&message.message_id),
                "seed {}: a deleted message was received",
                self.seed
            );
            self.handles
                .insert(message.message_id, message.receipt_handle);
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
        let timeout_ms = self.random.below(40 * SECOND);
        let changed = self
            .queue
            .change_visibility(self.now_ms, handle, timeout_ms);
        assert_eq!(changed, Ok(()), "seed {}", self.seed);
    }

    fn ids(&self) -> BTreeSet<String> {
        let entries = self.queue.entries.values();
        entries
            .map(|entry| entry.content.message_id.clone())
            .collect()
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

/// SplitMix64, so that a seed gives the same run in every version of this crate.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ (mixed >> 31)) % bound
    }
}
