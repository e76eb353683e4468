//! Sends a burst to a queue.
//!
//! Some tasks send requests of up to ten messages at the times of a [`Schedule`]. If a request fails, or an entry of it,
//! the task waits and retries. The SDK's own retries are switched off, so that every attempt is counted here.
//!
//! **A lost reply.** If there is no reply to a request, its messages may be in the queue all the
//! same. Sending them again may put them there twice, with two SQS message ids. The workload does not
//! include these copies; [`SendReport::resent_unsure`] says how many there may be. With
//! `ON_DUPLICATE=drop` the service drops them. With `requeue` it may deliver them, and the audit then
//! reports them as repeated.
//!
//! **No coordinated omission.** A message that cannot be sent in time, because the queue is slow, is late. Its latency counts
//! from the time at which it was due. The latency from the beginning of its request, which hides this, is measured too.
//!
//! **The figures.** `seconds` is the time from the first request to the last reply, `per_second` the
//! rate of acknowledged messages, and `bytes` the sum of their bodies.

mod burst;
mod error;
mod feed;
mod halt;
mod queue;
mod rate;
mod report;
mod resume_file;
mod send_failure;
mod state;
mod tally;
mod trace;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Mutex, mpsc};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::schedule::Schedule;
use crate::workload::Workload;
use burst::{Burst, Ended};
pub use error::{SendError, Unsent};
use feed::Feed;
pub use halt::Halt;
use queue::Queue;
pub use rate::{RateReport, WorstSecond};
pub use report::{SendProgress, SendReport};
pub use resume_file::{ResumeFile, ResumeFileError};
pub use state::SendState;
use tally::Tally;
pub use trace::{TraceLog, TracedRequest};

/// How long a message waits for others that go into its request, unless configured. At 1,000 messages a second, requests
/// are full.
const LINGER_DEFAULT: Duration = Duration::from_millis(10);

/// How a burst is sent.
#[derive(Clone, Debug)]
pub struct SendOptions {
    /// The URL of the queue. The client's configuration decides which endpoint is called.
    pub queue_url: String,
    /// When messages are due. After a delay, messages that are overdue are sent at once.
    pub schedule: Schedule,
    /// The most requests in flight.
    pub concurrency: usize,
    /// A message waits only for others that are due less than this later.
    pub linger: Duration,
    /// Where an earlier run ended that this one continues.
    pub resume: SendState,
    /// If there is one, the messages of each request carry the trace header of a span of their own, and this gets the span.
    pub traces: Option<TraceLog>,
}

impl SendOptions {
    /// Returns options to send a whole burst as fast as the queue takes it, with 16 requests in flight.
    pub fn new(queue_url: impl Into<String>) -> Self {
        Self {
            queue_url: queue_url.into(),
            schedule: Schedule::default(),
            concurrency: 16,
            linger: LINGER_DEFAULT,
            resume: SendState::default(),
            traces: None,
        }
    }

    fn check(&self, messages: u64) -> Result<(), SendError> {
        if self.concurrency == 0 {
            return Err(SendError::Concurrency(0));
        }
        if let Some(arrivals) = self.schedule.limit().filter(|limit| *limit < messages) {
            return Err(SendError::Arrivals { arrivals, messages });
        }
        match self.resume.fits(messages) {
            true => Ok(()),
            false => Err(SendError::State {
                next: self.resume.next,
                messages,
            }),
        }
    }
}

/// How a burst ended that did not fail.
#[derive(Clone, Debug, PartialEq)]
pub struct Sent {
    pub report: SendReport,
    /// Where a later run can continue, if the burst was stopped before its end.
    pub rest: Option<SendState>,
}

/// Sends all messages of a workload, approximately in order.
///
/// Calls `progress` after replies, on the calling task. Uses the client's endpoint, credentials and connections, but not
/// its retry and timeout settings. Dropping the future stops the burst.
///
/// # Errors
/// [`SendError::Unsent`] if any message could not be sent. Calling `send` again would send all
/// messages again, unless the options continue from the error's state.
pub async fn send(
    client: &aws_sdk_sqs::Client,
    workload: &Workload,
    options: &SendOptions,
    progress: &(dyn Fn(SendProgress) + Send + Sync),
) -> Result<SendReport, SendError> {
    let sent = send_until(client, workload, options, &Halt::new(), progress).await?;
    Ok(sent.report)
}

