//! A budget of time: when to stop, and how to wait.

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
    pub fn has_time(&self) -> bool {
        self.clock.now() < self.stop_at || planted(Bug::DeadlineIgnored)
    }

    /// The same budget with another end.
    pub fn later(&self, by: Duration) -> Self {
        Budget {
            stop_at: self.stop_at + by,
            ..*self
        }
    }

    /// Waits before retry number `attempt`, counted from 1; returns `false` when there is no time left for it.
    pub async fn pause(&self, policy: RetryPolicy, attempt: u32) -> bool {
        let pause = policy.pause(attempt, self.entropy.jitter());
        if self.clock.now() + pause >= self.stop_at && !planted(Bug::DeadlineIgnored) {
            return false;
        }
        self.clock.sleep(pause).await;
        self.has_time()
    }

    /// Retries `call` while it is throttled or has no reply, as long as there is time.
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
            if !self.has_time() {
                return Err(unknown.unwrap_or(PortError::DeadlineReached));
            }
            let error = match call().await {
                Ok(value) => return Ok(value),
                Err(error) => error,
            };
            attempt += 1;
            if !error.retryable() || !self.pause(policy, attempt).await {
                // An earlier attempt without a reply may have taken effect, whatever the last one said.
                return Err(unknown.unwrap_or(error));
            }
            if matches!(error, PortError::Unknown { .. }) {
                unknown = Some(error);
            }
        }
    }

    /// Repeats `call` as its errors ask for: `retry_after` returns the shortest pause before another attempt, or `None`
    /// where another attempt would fail as well.
    ///
    /// # Errors
    /// The last error.
    pub async fn call_as_told<T, E, F>(
        &self,
        policy: RetryPolicy,
        mut call: impl FnMut(u32) -> F,
        retry_after: impl Fn(&E) -> Option<Duration>,
    ) -> Result<T, E>
    where
        F: Future<Output = Result<T, E>>,
    {
        let mut attempt = 0;
        loop {
            attempt += 1;
            let error = match call(attempt).await {
                Ok(value) => return Ok(value),
                Err(error) => error,
            };
            let Some(least) = retry_after(&error) else {
                return Err(error);
            };
            let pause = policy.pause(attempt, self.entropy.jitter()).max(least);
            if self.clock.now() + pause >= self.stop_at {
                return Err(error);
            }
            self.clock.sleep(pause).await;
        }
    }

    /// Asks again and again until `question` returns something; `None` when there is no time left.
    pub async fn poll<T, F>(
        &self,
        policy: RetryPolicy,
        mut question: impl FnMut() -> F,
    ) -> Option<T>
    where
        F: Future<Output = Option<T>>,
    {
        let mut attempt = 0;
        loop {
            if let Some(answer) = question().await {
                return Some(answer);
            }
            attempt += 1;
            if !self.pause(policy, attempt).await {
                return None;
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

    /// Reads a record and applies the write that `propose` makes of it; where somebody else wrote in between, again with the
    /// record as it then stands. Returns the record after the write, or the one for which there was nothing to write;
    /// `None` when there is no record.
    ///
    /// # Errors
    /// As [`call`](Self::call), and [`PortError::Throttled`] when others were first at every attempt.
    pub async fn update(
        &self,
        store: &dyn BatchStore,
        batch: BatchId,
        propose: impl Fn(&BatchRecord) -> Option<BatchWrite>,
    ) -> Result<Option<Box<BatchRecord>>, PortError> {
        let read = || store.read(batch);
        let mut record = self.call(RetryPolicy::CONTROL, read).await?.map(Box::new);
        let mut attempt = 0;
        loop {
            let Some(write) = record.as_deref().and_then(&propose) else {
                return Ok(record);
            };
            record = match self.write(store, batch, &write).await? {
                Written::Applied(record) => return Ok(Some(record)),
                Written::Refused(record) => record,
            };
            attempt += 1;
            if !self.pause(RetryPolicy::CONTROL, attempt).await {
                return Err(PortError::Throttled {
                    service: "batch table",
                    message: format!("batch {batch} was written by others at every attempt"),
                });
            }
        }
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

/// Runs futures, at most `limit` at once; returns their results in order of completion.
///
/// Takes the futures themselves and not a closure that makes them: a stream that holds such a closure across an
/// `await` is not provably `Send`. Source: <https://github.com/rust-lang/rust/issues/102211>.
pub async fn bounded<F: Future>(futures: Vec<F>, limit: usize) -> Vec<F::Output> {
    stream::iter(futures)
        .buffer_unordered(limit.max(1))
        .collect()
        .await
}

/// Joins lists into one.
pub fn joined<T>(lists: Vec<Vec<T>>) -> Vec<T> {
    let mut all = Vec::with_capacity(lists.iter().map(Vec::len).sum());
    for mut list in lists {
        all.append(&mut list);
    }
    all
}

/// How long one attempt may take: a quarter of the margin, so that a write, its settling read and its counts still
/// fit between the last start and the deadline.
pub fn attempt_timeout(deadline_margin: Duration) -> Duration {
    (deadline_margin / 4).min(protocol::limits::ATTEMPT_TIMEOUT_MAX)
}
