//! The set of queues: names, locks, long polling, and the way to a dead-letter queue.
//!
//! Locks: one mutex per queue, never two at a time, never held over an await. The map of queues may be looked into
//! while a queue is locked, hence no queue is locked while the map is.

mod queues;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::sync::Notify;
use tokio::time::Instant;
use uuid::Uuid;

use super::attributes::{QueueAttributes, arn_of_queue};
use super::error::SqsError;
use super::limits;
use super::message::{Content, Message, Outgoing};
use super::message_attribute::MessageAttribute;
use super::millis::ms;
use super::queue::{Depth, Queue, Take};
use super::repeats::Repeats;

/// An in-memory SQS: a handle, cheap to clone, to one set of queues.
///
/// Account 000000000000, region us-east-1. Every method judges as the service does; each error names what it refuses.
#[derive(Clone)]
pub struct Sqs(Arc<Shared>);

struct Shared {
    queues: RwLock<BTreeMap<String, Arc<Cell>>>,
    /// Epoch ms.
    clock: Box<dyn Fn() -> u64 + Send + Sync>,
}

struct Cell {
    state: Mutex<State>,
    /// Wakes one long poll at a time. Who wakes looks at the queue afresh, and wakes the next when it leaves; so a
    /// change needs one call, and whatever comes due next, some long poll sleeps no longer than until then.
    changed: Notify,
}

struct State {
    queue: Queue,
    /// Set when the queue is deleted, for those who still hold the cell.
    deleted: bool,
}

/// What a send answers.
#[derive(Clone, Debug)]
pub(super) struct Sent {
    pub(super) message_id: String,
    pub(super) md5_of_body: String,
    pub(super) md5_of_attributes: Option<String>,
}

/// A queue as `GetQueueAttributes` shows it.
#[derive(Clone, Debug)]
pub(super) struct Description {
    pub(super) attributes: QueueAttributes,
    pub(super) depth: Depth,
    pub(super) created_ms: u64,
    pub(super) modified_ms: u64,
}

