//! The set of queues: finds queues by name, locks them, waits in long polls, and moves messages to dead-letter queues.
//!
//! Each queue has a mutex. No task holds two of them, or holds one across an await. The lock of the map of queues may be taken
//! while a queue is locked, so no queue is locked while the map is.

mod move_tasks;
mod queues;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::sync::Notify;
use tokio::time::Instant;
use uuid::Uuid;

use super::attributes::{QueueAttributes, arn_of_queue};
use super::duplicate_deliveries::DuplicateDeliveries;
use super::error::SqsError;
use super::message::{Content, Message, Outgoing};
use super::message_attribute::MessageAttribute;
use super::millis::ms;
use super::move_task::MoveTasks;
use super::queue::{Depth, Queue, ReceiveOptions};
use super::{limits, md5};
use crate::locked::locked;

/// An in-memory SQS. Clones are cheap and share one set of queues.
///
/// The account is 000000000000, the region us-east-1. Every method checks its arguments as the service does.
#[derive(Clone)]
pub struct Sqs(Arc<Shared>);

struct Shared {
    queues: Mutex<BTreeMap<String, Arc<SharedQueue>>>,
    /// Returns the time in epoch ms.
    clock: Box<dyn Fn() -> u64 + Send + Sync>,
}

struct SharedQueue {
    state: Mutex<State>,
    /// Wakes one long poll. A long poll that wakes checks the queue, and wakes another one when it returns. So one call after
    /// a change is enough, and some long poll always sleeps no longer than until the next message is due.
    changed: Notify,
}

struct State {
    queue: Queue,
    /// The tasks that move messages out of this queue.
    move_tasks: MoveTasks,
    /// Set when the queue is deleted, for tasks that still have a reference to it.
    deleted: bool,
}

/// Result of a send.
#[derive(Clone, Debug)]
pub(super) struct Sent {
    pub(super) message_id: String,
    pub(super) md5_of_body: String,
    pub(super) md5_of_attributes: Option<String>,
    pub(super) md5_of_system_attributes: Option<String>,
}

/// The values that `GetQueueAttributes` returns.
#[derive(Clone, Debug)]
pub(super) struct Description {
    pub(super) attributes: QueueAttributes,
    pub(super) depth: Depth,
    pub(super) created_ms: u64,
    pub(super) modified_ms: u64,
}

