//! Sends a burst to a queue.
//!
//! Each task repeatedly takes the next ten messages of the workload and sends them in one request. If a
//! request fails, or an entry of it, the sender waits and retries. The SDK's own retries are switched
//! off, so that every attempt is counted here.
//!
//! **A lost reply.** If there is no reply to a request, its messages may be in the queue all the
//! same. Sending them again may put them there twice, with two SQS message ids. The workload does not
//! include these copies; [`SendReport::resent_unsure`] says how many there may be. With
//! `ON_DUPLICATE=drop` the service drops them. With `requeue` it may deliver them, and the audit then
//! reports them as repeated.
//!
//! **The figures.** `seconds` is the time from the first request to the last reply, `per_second` the
//! rate of acknowledged messages, and `bytes` the sum of their bodies.

mod send_failure;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use aws_sdk_sqs::config::retry::RetryConfig;
use aws_sdk_sqs::config::timeout::TimeoutConfig;
use aws_sdk_sqs::error::{DisplayErrorContext, SdkError};
use aws_sdk_sqs::operation::send_message_batch::SendMessageBatchError;
use aws_sdk_sqs::types::{BatchResultErrorEntry, SendMessageBatchRequestEntry};
use serde::Serialize;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::workload::{BODY_BYTES_MAX, Workload};
use send_failure::{ATTEMPTS_MAX, SendFailure};

/// The most entries of a request, and the most bytes of all its entries.
///
/// Source: <https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/quotas-messages.html>
const REQUEST_ENTRIES_MAX: usize = 10;
const REQUEST_BYTES_MAX: usize = 1_048_576;
const _: () = assert!(BODY_BYTES_MAX <= REQUEST_BYTES_MAX);

/// How long to wait for the reply to a request before it counts as lost.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// How a burst is sent.
#[derive(Clone, Debug)]
pub struct SendOptions {
    /// The URL of the queue. The client's configuration decides which endpoint is called.
    pub queue_url: String,
    /// Messages per second, in requests of ten; `None` sends as fast as the queue takes them. After a
    /// delay, messages that are overdue are sent at once.
    pub rate_per_second: Option<u64>,
    /// The number of requests in flight.
    pub concurrency: usize,
}

/// The result of a burst that was sent completely.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SendReport {
    /// The number of messages that the queue acknowledged: all messages of the burst.
    pub sent: u64,
    /// The number of distinct events in the burst.
    pub unique: u64,
    /// The number of messages that repeat an earlier one.
    pub duplicates: u64,
    /// The time from the first request to the last reply, in seconds.
    pub seconds: f64,
    /// The average number of messages per second.
    pub per_second: f64,
    /// The total length of the bodies.
    pub bytes: u64,
    /// The number of requests that were retries.
    pub retries: u64,
    /// The number of messages that were sent again after a lost reply and may be in the queue twice.
    pub resent_unsure: u64,
}

/// Why a burst was not sent completely.
#[derive(Debug, thiserror::Error)]
pub enum SendError {
    /// The concurrency is 0, so no request could be sent.
    #[error("send the burst: wrong concurrency: got `{0}`, expected 1 or more")]
    Concurrency(usize),
    /// The rate is 0, so no message would ever be due.
    #[error(
        "send the burst: wrong rate: got `{0}` messages per second, expected 1 or more, or no rate"
    )]
    Rate(u64),
    /// A message could not be sent. Sending stopped there, because a burst with missing messages cannot
    /// be audited.
    #[error("send `{unsent}` of `{messages}` messages, the first of them event `{event_id}`")]
    Unsent {
        /// The number of messages that the queue did not acknowledge.
        unsent: u64,
        /// The number of messages of the burst.
        messages: u64,
        /// The event id of the message that failed.
        event_id: String,
        /// Why that message failed.
        #[source]
        cause: Unsent,
    },
}

/// Why a message could not be sent.
#[derive(Debug, thiserror::Error)]
pub enum Unsent {
    /// The queue returned an error for the message, at the last attempt or one that no retry can mend.
    #[error("the queue returned the error `{code}`: {message}")]
    Refused {
        /// The queue's error code.
        code: String,
        /// The queue's error message.
        message: String,
    },
    /// The whole request failed, at the last attempt or with an error that no retry can mend.
    #[error("{}", DisplayErrorContext(.0.as_ref()))]
    Request(Box<SdkError<SendMessageBatchError>>),
    /// The queue's reply has no result for the message.
    #[error("the queue's reply has no result for the message")]
    Unmentioned,
}