/// As [`send`], but ends early when `halt` says so.
///
/// # Errors
/// As [`send`].
pub async fn send_until(
    client: &aws_sdk_sqs::Client,
    workload: &Workload,
    options: &SendOptions,
    halt: &Halt,
    progress: &(dyn Fn(SendProgress) + Send + Sync),
) -> Result<Sent, SendError> {
    options.check(workload.len())?;
    let SendOptions {
        schedule,
        linger,
        resume,
        ..
    } = options;
    let (left, schedule) = (resume.left(), schedule.clone());
    let feed = Feed::new(left, resume.next, workload.len(), schedule, *linger);
    let burst = Arc::new(Burst {
        queue: Queue::new(client, &options.queue_url, options.traces.clone()),
        workload: workload.clone(),
        started: Instant::now(),
        feed: Mutex::new(feed),
        halt: halt.clone(),
        tally: Tally::default(),
    });
    let (acknowledged, mut replies) = mpsc::unbounded_channel();
    let mut tasks = JoinSet::new();
    for _ in 0..options.concurrency {
        tasks.spawn(burst.clone().run(acknowledged.clone()));
    }
    drop(acknowledged);
    while let Some(()) = replies.recv().await {
        // Many replies may have come since the last look.
        while replies.try_recv().is_ok() {}
        let (acknowledged, retries, resent_unsure) = burst.tally.progress();
        progress(SendProgress {
            acknowledged: resume.acknowledged() + acknowledged,
            retries: resume.retries + retries,
            resent_unsure: resume.resent_unsure + resent_unsure,
        });
    }
    let elapsed = burst.started.elapsed();
    let ended = tasks.join_all().await;
    finish(&burst, resume, elapsed, ended).await
}

/// Puts together what the tasks of a run did.
async fn finish(
    burst: &Burst,
    earlier: &SendState,
    elapsed: Duration,
    ended: Vec<Ended>,
) -> Result<Sent, SendError> {
    let workload = &burst.workload;
    let feed = burst.feed.lock().await;
    let counts = burst.tally.counts();
    let mut left: Vec<_> = feed.left().collect();
    let mut failure = None;
    for task in ended {
        left.extend(task.left);
        failure = failure.or(task.failure);
    }
    let mut state = SendState {
        next: feed.next,
        bytes: earlier.bytes + counts.bytes,
        retries: earlier.retries + counts.retries,
        resent_unsure: earlier.resent_unsure + counts.resent_unsure,
        ..SendState::default()
    };
    state.set_left(left);
    let acknowledged = earlier.acknowledged() + counts.acknowledged;
    debug_assert_eq!(state.acknowledged(), acknowledged);
    if let Some(failure) = failure {
        return Err(SendError::Unsent {
            unsent: workload.len() - state.acknowledged(),
            messages: workload.len(),
            event_id: workload.message(failure.message).event_id,
            state: Box::new(state),
            cause: failure.cause,
        });
    }
    let (sent, seconds) = (state.acknowledged(), elapsed.as_secs_f64());
    let report = SendReport {
        complete: sent == workload.len(),
        messages: workload.len(),
        sent,
        sent_earlier: earlier.acknowledged(),
        unsure: state.unsure.len() as u64,
        unique: workload.unique(),
        duplicates: workload.duplicates(),
        seconds,
        per_second: counts.acknowledged as f64 / seconds.max(1e-9),
        bytes: state.bytes,
        requests: counts.requests,
        retries: state.retries,
        resent_unsure: state.resent_unsure,
        rate: counts.times.compare(&feed.schedule, earlier.next),
        latencies: counts.latencies(),
    };
    let rest = (!report.complete).then_some(state);
    Ok(Sent { report, rest })
}
