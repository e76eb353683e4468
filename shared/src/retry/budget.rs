//! The time budget of an invocation, and the retry loops for single requests.

use std::future::Future;
use std::time::Duration;

use futures::stream::{self, StreamExt};
use protocol::batch::{BatchRecord, BatchWrite, already_applied};
use protocol::ids::BatchId;
use protocol::retry::RetryPolicy;
use protocol::time::Timestamp;

use crate::ports::{BatchReply, BatchStore, Clock, Entropy, PortError, Ports};

/// The time budget that all retry loops of one invocation share.
#[derive(Clone, Copy)]
pub struct Budget<'a> {
    pub clock: &'a dyn Clock,
    /// The source of jitter.
    pub entropy: &'a dyn Entropy,
    /// No request is started at or after this time.
    pub stop_at: Timestamp,
}

/// An invocation that began within `DEADLINE_MARGIN_MS` of its deadline, so that it can start no request at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`DEADLINE_MARGIN_MS`: as long as the timeout, or longer: got `{margin_ms}`, expected less than {left_ms}, the milliseconds \
     that the invocation had; nothing was started"
)]
pub struct NoTime {
    /// `DEADLINE_MARGIN_MS`.
    pub margin_ms: u64,
    /// The time from the start of the invocation to its deadline: the timeout of the function, as a rule.
    pub left_ms: u64,
}

impl<'a> Budget<'a> {
    /// Returns a budget with the clock and the entropy of `ports`.
    pub fn new(ports: &'a Ports, stop_at: Timestamp) -> Budget<'a> {
        Budget {
            clock: &*ports.clock,
            entropy: &*ports.entropy,
            stop_at,
        }
    }

    /// Returns whether a new request may be started.
    pub fn has_time(&self) -> bool {
        self.clock.now() < self.stop_at
    }

    /// Waits until there is no time left for a new request.
    pub async fn until_end(&self) {
        let left = self.clock.now().until(self.stop_at);
        self.clock.sleep(left).await;
    }

    /// Checks that an invocation has time for requests. It ends at `deadline`, and this budget `margin` before that.
    ///
    /// # Errors
    /// [`NoTime`]. A retry fails too if the margin is not below the timeout of the function.
    pub fn check_time(&self, deadline: Timestamp, margin: Duration) -> Result<(), NoTime> {
        if self.has_time() {
            return Ok(());
        }
        Err(NoTime {
            margin_ms: margin.as_millis() as u64,
            left_ms: self.clock.now().until(deadline).as_millis() as u64,
        })
    }

    /// Returns the budget with a `stop_at` that is later by `by`.
    pub fn later(&self, by: Duration) -> Self {
        Budget {
            stop_at: self.stop_at + by,
            ..*self
        }
    }

    /// Returns the budget for at most `longest` from now on.
    pub fn within(&self, longest: Duration) -> Self {
        Budget {
            stop_at: self.stop_at.min(self.clock.now() + longest),
            ..*self
        }
    }

    /// Returns the budget with half of the time that is left.
    pub fn half(&self) -> Self {
        let now = self.clock.now();
        Budget {
            stop_at: now + now.until(self.stop_at) / 2,
            ..*self
        }
    }

    /// Waits before retry number `attempt`, counted from 1. Returns `false` when there is no time left for the retry.
    pub async fn pause(&self, policy: RetryPolicy, attempt: u32) -> bool {
        let pause = policy.pause(attempt, self.entropy.jitter());
        if self.clock.now() + pause >= self.stop_at {
            return false;
        }
        self.clock.sleep(pause).await;
        self.has_time()
    }

    /// Waits before another attempt at what others do at this moment too, and counts it.
    ///
    /// # Errors
    /// [`PortError::DeadlineReached`] when there is no time left for it.
    pub async fn next_attempt(&self, attempt: &mut u32) -> Result<(), PortError> {
        self.next_attempt_by(RetryPolicy::CONTROL, attempt).await
    }

    /// As [`next_attempt`](Self::next_attempt), by another schedule.
    ///
    /// # Errors
    /// [`PortError::DeadlineReached`] when there is no time left for it.
    pub async fn next_attempt_by(
        &self,
        policy: RetryPolicy,
        attempt: &mut u32,
    ) -> Result<(), PortError> {
        *attempt += 1;
        match self.pause(policy, *attempt).await {
            true => Ok(()),
            false => Err(PortError::DeadlineReached),
        }
    }

    /// Calls `call`, and again while it is throttled or has no reply, as long as there is time.
    ///
    /// # Errors
    /// The last [`PortError`]. If any attempt may have taken effect, [`PortError::Unknown`].
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
                // An earlier attempt without a reply may have taken effect, even if the last one was refused.
                return Err(unknown.unwrap_or(error));
            }
            if matches!(error, PortError::Unknown { .. }) {
                unknown = Some(error);
            }
        }
    }

    /// Calls `call`, and again after retryable errors: `retry_after` returns the shortest pause that an error demands,
    /// or `None` if a retry would fail too.
    ///
    /// # Errors
    /// The last error.
    pub async fn call_with_retry_after<T, E, F>(
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

    /// Calls `request` until it returns a value. Returns `None` when there is no time left.
    pub async fn poll<T, F>(&self, policy: RetryPolicy, mut request: impl FnMut() -> F) -> Option<T>
    where
        F: Future<Output = Option<T>>,
    {
        let mut attempt = 0;
        loop {
            if let Some(value) = request().await {
                return Some(value);
            }
            attempt += 1;
            if !self.pause(policy, attempt).await {
                return None;
            }
        }
    }

    /// Applies a write to a batch record. Recognises an earlier attempt whose reply was lost.
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
            // Not every store returns the record that refused the write, so read it.
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

    /// Reads a record and applies the write that `propose` returns for it. If another writer changed the record in
    /// between, calls `propose` again with the changed record. Returns the record after the write, or the record for
    /// which `propose` returned nothing; `None` when there is no record.
    ///
    /// # Errors
    /// As [`call`](Self::call), and [`PortError::Throttled`] when another writer was first at every attempt.
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
                let message = format!("batch {batch} was written by others at every attempt");
                return Err(PortError::throttled("batch table", message));
            }
        }
    }
}

/// The result of a write to a batch record.
#[derive(Debug)]
pub enum Written {
    /// The write was applied; carries the record.
    Applied(Box<BatchRecord>),
    /// The condition does not hold; carries the record, `None` when there is none.
    Refused(Option<Box<BatchRecord>>),
}

/// Runs futures, at most `limit` at once; returns their results in order of completion.
///
/// Takes futures instead of a closure that makes them, because the compiler cannot prove that a stream which holds a
/// closure across an `await` is `Send`. Source: <https://github.com/rust-lang/rust/issues/102211>.
pub async fn bounded<F: Future>(futures: Vec<F>, limit: usize) -> Vec<F::Output> {
    stream::iter(futures)
        .buffer_unordered(limit.max(1))
        .collect()
        .await
}

pub fn joined<T>(lists: Vec<Vec<T>>) -> Vec<T> {
    let mut all = Vec::with_capacity(lists.iter().map(Vec::len).sum());
    for mut list in lists {
        all.append(&mut list);
    }
    all
}

/// Returns how long one attempt may take: a quarter of the margin, so that a write, the read after it and the counts
/// still fit between the last start and the deadline.
pub fn attempt_timeout(deadline_margin: Duration) -> Duration {
    (deadline_margin / 4).min(protocol::limits::ATTEMPT_TIMEOUT_MAX)
}
