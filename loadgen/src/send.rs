//! Puts a burst into a queue.
//!
//! Tasks take turns at the next ten messages of the plan and send them in one request. An entry
//! that failed inside a successful reply, or a request that failed as a whole, is sent again after
//! a wait; the SDK's own retries are switched off, so that every attempt is counted here.
//!
//! **A lost reply.** When no answer comes, the messages may be in the queue all the same, and
//! sending them again puts them there twice, each time under its own SQS message id. The plan
//! knows nothing of these; [`SendReport::resent_unsure`] says how many there may be. For a service
//! that drops duplicates they are duplicates like any other; one that requeues them may rightly
//! deliver them, and an audit by that rule then calls them repeated.
//!
//! **The figures.** `seconds` runs from the first request to the last reply, `per_second` counts
//! messages acknowledged by the queue, `bytes` their bodies.

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

use crate::plan::{BODY_BYTES_MAX, Plan};
use send_failure::{ATTEMPTS_MAX, SendFailure};

/// Entries in one request, and bytes of them together.
///
/// Source: <https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/quotas-messages.html>
const REQUEST_ENTRIES_MAX: usize = 10;
const REQUEST_BYTES_MAX: usize = 1_048_576;
const _: () = assert!(BODY_BYTES_MAX <= REQUEST_BYTES_MAX);

/// A request without an answer for so long counts as lost.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// How a burst is sent.
#[derive(Clone, Debug)]
pub struct SendOptions {
    /// The queue, at whatever endpoint the client is configured for.
    pub queue_url: String,
    /// Messages per second, in requests of ten; `None` sends as fast as the queue takes them.
    /// A queue that falls behind is sent the arrears without delay.
    pub rate_per_second: Option<u64>,
    /// Requests in flight.
    pub concurrency: usize,
}

/// What was sent.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SendReport {
    /// Messages the queue acknowledged: all of the burst.
    pub sent: u64,
    /// Distinct events among them.
    pub unique: u64,
    /// Messages that repeat an earlier one.
    pub duplicates: u64,
    /// From the first request to the last reply.
    pub seconds: f64,
    /// Messages per second over that time.
    pub per_second: f64,
    /// The sum of the bodies.
    pub bytes: u64,
    /// Requests beyond the first for the same messages.
    pub retries: u64,
    /// Messages sent again although the queue may have taken them before.
    pub resent_unsure: u64,
}

/// Why a burst was not sent.
#[derive(Debug, thiserror::Error)]
pub enum SendError {
    /// No request could ever be in flight.
    #[error("send with concurrency `{0}`: allowed is 1 or more")]
    Concurrency(usize),
    /// No message would ever be due.
    #[error("send `{0}` messages per second: allowed is 1 or more, or no rate at all")]
    Rate(u64),
    /// Part of the burst is not known to be in the queue. The rest was not attempted: a burst with
    /// a hole cannot be audited.
    #[error("send `{unsent}` of `{messages}` messages, the first of them event `{event_id}`")]
    Unsent {
        /// Messages not acknowledged.
        unsent: u64,
        /// Messages of the burst.
        messages: u64,
        /// The event of a message that failed.
        event_id: String,
        /// What became of it.
        #[source]
        cause: Unsent,
    },
}

/// Why a message could not be sent.
#[derive(Debug, thiserror::Error)]
pub enum Unsent {
    /// The queue refused the message, or failed it time and again.
    #[error("the queue answered `{code}`: {message}")]
    Refused {
        /// The queue's error code.
        code: String,
        /// The queue's words.
        message: String,
    },
    /// The request as a whole failed, for good or time and again.
    #[error("{}", DisplayErrorContext(.0.as_ref()))]
    Request(Box<SdkError<SendMessageBatchError>>),
    /// The queue answered about other messages, but not about this one.
    #[error("the queue's answer does not mention it")]
    Unmentioned,
}

impl Unsent {
    /// Takes the first entry that no attempt will mend, else the first.
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

/// Sends all messages of a plan, in about their order.
///
/// `progress` is called with the number acknowledged so far, on the calling task. The client's
/// endpoint, credentials and connections are used; its retry and timeout settings are not.
/// Dropping the future stops the burst.
///
/// # Errors
/// [`SendError::Unsent`] if any message could not be sent; retrying is the caller's affair and
/// would send the others again.
pub async fn send(
    client: &aws_sdk_sqs::Client,
    plan: &Plan,
    options: &SendOptions,
    progress: &(dyn Fn(u64) + Send + Sync),
) -> Result<SendReport, SendError> {
    if options.concurrency == 0 {
        return Err(SendError::Concurrency(0));
    }
    if options.rate_per_second == Some(0) {
        return Err(SendError::Rate(0));
    }
    let burst = Arc::new(Burst::new(client, plan, options));
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
            unsent: plan.len() - sent,
            messages: plan.len(),
            event_id: plan.message(message).event_id,
            cause,
        });
    }
    debug_assert_eq!(sent, plan.len());
    Ok(SendReport {
        sent,
        unique: plan.unique(),
        duplicates: plan.duplicates(),
        seconds,
        per_second: sent as f64 / seconds.max(1e-9),
        bytes: sent * plan.config().size_bytes as u64,
        retries: burst.retries.load(Ordering::Relaxed),
        resent_unsure: burst.resent_unsure.load(Ordering::Relaxed),
    })
}