impl Unsent {
    /// Returns the error of the first entry that no retry can mend, or else of the first entry.
    fn from_entries(entries: &[BatchResultErrorEntry]) -> Self {
        let final_one = entries
            .iter()
            .find(|entry| send_failure::of_entry(entry) == SendFailure::GiveUp);
        match final_one.or(entries.first()) {
            Some(entry) => Self::Refused {
                code: entry.code().to_owned(),
                message: entry.message().unwrap_or("no message").to_owned(),
            },
            None => Self::Unmentioned,
        }
    }
}

/// Sends all messages of a workload, approximately in order.
///
/// Calls `progress` with the number of acknowledged messages so far, on the calling task. Uses the
/// client's endpoint, credentials and connections, but not its retry and timeout settings. Dropping
/// the future stops the burst.
///
/// # Errors
/// [`SendError::Unsent`] if any message could not be sent. Calling `send` again would send all
/// messages again.
pub async fn send(
    client: &aws_sdk_sqs::Client,
    workload: &Workload,
    options: &SendOptions,
    progress: &(dyn Fn(u64) + Send + Sync),
) -> Result<SendReport, SendError> {
    if options.concurrency == 0 {
        return Err(SendError::Concurrency(0));
    }
    if options.rate_per_second == Some(0) {
        return Err(SendError::Rate(0));
    }
    let burst = Arc::new(Burst::new(client, workload, options));
    let (acknowledged, mut reports) = mpsc::unbounded_channel();
    let mut tasks = JoinSet::new();
    for _ in 0..options.concurrency {
        tasks.spawn(burst.clone().run(acknowledged.clone()));
    }
    drop(acknowledged);
    let mut sent = 0;
    while let Some(count) = reports.recv().await {
        sent += count;
        progress(sent);
    }
    let seconds = burst.started.elapsed().as_secs_f64();
    let mut failure = None;
    for outcome in tasks.join_all().await {
        failure = failure.or(outcome.err());
    }
    if let Some(Failure { message, cause }) = failure {
        return Err(SendError::Unsent {
            unsent: workload.len() - sent,
            messages: workload.len(),
            event_id: workload.message(message).event_id,
            cause,
        });
    }
    debug_assert_eq!(sent, workload.len());
    Ok(SendReport {
        sent,
        unique: workload.unique(),
        duplicates: workload.duplicates(),
        seconds,
        per_second: sent as f64 / seconds.max(1e-9),
        bytes: sent * workload.config().size_bytes as u64,
        retries: burst.retries.load(Ordering::Relaxed),
        resent_unsure: burst.resent_unsure.load(Ordering::Relaxed),
    })
}

/// The state that the tasks of one burst share.
struct Burst {
    client: aws_sdk_sqs::Client,
    workload: Workload,
    queue_url: String,
    rate_per_second: Option<u64>,
    started: Instant,
    entries_per_request: u64,
    next: AtomicU64,
    stopped: AtomicBool,
    retries: AtomicU64,
    resent_unsure: AtomicU64,
}

/// The failed message that ended the burst.
struct Failure {
    message: u64,
    cause: Unsent,
}

/// A message that a request did not deliver.
struct Undelivered {
    message: u64,
    failure: SendFailure,
}

impl Burst {
    fn new(client: &aws_sdk_sqs::Client, workload: &Workload, options: &SendOptions) -> Self {
        let config = client
            .config()
            .to_builder()
            .retry_config(RetryConfig::disabled())
            .timeout_config(
                TimeoutConfig::builder()
                    .operation_attempt_timeout(REQUEST_TIMEOUT)
                    .build(),
            )
            .build();
        let fitting = REQUEST_BYTES_MAX / workload.config().size_bytes;
        Self {
            client: aws_sdk_sqs::Client::from_conf(config),
            workload: workload.clone(),
            queue_url: options.queue_url.clone(),
            rate_per_second: options.rate_per_second,
            started: Instant::now(),
            entries_per_request: fitting.min(REQUEST_ENTRIES_MAX) as u64,
            next: AtomicU64::new(0),
            stopped: AtomicBool::new(false),
            retries: AtomicU64::new(0),
            resent_unsure: AtomicU64::new(0),
        }
    }

