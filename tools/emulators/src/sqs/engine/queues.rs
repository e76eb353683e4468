//! Creates, changes, lists and deletes queues.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use uuid::Uuid;

use super::super::attributes::QueueAttributes;
use super::super::error::SqsError;
use super::super::limits;
use super::super::queue::Queue;
use super::{SharedQueue, Sqs, does_not_exist};
use crate::locked::locked;

impl Sqs {
    /// Creates a queue. Also returns `Ok` if it exists with the same attributes.
    ///
    /// # Errors
    /// `QueueNameExists` if it exists with other attributes, `InvalidQueueName`, `InvalidAttributeValue` (also for a
    /// dead-letter queue that does not exist), `NotImplemented` for a FIFO queue.
    pub fn create_queue(&self, name: &str, attributes: QueueAttributes) -> Result<(), SqsError> {
        attributes.check()?;
        self.create_or_compare(name, attributes.clone(), |existing| {
            existing.first_difference(&attributes)
        })
    }

    /// Creates a queue as [`Self::create_queue`] does, but compares only the attributes that the request names.
    pub(in crate::sqs) fn create_queue_from_wire(
        &self,
        name: &str,
        wire: &BTreeMap<String, String>,
    ) -> Result<(), SqsError> {
        let mut attributes = QueueAttributes::default();
        attributes.set(wire)?;
        self.create_or_compare(name, attributes, |existing| {
            let mut wanted = existing.clone();
            wanted.set(wire).ok()?;
            existing.first_difference(&wanted)
        })
    }

    fn create_or_compare(
        &self,
        name: &str,
        attributes: QueueAttributes,
        difference: impl FnOnce(&QueueAttributes) -> Option<&'static str>,
    ) -> Result<(), SqsError> {
        check_queue_name(name)?;
        self.check_redrive(&attributes)?;
        let now_ms = self.now_ms();
        let existing = {
            let mut queues = locked(&self.0.queues);
            match queues.get(name) {
                Some(existing) => existing.clone(),
                None => {
                    let (_, id) = Uuid::now_v7().as_u64_pair();
                    let queue = Queue::new(name, id, attributes, now_ms);
                    queues.insert(name.to_owned(), Arc::new(SharedQueue::new(queue)));
                    return Ok(());
                }
            }
        };
        let state = existing.lock();
        match difference(&state.queue.attributes) {
            None => Ok(()),
            Some(attribute) => Err(SqsError::QueueNameExists {
                queue: name.to_owned(),
                attribute,
            }),
        }
    }

    /// Changes the attributes that the request names.
    pub(in crate::sqs) fn set_attributes(
        &self,
        queue: &str,
        wire: &BTreeMap<String, String>,
    ) -> Result<(), SqsError> {
        let mut attributes = self.attributes(queue)?;
        attributes.set(wire)?;
        self.check_redrive(&attributes)?;
        // Set on the current attributes, because another request may have changed some since they were read.
        self.change(queue, |queue, now_ms| {
            queue.modified_ms = now_ms;
            queue.attributes.set(wire)
        })?
    }

    /// Deletes a queue and its messages. Its long polls return `QueueDoesNotExist`.
    pub(in crate::sqs) fn delete_queue(&self, queue: &str) -> Result<(), SqsError> {
        let removed = locked(&self.0.queues).remove(queue);
        let shared = removed.ok_or_else(|| does_not_exist(queue))?;
        shared.lock().deleted = true;
        shared.changed.notify_waiters();
        Ok(())
    }

    /// Deletes every message of a queue.
    pub(in crate::sqs) fn purge(&self, queue: &str) -> Result<(), SqsError> {
        self.change(queue, |queue, _now_ms| queue.purge())
    }

    /// Returns up to `max` names of queues, in order, that begin with `prefix` and follow `after`.
    pub(in crate::sqs) fn list(
        &self,
        prefix: &str,
        after: Option<&str>,
        max: usize,
    ) -> Vec<String> {
        let queues = locked(&self.0.queues);
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let following = queues.range::<str, _>((from, Bound::Unbounded));
        let names = following.map(|(name, _)| name);
        let listed = names.filter(|name| name.starts_with(prefix));
        listed.take(max).cloned().collect()
    }

    fn check_redrive(&self, attributes: &QueueAttributes) -> Result<(), SqsError> {
        match &attributes.redrive {
            Some(redrive) if self.find(&redrive.dead_letter_queue).is_err() => {
                Err(SqsError::InvalidAttributeValue {
                    name: "RedrivePolicy",
                    value: redrive.dead_letter_queue.clone(),
                    allowed: "a policy whose dead-letter queue exists".to_owned(),
                })
            }
            Some(_) | None => Ok(()),
        }
    }
}

fn check_queue_name(name: &str) -> Result<(), SqsError> {
    if name.ends_with(".fifo") {
        return Err(SqsError::NotImplemented {
            what: format!("FIFO queue `{name}`"),
        });
    }
    let allowed = name
        .bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'));
    if allowed && (1..=limits::QUEUE_NAME_CHARS_MAX).contains(&name.len()) {
        return Ok(());
    }
    Err(SqsError::InvalidQueueName {
        queue: name.to_owned(),
    })
}