impl Sqs {
    /// Makes an SQS without queues, on the wall clock.
    pub fn new() -> Self {
        Self::with_clock(|| SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, ms))
    }

    /// As [`Self::new`], on a clock of epoch ms. Long polls still sleep by the runtime's clock.
    pub(super) fn with_clock(clock: impl Fn() -> u64 + Send + Sync + 'static) -> Self {
        Self(Arc::new(Shared {
            queues: RwLock::default(),
            clock: Box::new(clock),
        }))
    }

    /// Receives up to `max` (1 to 10) messages, waiting up to `wait` (20 s at most) for the first; each is invisible
    /// for `visibility`, or as long as the queue says.
    ///
    /// Dropping the future before it is ready loses nothing.
    ///
    /// # Errors
    /// `QueueDoesNotExist`; `OutOfRange` for an argument; `OverLimit`, if `wait` is zero and 120,000 messages are in
    /// flight: it ends when some are deleted or visible again.
    pub async fn receive(
        &self,
        queue: &str,
        max: usize,
        wait: Duration,
        visibility: Option<Duration>,
    ) -> Result<Vec<Message>, SqsError> {
        let (min, secs_max) = (*limits::WAIT_SECS.start(), *limits::WAIT_SECS.end());
        if wait > Duration::from_secs(secs_max) {
            let value = wait.as_secs_f64().to_string();
            return Err(SqsError::OutOfRange {
                parameter: "WaitTimeSeconds",
                value,
                min,
                max: secs_max,
            });
        }
        let take = Take {
            max,
            visibility_ms: visibility.map(ms),
            redrivable: false,
            long_poll: !wait.is_zero(),
        };
        let cell = self.cell(queue)?;
        let (messages, _) = self.take(queue, &cell, take)?;
        if !messages.is_empty() || wait.is_zero() {
            return Ok(messages);
        }

        let deadline = Instant::now() + wait;
        // Declared before the wait for a change, so that it is dropped after it: a wake on leaving goes to another.
        let _wake_next = WakeNext(&cell.changed);
        loop {
            // Made before the look at the queue, so that no change in between is missed.
            let changed = cell.changed.notified();
            let (messages, due_in) = self.take(queue, &cell, take)?;
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

    /// Receives without waiting; also tells in how long the next message becomes visible by itself.
    fn take(
        &self,
        name: &str,
        cell: &Cell,
        take: Take,
    ) -> Result<(Vec<Message>, Option<Duration>), SqsError> {
        let now_ms = self.now_ms();
        let mut state = cell.lock();
        if state.deleted {
            return Err(does_not_exist(name));
        }
        let redrive = state.queue.attributes.redrive.as_ref();
        let dead_letter_cell =
            redrive.and_then(|redrive| self.cell(&redrive.dead_letter_queue).ok());
        let due_before_ms = state.queue.next_due_ms();
        let taken = state.queue.receive(
            now_ms,
            Take {
                redrivable: dead_letter_cell.is_some(),
                ..take
            },
        )?;
        let due_ms = state.queue.next_due_ms();
        drop(state);

        if due_ms.is_some_and(|due_ms| due_before_ms.is_none_or(|before_ms| due_ms < before_ms)) {
            cell.changed.notify_one();
        }
        // Between the two locks a dead letter is in neither queue's count; SQS promises approximate counts only.
        if let Some(dead_letter_cell) = dead_letter_cell
            && !taken.dead.is_empty()
        {
            let mut state = dead_letter_cell.lock();
            for letter in taken.dead {
                state.queue.accept(now_ms, letter);
            }
            drop(state);
            dead_letter_cell.changed.notify_one();
        }
        let due_in = due_ms.map(|due_ms| Duration::from_millis(due_ms.saturating_sub(now_ms)));
        Ok((taken.messages, due_in))
    }

    /// Deletes a message. `Ok` too if it is gone already, and if it was received again since: then it stays.
    ///
    /// # Errors
    /// `QueueDoesNotExist`; `ReceiptHandleIsInvalid` if the queue did not give the handle out.
    pub fn delete(&self, queue: &str, receipt_handle: &str) -> Result<(), SqsError> {
        self.with(queue, |queue, now_ms| queue.delete(now_ms, receipt_handle))?
    }

    /// As [`Self::delete`] for each handle, any number of them, with a result for each in order.
    ///
    /// # Errors
    /// `QueueDoesNotExist`.
    pub fn delete_batch(
        &self,
        queue: &str,
        receipt_handles: &[&str],
    ) -> Result<Vec<Result<(), SqsError>>, SqsError> {
        self.with(queue, |queue, now_ms| {
            receipt_handles
                .iter()
                .map(|handle| queue.delete(now_ms, handle))
                .collect()
        })
    }

    /// Makes a message in flight visible after `timeout` from now; zero means at once.
    ///
    /// # Errors
    /// `QueueDoesNotExist`; `ReceiptHandleIsInvalid`; `MessageUnavailable` if the message is gone or was received
    /// again since; `MessageNotInflight` if it is visible; `OutOfRange` over 12 h; `VisibilityBeyondLimit` over 12 h
    /// from the receive.
    pub fn change_visibility(
        &self,
        queue: &str,
        receipt_handle: &str,
        timeout: Duration,
    ) -> Result<(), SqsError> {
        self.with(queue, |queue, now_ms| {
            queue.change_visibility(now_ms, receipt_handle, ms(timeout))
        })?
    }

    /// Sends a message and answers its id; it is visible after `delay`, or after the queue's.
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
            group_id: None,
        };
        let sent = self.send_batch(queue, [Ok(outgoing)])?.remove(0)?;
        Ok(sent.message_id)
    }

    /// Sends messages, with a result for each in order; what is refused already stays refused.
    pub(super) fn send_batch(
        &self,
        queue: &str,
        batch: impl IntoIterator<Item = Result<Outgoing, SqsError>>,
    ) -> Result<Vec<Result<Sent, SqsError>>, SqsError> {
        // Characters are judged and digests computed before the queue is locked.
        let judge = |outgoing: Outgoing| {
            let delay_ms = outgoing.delay_ms;
            Ok((outgoing.into_content(Uuid::now_v7().to_string())?, delay_ms))
        };
        let judged: Vec<_> = batch
            .into_iter()
            .map(|outgoing| outgoing.and_then(judge))
            .collect();
        self.with(queue, |queue, now_ms| {
            let mut send = |(content, delay_ms): (Content, _)| {
                let sent = Sent {
                    message_id: content.message_id.clone(),
                    md5_of_body: content.md5_of_body.clone(),
                    md5_of_attributes: content.md5_of_attributes.clone(),
                };
                queue.send(now_ms, content, delay_ms).map(|()| sent)
            };
            judged
                .into_iter()
                .map(|judged| judged.and_then(&mut send))
                .collect()
        })
    }

    /// Delivers some messages of a queue again although they are in flight; `None` ends that.
    ///
    /// # Errors
    /// `QueueDoesNotExist`.
    pub fn set_repeats(&self, queue: &str, repeats: Option<Repeats>) -> Result<(), SqsError> {
        self.with(queue, |queue, _now_ms| queue.repeats = repeats)
    }

    /// Counts a queue's messages, exactly.
    ///
    /// # Errors
    /// `QueueDoesNotExist`.
    pub fn depth(&self, queue: &str) -> Result<Depth, SqsError> {
        self.describe(queue).map(|description| description.depth)
    }

    /// The ARN a queue of this name has.
    pub fn arn(&self, queue: &str) -> String {
        arn_of_queue(queue)
    }

    /// A queue's settings.
    ///
    /// # Errors
    /// `QueueDoesNotExist`.
    pub fn attributes(&self, queue: &str) -> Result<QueueAttributes, SqsError> {
        self.describe(queue)
            .map(|description| description.attributes)
    }

    /// A queue's settings, counts and stamps.
    pub(super) fn describe(&self, queue: &str) -> Result<Description, SqsError> {
        let cell = self.cell(queue)?;
        let now_ms = self.now_ms();
        let mut state = cell.lock();
        let depth = state.queue.depth(now_ms);
        let Queue {
            attributes,
            created_ms,
            modified_ms,
            ..
        } = &state.queue;
        Ok(Description {
            attributes: attributes.clone(),
            depth,
            created_ms: *created_ms,
            modified_ms: *modified_ms,
        })
    }

    /// Changes a queue, then wakes a long poll to look at it.
    fn with<R>(
        &self,
        queue: &str,
        change: impl FnOnce(&mut Queue, u64) -> R,
    ) -> Result<R, SqsError> {
        let cell = self.cell(queue)?;
        let now_ms = self.now_ms();
        let mut state = cell.lock();
        if state.deleted {
            return Err(does_not_exist(queue));
        }
        let result = change(&mut state.queue, now_ms);
        drop(state);
        cell.changed.notify_one();
        Ok(result)
    }

    fn cell(&self, queue: &str) -> Result<Arc<Cell>, SqsError> {
        let queues = self.0.queues.read().unwrap_or_else(PoisonError::into_inner);
        queues
            .get(queue)
            .cloned()
            .ok_or_else(|| does_not_exist(queue))
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

impl Cell {
    fn new(queue: Queue) -> Self {
        Self {
            state: Mutex::new(State {
                queue,
                deleted: false,
            }),
            changed: Notify::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Wakes another long poll when this one leaves, for whatever reason: with messages, without, or dropped.
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