    /// Runs one task: sends the next messages until there are none, or until any task has failed.
    async fn run(self: Arc<Self>, acknowledged: mpsc::UnboundedSender<u64>) -> Result<(), Failure> {
        while !self.stopped.load(Ordering::Relaxed) {
            let first = self
                .next
                .fetch_add(self.entries_per_request, Ordering::Relaxed);
            if first >= self.workload.len() {
                break;
            }
            if let Some(rate) = self.rate_per_second {
                let due = Duration::from_secs_f64(first as f64 / rate as f64);
                tokio::time::sleep_until(self.started + due).await;
            }
            let end = (first + self.entries_per_request).min(self.workload.len());
            if let Err(failure) = self.send_range(first..end, &acknowledged).await {
                self.stopped.store(true, Ordering::Relaxed);
                return Err(failure);
            }
        }
        Ok(())
    }

    /// Sends some messages in one request, and retries those that failed.
    async fn send_range(
        &self,
        range: std::ops::Range<u64>,
        acknowledged: &mpsc::UnboundedSender<u64>,
    ) -> Result<(), Failure> {
        let first = range.start;
        let mut pending: Vec<u64> = range.collect();
        for attempt in 1.. {
            let (undelivered, cause) = self.request(&pending).await;
            let done = (pending.len() - undelivered.len()) as u64;
            // The receiver lives as long as the tasks do.
            let _ = acknowledged.send(done);
            let Some(cause) = cause else { break };
            let failed = undelivered
                .iter()
                .find(|each| each.failure == SendFailure::GiveUp);
            let exhausted = attempt == ATTEMPTS_MAX;
            if let Some(each) = failed.or(undelivered.first().filter(|_| exhausted)) {
                return Err(Failure {
                    message: each.message,
                    cause,
                });
            }
            if self.stopped.load(Ordering::Relaxed) {
                // Another task has failed, and `send` reports the error of that task.
                break;
            }
            let unsure = undelivered
                .iter()
                .filter(|each| each.failure == SendFailure::RetryUnsure);
            self.resent_unsure
                .fetch_add(unsure.count() as u64, Ordering::Relaxed);
            self.retries.fetch_add(1, Ordering::Relaxed);
            tracing::debug!(message = first, attempt, items_count = undelivered.len(), %cause, "retrying");
            pending = undelivered.iter().map(|each| each.message).collect();
            tokio::time::sleep(send_failure::wait(attempt, first)).await;
        }
        Ok(())
    }

    /// Sends one request; returns the messages that were not acknowledged, and the most severe error.
    async fn request(&self, messages: &[u64]) -> (Vec<Undelivered>, Option<Unsent>) {
        let entries = messages.iter().enumerate().map(|(position, message)| {
            SendMessageBatchRequestEntry::builder()
                .id(position.to_string())
                .message_body(self.workload.message(*message).body)
                .build()
                .expect("an entry has its id and body")
        });
        let request = self
            .client
            .send_message_batch()
            .queue_url(&self.queue_url)
            .set_entries(Some(entries.collect()));
        let reply = match request.send().await {
            Ok(reply) => reply,
            Err(error) => {
                let failure = send_failure::of_request(&error);
                let all = messages.iter().map(|message| Undelivered {
                    message: *message,
                    failure,
                });
                return (all.collect(), Some(Unsent::Request(Box::new(error))));
            }
        };
        // A message without a result in the reply may or may not be in the queue.
        let mut states = vec![Some(SendFailure::RetryUnsure); messages.len()];
        let position = |id: &str| id.parse().ok().filter(|at: &usize| *at < messages.len());
        for at in reply
            .successful()
            .iter()
            .filter_map(|entry| position(entry.id()))
        {
            states[at] = None;
        }
        for entry in reply.failed() {
            if let Some(at) = position(entry.id()) {
                states[at] = Some(send_failure::of_entry(entry));
            }
        }
        let undelivered: Vec<_> = messages
            .iter()
            .zip(states)
            .filter_map(|(message, state)| {
                Some(Undelivered {
                    message: *message,
                    failure: state?,
                })
            })
            .collect();
        let cause = (!undelivered.is_empty()).then(|| Unsent::from_entries(reply.failed()));
        (undelivered, cause)
    }
}
