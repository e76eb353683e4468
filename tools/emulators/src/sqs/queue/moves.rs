//! Moves of messages between queues: to a dead-letter queue after too many receives, and out of it by a move task.

use super::{DeadLetter, Entry, HAS_ENTRY, MessageState, Queue};

impl Queue {
    /// Adds a message from another queue to this dead-letter queue. It is visible at once. It keeps the time when it was sent,
    /// its receive count and the time of its first receive. The redrive policy of this queue, if it has one, counts from zero.
    pub(in crate::sqs) fn accept(&mut self, now_ms: u64, DeadLetter(entry): DeadLetter) {
        self.advance(now_ms);
        self.insert(Entry {
            receive_count: 0,
            receive_count_before: entry.receive_count_before + entry.receive_count,
            // The fault is one of the other queue.
            duplicate_due: false,
            state: MessageState::Visible { since_ms: now_ms },
            ..entry
        });
    }

    /// Adds a message that a move task took out of a dead-letter queue. To SQS it is a new message: it has another id, it was
    /// sent now, and it was never received. It is visible at once.
    ///
    /// Source: <https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-configure-dead-letter-queue-redrive.html>
    pub(in crate::sqs) fn accept_redriven(
        &mut self,
        now_ms: u64,
        letter: DeadLetter,
        message_id: String,
    ) {
        self.advance(now_ms);
        let mut content = letter.0.content;
        content.message_id = message_id;
        let state = MessageState::Visible { since_ms: now_ms };
        self.insert(Entry::new(content, now_ms, state));
    }

    /// Returns where the visible message that a receive would deliver first was moved from; `None` for a message that was sent
    /// to this queue. Returns `None` if no message is visible.
    pub(in crate::sqs) fn source_of_first_visible(&mut self, now_ms: u64) -> Option<Option<&str>> {
        self.advance(now_ms);
        let (_, key) = self.visible.first()?;
        let entry = self.entries.get(key).expect(HAS_ENTRY);
        Some(entry.dead_letter_source.as_deref())
    }

    /// Removes the visible message that a receive would deliver first.
    pub(in crate::sqs) fn take_first_visible(&mut self, now_ms: u64) -> Option<DeadLetter> {
        self.advance(now_ms);
        let (_, key) = self.visible.pop_first()?;
        Some(self.remove_popped(key))
    }

    /// Removes a message that was received too often and is no longer in the set of visible messages.
    pub(super) fn remove_dead_letter(&mut self, key: u64) -> DeadLetter {
        let mut letter = self.remove_popped(key);
        letter.0.dead_letter_source = Some(self.name.clone());
        letter
    }

    fn remove_popped(&mut self, key: u64) -> DeadLetter {
        let entry = self.entries.remove(&key).expect(HAS_ENTRY);
        self.by_age.remove(&(entry.sent_ms, key));
        DeadLetter(entry)
    }
}
