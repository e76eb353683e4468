//! The tasks that send a burst.
//!
//! Each task repeatedly waits for its turn, then until the next request is due, and sends it. The others wait for their
//! turn meanwhile, because later messages are not due earlier. A task that has its messages lets the next one have its
//! turn before it sends.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Mutex, mpsc};
use tokio::time::Instant;

use super::error::Unsent;
use super::feed::{Feed, Taken, TakenMessage};
use super::halt::Halt;
use super::queue::{Queue, Reply};
use super::send_failure::{self, ATTEMPTS_MAX, SendFailure};
use super::state::Left;
use super::tally::Tally;
use crate::workload::Workload;

/// The state that the tasks of one burst share.
pub(super) struct Burst {
    pub queue: Queue,
    pub workload: Workload,
    pub started: Instant,
    pub feed: Mutex<Feed>,
    pub halt: Halt,
    pub tally: Tally,
}

/// How a task ended.
#[derive(Default)]
pub(super) struct Ended {
    /// Messages that the task took and that are not acknowledged.
    pub left: Vec<Left>,
    pub failure: Option<Failure>,
}

/// The failed message that ended the burst.
pub(super) struct Failure {
    pub message: u64,
    pub cause: Unsent,
}

/// A message that a request did not deliver.
struct Undelivered {
    message: TakenMessage,
    failure: SendFailure,
}

impl Undelivered {
    fn left(&self) -> Left {
        Left {
            message: self.message.message,
            unsure: self.message.unsure || self.failure == SendFailure::RetryUnsure,
        }
    }
}

impl Burst {
    /// Runs one task: sends the next messages until there are none, or until the burst is stopped or fails. Says in
    /// `acknowledged` after each reply that there may be progress.
    pub async fn run(self: Arc<Self>, acknowledged: mpsc::UnboundedSender<()>) -> Ended {
        let mut ended = Ended::default();
        while let Some(taken) = self.take().await {
            self.send(taken.messages, &acknowledged, &mut ended).await;
            if ended.failure.is_some() {
                self.halt.stop();
            }
        }
        ended
    }

    /// Waits until the next request is due; returns its messages, or `None` if there are none, or the burst is stopped.
    async fn take(&self) -> Option<Taken> {
        let mut feed = self.feed.lock().await;
        if self.halt.is_stopped() {
            return None;
        }
        let taken = feed.peek(&self.workload, self.elapsed())?;
        if taken.at > self.elapsed() {
            tokio::select! {
                () = tokio::time::sleep_until(self.started + taken.at) => {}
                () = self.halt.stopped() => return None,
            }
        }
        feed.remove(&taken);
        Some(taken)
    }

    /// Sends some messages in one request, and retries those that failed.
    async fn send(
        &self,
        messages: Vec<TakenMessage>,
        acknowledged: &mpsc::UnboundedSender<()>,
        ended: &mut Ended,
    ) {
        let begun = self.elapsed();
        self.tally.begun(&messages, begun);
        let mut pending = messages;
        for attempt in 1.. {
            let Some(reply) = self.request(&pending).await else {
                // Aborted: the result of the request is unknown.
                let unsure = |message: &TakenMessage| Left {
                    message: message.message,
                    unsure: true,
                };
                return ended.left.extend(pending.iter().map(unsure));
            };
            let undelivered = self.settle(pending, &reply, begun);
            // The receiver lives as long as the tasks do.
            let _ = acknowledged.send(());
            let Some(cause) = reply.cause else { return };
            let given_up = undelivered
                .iter()
                .find(|each| each.failure == SendFailure::GiveUp);
            let exhausted = undelivered.first().filter(|_| attempt == ATTEMPTS_MAX);
            if let Some(each) = given_up.or(exhausted) {
                let message = each.message.message;
                ended.failure = Some(Failure { message, cause });
                return ended.left.extend(undelivered.iter().map(Undelivered::left));
            }
            let first = undelivered.first().map_or(0, |each| each.message.message);
            tracing::debug!(message = first, attempt, items_count = undelivered.len(), %cause, "retrying");
            tokio::select! {
                () = tokio::time::sleep(send_failure::wait(attempt, first)) => {}
                () = self.halt.stopped() => {
                    return ended.left.extend(undelivered.iter().map(Undelivered::left));
                }
            }
            let unsure = undelivered
                .iter()
                .filter(|each| each.failure == SendFailure::RetryUnsure);
            self.tally.retried(unsure.count() as u64);
            pending = undelivered.into_iter().map(|each| each.message).collect();
        }
    }

    /// Sends one request; returns `None` if the burst is aborted before the reply.
    async fn request(&self, messages: &[TakenMessage]) -> Option<Reply> {
        let bodies = messages
            .iter()
            .map(|each| self.workload.message(each.message).body);
        tokio::select! {
            reply = self.queue.send(bodies) => Some(reply),
            () = self.halt.aborted() => None,
        }
    }

    /// Counts the messages that were acknowledged, and returns the others.
    fn settle(
        &self,
        messages: Vec<TakenMessage>,
        reply: &Reply,
        begun: Duration,
    ) -> Vec<Undelivered> {
        let (mut delivered, mut undelivered) = (Vec::new(), Vec::new());
        for (message, failure) in messages.into_iter().zip(&reply.failures) {
            match failure {
                None => delivered.push(message),
                Some(failure) => undelivered.push(Undelivered {
                    message,
                    failure: *failure,
                }),
            }
        }
        self.tally.acknowledged(&delivered, begun, self.elapsed());
        undelivered
    }

    fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }
}
