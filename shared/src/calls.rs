//! Calls with a budget: what is repeated, how long, and when it is given up.
//!
//! Every loop here ends by `stop_at`, the point of an invocation after which nothing new is started.

use std::future::Future;
use std::time::Duration;

use futures::stream::{self, StreamExt};
use protocol::batch::{BatchRecord, BatchWrite, already_applied};
use protocol::ids::BatchId;
use protocol::planted::{Bug, planted};
use protocol::retry::RetryPolicy;
use protocol::time::Timestamp;

use crate::ports::{BatchReply, BatchStore, Clock, Entropy, PortError};

/// When to stop, and how to wait: what every retry loop of one invocation shares.
#[derive(Clone, Copy)]
pub struct Budget<'a> {
    /// Time.
    pub clock: &'a dyn Clock,
    /// Jitter.
    pub entropy: &'a dyn Entropy,
    /// Nothing new is started at or after this time.
    pub stop_at: Timestamp,
}

impl Budget<'_> {
    /// Whether something new may be started.
    pub fn open(&self) -> bool {
        self.clock.now() < self.stop_at || planted(Bug::DeadlineIgnored)
    }

    /// The same budget with another end.
    pub fn later(&self, by: Duration) -> Self {
        Budget {
            stop_at: self.stop_at + by,
            ..*self
        }
    }

    /// Waits before repetition `attempt` (1 is the first); `false` when there is no time left for another attempt.
    pub async fn pause(&self, policy: RetryPolicy, attempt: u32) -> bool {
        let pause = policy.pause(attempt, self.entropy.jitter());
        if self.clock.now() + pause >= self.stop_at && !planted(Bug::DeadlineIgnored) {
            return false;
        }
        self.clock.sleep(pause).await;
        self.open()
    }

    /// Repeats `call` while it is throttled or unanswered and time is left.
    ///
    /// # Errors
    /// The last [`PortError`]; [`PortError::Unknown`] says that the call may have taken effect.
    pub async fn call<T, F>(
        &self,
        policy: RetryPolicy,
        mut call: impl FnMut() -> F,
    ) -> Result<T, PortError>
    where
        F: Future<Output = Result<T, PortError>>,
    {
        let mut attempt = 0;
        let mut unknown = None;
        loop {
            if !self.open() {
                return Err(unknown.unwrap_or(PortError::DeadlineReached));
            }
            let error = match call().await {
                Ok(value) => return Ok(value),
                Err(error) => error,
            };
            attempt += 1;
            if !error.retryable() || !self.pause(policy, attempt).await {
                // An earlier attempt without an answer may have taken effect, whatever the last one said.
                return Err(unknown.unwrap_or(error));
            }
            if matches!(error, PortError::Unknown { .. }) {
                unknown = Some(error);
            }
        }
    }

    /// Applies a write to a batch record; an earlier attempt whose reply was lost is recognised.
    ///
    /// # Errors
    /// As [`call`](Self::call).
    pub async fn write(
        &self,
        store: &dyn BatchStore,
        batch: BatchId,
        write: &BatchWrite,
    ) -> Result<Written, PortError> {
        let refused_by = match self
            .call(RetryPolicy::CONTROL, || store.write(batch, write))
            .await?
        {
            BatchReply::Applied(record) => return Ok(Written::Applied(record)),
            BatchReply::Refused(Some(record)) => Some(record),
            // Not every store shows the record that refused: whether there is none is for a read to say.
            BatchReply::Refused(None) => self
                .call(RetryPolicy::CONTROL, || store.read(batch))
                .await?
                .map(Box::new),
        };
        Ok(match refused_by {
            Some(record) if already_applied(&record, write) => Written::Applied(record),
            record => Written::Refused(record),
        })
    }
}

/// What became of a write to a batch record.
#[derive(Debug)]
pub enum Written {
    /// It is in force; the record as it stands.
    Applied(Box<BatchRecord>),
    /// Its condition does not hold; the record as it stands.
    Refused(Option<Box<BatchRecord>>),
}

/// Runs futures, at most `limit` at once; answers in order of completion.
///
/// Takes the futures themselves and not a closure that makes them: a stream that holds such a closure across an
/// `await` is not provably `Send`. Source: <https://github.com/rust-lang/rust/issues/102211>.
pub async fn bounded<F: Future>(futures: Vec<F>, limit: usize) -> Vec<F::Output> {
    stream::iter(futures)
        .buffer_unordered(limit.max(1))
        .collect()
        .await
}

/// One list of many, of which none is moved twice.
pub fn joined<T>(lists: Vec<Vec<T>>) -> Vec<T> {
    let mut all = Vec::with_capacity(lists.iter().map(Vec::len).sum());
    for mut list in lists {
        all.append(&mut list);
    }
    all
}

/// How long one attempt may take: a quarter of the margin, so that a write, its settling read and its account still
/// fit between the last start and the deadline.
pub fn attempt_timeout(deadline_margin: Duration) -> Duration {
    (deadline_margin / 4).min(protocol::limits::ATTEMPT_TIMEOUT_MAX)
}