impl Sqs {
    /// Makes an SQS without queues, which uses the system clock.
    pub fn new() -> Self {
        Self::with_clock(|| SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, ms))
    }

    /// Makes an SQS without queues, which uses a clock of epoch ms. Long polls sleep by the clock of Tokio.
    pub(super) fn with_clock(clock: impl Fn() -> u64 + Send + Sync + 'static) -> Self {
        Self(Arc::new(Shared {
            queues: Mutex::default(),
            clock: Box::new(clock),
        }))
    }

    /// Receives up to `max` (1 to 10) messages. Waits up to `wait` (at most 20 s) until there is one; returns none if there is
    /// none. Each message is invisible for `visibility` or, with `None`, for the visibility timeout of the queue.
    ///
    /// Dropping the future before it is ready receives no messages.
    ///
    /// # Errors
    /// `QueueDoesNotExist`; `OutOfRange` for an argument; `OverLimit` if `wait` is zero and 120,000 messages are in flight.
    /// Only `OverLimit` is worth a retry, after some messages were deleted or became visible again.
    pub async fn receive(
        &self,
        queue: &str,
        max: usize,
        wait: Duration,
        visibility: Option<Duration>,
    ) -> Result<Vec<Message>, SqsError> {
        if wait > Duration::from_secs(*limits::WAIT_SECS.end()) {
            let secs = wait.as_secs_f64();
            let range = limits::WAIT_SECS;
            return Err(SqsError::out_of_range("WaitTimeSeconds", secs, range));
        }
        let options = ReceiveOptions {
            max,
            visibility_ms: visibility.map(ms),
            redrivable: false,
            long_poll: !wait.is_zero(),
        };
        let shared = self.find(queue)?;
        let (messages, _) = self.receive_now(queue, &shared, options)?;
        if !messages.is_empty() || wait.is_zero() {
            return Ok(messages);
        }

        let deadline = Instant::now() + wait;
        // Declared before `changed`, so that it is dropped after it, and the wake goes to another long poll.
        let _wake_next = WakeNext(&shared.changed);
        loop {
            // Created before the queue is checked, so that no change in between is missed.
            let changed = shared.changed.notified();
            let (messages, due_in) = self.receive_now(queue, &shared, options)?;
            let now = Instant::now();
            if !messages.is_empty() || now >= deadline {
                return Ok(messages);
            }
            let until = due_in.map_or(deadline, |due_in| deadline.min(now + due_in));
            tokio::select! {
                () = changed => {}
                () = tokio::time::sleep_until(until) => {}
            }
        }
    }

    /// Receives without waiting. Also returns the time until the next delayed message or message in flight becomes visible.
    fn receive_now(
        &self,
        name: &str,
        shared: &SharedQueue,
        options: ReceiveOptions,
    ) -> Result<(Vec<Message>, Option<Duration>), SqsError> {
        let now_ms = self.now_ms();
        let mut state = shared.lock();
        if state.deleted {
            return Err(does_not_exist(name));
        }
        let redrive = state.queue.attributes.redrive.as_ref();
        let dead_letter_queue =
            redrive.and_then(|redrive| self.find(&redrive.dead_letter_queue).ok());
        let due_before_ms = state.queue.next_due_ms();
        let options = ReceiveOptions {
            redrivable: dead_letter_queue.is_some(),
            ..options
        };
        let received = state.queue.receive(now_ms, options)?;
        let due_ms = state.queue.next_due_ms();
        drop(state);

        if due_ms.is_some_and(|due_ms| due_before_ms.is_none_or(|before_ms| due_ms < before_ms)) {
            shared.changed.notify_one();
        }
        // Between the two locks, a moved message is counted in neither queue. SQS promises approximate counts only.
        if let Some(dead_letter_queue) = dead_letter_queue
            && !received.dead.is_empty()
        {
            let mut state = dead_letter_queue.lock();
            for letter in received.dead {
                state.queue.accept(now_ms, letter);
            }
            drop(state);
            dead_letter_queue.changed.notify_one();
        }
        let due_in = due_ms.map(|due_ms| Duration::from_millis(due_ms.saturating_sub(now_ms)));
        Ok((received.messages, due_in))
    }

    /// Deletes a message. Also returns `Ok` if the message no longer exists, and if it was received again: the handle is then
    /// outdated and deletes nothing.
    ///
    /// # Errors
    /// `QueueDoesNotExist`; `ReceiptHandleIsInvalid` if the queue did not issue the handle.
    pub fn delete(&self, queue: &str, receipt_handle: &str) -> Result<(), SqsError> {
        self.change(queue, |queue, now_ms| queue.delete(now_ms, receipt_handle))?
    }

    /// Deletes any number of messages as [`Self::delete`] does; returns the result of each handle, in order.
    ///
    /// # Errors
    /// `QueueDoesNotExist`.
    pub fn delete_batch(
        &self,
        queue: &str,
        receipt_handles: &[&str],
    ) -> Result<Vec<Result<(), SqsError>>, SqsError> {
        self.change(queue, |queue, now_ms| {
            let handles = receipt_handles.iter();
            handles.map(|handle| queue.delete(now_ms, handle)).collect()
        })
    }

    /// Sets when a message in flight becomes visible again: `timeout` from now, at once if it is zero. The handle of an earlier
    /// delivery will do. A message that is visible already stays so.
    ///
    /// # Errors
    /// `QueueDoesNotExist`; `ReceiptHandleIsInvalid`; `MessageUnavailable` if the message no longer exists; `OutOfRange` over
    /// 12 h; `VisibilityBeyondLimit` over 12 h from the receive.
    pub fn change_visibility(
        &self,
        queue: &str,
        receipt_handle: &str,
        timeout: Duration,
    ) -> Result<(), SqsError> {
        self.change(queue, |queue, now_ms| {
            queue.change_visibility(now_ms, receipt_handle, ms(timeout))
        })?
    }

    /// Sends a message; returns its id. The message is visible after `delay` or, with `None`, after the delay of the queue.
    ///
    /// # Errors
    /// `QueueDoesNotExist`; `OutOfRange` for a delay over 900 s; `MissingParameter` for an empty body;
    /// `InvalidMessageContents`, `MessageTooLong`, `TooManyMessageAttributes`, `InvalidMessageAttribute`.
    pub fn send(
        &self,
        queue: &str,
        body: String,
        delay: Option<Duration>,
        attributes: BTreeMap<String, MessageAttribute>,
    ) -> Result<String, SqsError> {
        let outgoing = Outgoing {
            body,
            attributes,
            delay_ms: delay.map(ms),
            ..Outgoing::default()
        };
        let sent = self.send_batch(queue, [Ok(outgoing)])?.remove(0)?;
        Ok(sent.message_id)
    }

    /// Sends messages; returns the result of each, in order. A message that is an error already keeps its error.
    pub(super) fn send_batch(
        &self,
        queue: &str,
        batch: impl IntoIterator<Item = Result<Outgoing, SqsError>>,
    ) -> Result<Vec<Result<Sent, SqsError>>, SqsError> {
        // Characters are checked and digests computed before the queue is locked.
        let check = |outgoing: Outgoing| {
            let (delay_ms, trace_header) = (outgoing.delay_ms, outgoing.trace_header.clone());
            let content = outgoing.into_content(Uuid::now_v7().to_string())?;
            let md5 = trace_header.and_then(|header| md5::of_trace_header(&header));
            Ok((content, delay_ms, md5))
        };
        let batch = batch.into_iter();
        let checked = Vec::from_iter(batch.map(|outgoing| outgoing.and_then(check)));
        self.change(queue, |queue, now_ms| {
            let mut send = |(content, delay_ms, md5_of_system_attributes): (Content, _, _)| {
                let sent = Sent {
                    message_id: content.message_id.clone(),
                    md5_of_body: content.md5_of_body.clone(),
                    md5_of_attributes: content.md5_of_attributes.clone(),
                    md5_of_system_attributes,
                };
                queue.send(now_ms, content, delay_ms).map(|()| sent)
            };
            let checked = checked.into_iter();
            checked.map(|checked| checked.and_then(&mut send)).collect()
        })
    }

    /// Turns on the fault that delivers messages of a queue again while they are in flight; `None` turns it off.
    ///
    /// # Errors
    /// `QueueDoesNotExist`.
    pub fn set_duplicate_deliveries(
        &self,
        queue: &str,
        duplicates: Option<DuplicateDeliveries>,
    ) -> Result<(), SqsError> {
        self.change(queue, |queue, _now_ms| {
            queue.duplicate_deliveries = duplicates
        })
    }

    /// Returns the exact number of messages in a queue, by state.
    ///
    /// # Errors
    /// `QueueDoesNotExist`.
    pub fn depth(&self, queue: &str) -> Result<Depth, SqsError> {
        Ok(self.describe(queue)?.depth)
    }

    /// Returns how long ago the oldest message of a queue was sent, visible or not; `None` if the queue is empty.
    ///
    /// # Errors
    /// `QueueDoesNotExist`.
    pub fn oldest_age(&self, queue: &str) -> Result<Option<Duration>, SqsError> {
        let shared = self.find(queue)?;
        let now_ms = self.now_ms();
        let state = shared.lock();
        let oldest = state.queue.by_age.first();
        Ok(oldest.map(|(sent_ms, _)| Duration::from_millis(now_ms.saturating_sub(*sent_ms))))
    }

    /// Returns the ARN of a queue of this name, whether or not it exists.
    pub fn arn(&self, queue: &str) -> String {
        arn_of_queue(queue)
    }

    /// Returns the attributes of a queue.
    ///
    /// # Errors
    /// `QueueDoesNotExist`.
    pub fn attributes(&self, queue: &str) -> Result<QueueAttributes, SqsError> {
        Ok(self.describe(queue)?.attributes)
    }

    /// Returns the attributes, counts and timestamps of a queue.
    pub(super) fn describe(&self, queue: &str) -> Result<Description, SqsError> {
        let shared = self.find(queue)?;
        let now_ms = self.now_ms();
        let mut state = shared.lock();
        Ok(Description {
            depth: state.queue.depth(now_ms),
            attributes: state.queue.attributes.clone(),
            created_ms: state.queue.created_ms,
            modified_ms: state.queue.modified_ms,
        })
    }

    /// Changes a queue, then wakes a long poll to check it.
    fn change<R>(
        &self,
        queue: &str,
        change: impl FnOnce(&mut Queue, u64) -> R,
    ) -> Result<R, SqsError> {
        let shared = self.find(queue)?;
        let now_ms = self.now_ms();
        let mut state = shared.lock();
        if state.deleted {
            return Err(does_not_exist(queue));
        }
        let result = change(&mut state.queue, now_ms);
        drop(state);
        shared.changed.notify_one();
        Ok(result)
    }

    fn find(&self, queue: &str) -> Result<Arc<SharedQueue>, SqsError> {
        let found = locked(&self.0.queues).get(queue).cloned();
        found.ok_or_else(|| does_not_exist(queue))
    }

    fn now_ms(&self) -> u64 {
        (self.0.clock)()
    }
}

impl Default for Sqs {
    fn default() -> Self {
        Self::new()
    }
}

impl SharedQueue {
    fn new(queue: Queue) -> Self {
        Self {
            state: Mutex::new(State {
                queue,
                move_tasks: MoveTasks::default(),
                deleted: false,
            }),
            changed: Notify::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        locked(&self.state)
    }
}

/// Wakes another long poll when this one returns or is dropped.
struct WakeNext<'a>(&'a Notify);

impl Drop for WakeNext<'_> {
    fn drop(&mut self) {
        self.0.notify_one();
    }
}

fn does_not_exist(queue: &str) -> SqsError {
    SqsError::QueueDoesNotExist {
        queue: queue.to_owned(),
    }
}

#[cfg(test)]
mod tests;