/// What the tasks of one burst share.
struct Burst {
    client: aws_sdk_sqs::Client,
    plan: Plan,
    queue_url: String,
    rate_per_second: Option<u64>,
    started: Instant,
    entries_per_request: u64,
    next: AtomicU64,
    stopped: AtomicBool,
    retries: AtomicU64,
    resent_unsure: AtomicU64,
}

/// A message that ended the burst.
struct Failure {
    message: u64,
    cause: Unsent,
}

/// What one request left to do.
struct Leftover {
    message: u64,
    failure: SendFailure,
}

impl Burst {
    fn new(client: &aws_sdk_sqs::Client, plan: &Plan, options: &SendOptions) -> Self {
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
        let fitting = REQUEST_BYTES_MAX / plan.config().size_bytes;
        Self {
            client: aws_sdk_sqs::Client::from_conf(config),
            plan: plan.clone(),
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

    /// One task: sends the next messages until there are none, or until a task has failed.
    async fn run(self: Arc<Self>, acknowledged: mpsc::UnboundedSender<u64>) -> Result<(), Failure> {
        while !self.stopped.load(Ordering::Relaxed) {
            let first = self
                .next
                .fetch_add(self.entries_per_request, Ordering::Relaxed);
            if first >= self.plan.len() {
                break;
            }
            if let Some(rate) = self.rate_per_second {
                let due = Duration::from_secs_f64(first as f64 / rate as f64);
                tokio::time::sleep_until(self.started + due).await;
            }
            let end = (first + self.entries_per_request).min(self.plan.len());
            if let Err(failure) = self.send_range(first..end, &acknowledged).await {
                self.stopped.store(true, Ordering::Relaxed);
                return Err(failure);
            }
        }
        Ok(())
    }

    /// Sends some messages, again and again where that may help.
    async fn send_range(
        &self,
        range: std::ops::Range<u64>,
        acknowledged: &mpsc::UnboundedSender<u64>,
    ) -> Result<(), Failure> {
        let first = range.start;
        let mut pending: Vec<u64> = range.collect();
        for attempt in 1.. {
            let (leftovers, cause) = self.request(&pending).await;
            let done = (pending.len() - leftovers.len()) as u64;
            // The receiver lives as long as the tasks do.
            let _ = acknowledged.send(done);
            let Some(cause) = cause else { break };
            let failed = leftovers
                .iter()
                .find(|left| left.failure == SendFailure::GiveUp);
            let exhausted = attempt == ATTEMPTS_MAX;
            if let Some(left) = failed.or(leftovers.first().filter(|_| exhausted)) {
                return Err(Failure {
                    message: left.message,
                    cause,
                });
            }
            if self.stopped.load(Ordering::Relaxed) {
                // Another task has failed, and its reason is the one to report.
                break;
            }
            let unsure = leftovers
                .iter()
                .filter(|left| left.failure == SendFailure::RetryUnsure);
            self.resent_unsure
                .fetch_add(unsure.count() as u64, Ordering::Relaxed);
            self.retries.fetch_add(1, Ordering::Relaxed);
            tracing::debug!(message = first, attempt, items_count = leftovers.len(), %cause, "retrying");
            pending = leftovers.iter().map(|left| left.message).collect();
            tokio::time::sleep(send_failure::wait(attempt, first)).await;
        }
        Ok(())
    }

    /// Sends one request; returns what is not acknowledged, and why (for the gravest of it).
    async fn request(&self, messages: &[u64]) -> (Vec<Leftover>, Option<Unsent>) {
        let entries = messages.iter().enumerate().map(|(position, message)| {
            SendMessageBatchRequestEntry::builder()
                .id(position.to_string())
                .message_body(self.plan.message(*message).body)
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
                let all = messages.iter().map(|message| Leftover {
                    message: *message,
                    failure,
                });
                return (all.collect(), Some(Unsent::Request(Box::new(error))));
            }
        };
        // Whatever the reply does not mention is not known to have arrived.
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
        let leftovers: Vec<_> = messages
            .iter()
            .zip(states)
            .filter_map(|(message, state)| {
                Some(Leftover {
                    message: *message,
                    failure: state?,
                })
            })
            .collect();
        let cause = (!leftovers.is_empty()).then(|| Unsent::from_entries(reply.failed()));
        (leftovers, cause)
    }
}
