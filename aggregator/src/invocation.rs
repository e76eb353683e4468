//! One invocation: its deadline, its time budgets and its counts.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use protocol::scope::FlushReason;
use protocol::time::Timestamp;
use shared::ports::Ports;
use shared::retry::Budget;

use crate::metrics::AggregatorMetrics;

/// The facts about an invocation that the handler needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invocation {
    /// The name of the function, which is a dimension of its metrics.
    pub function: String,
    /// When Lambda ends the invocation.
    pub deadline: Timestamp,
}

/// The time budgets of an invocation.
pub struct Budgets<'a> {
    /// When Lambda ends the invocation.
    pub deadline: Timestamp,
    /// The time for claims.
    pub claims: Budget<'a>,
    /// The time for counts, seals, witnesses and the quarantine. It ends later than the time for claims, because what was
    /// claimed last must still be counted.
    pub wrap_up: Budget<'a>,
}

impl<'a> Budgets<'a> {
    /// Returns budgets in which claims start until `margin` before `deadline`, and the writes after them until a third of
    /// `margin` before it.
    pub fn new(deadline: Timestamp, margin: Duration, ports: &'a Ports) -> Budgets<'a> {
        let budget = |margin| Budget::new(ports, deadline.saturating_sub(margin));
        Budgets {
            deadline,
            claims: budget(margin),
            wrap_up: budget(margin / 3),
        }
    }
}

/// Counts of an invocation that belong to no single message.
#[derive(Debug, Default)]
pub struct InvocationCounts(Mutex<AggregatorMetrics>);

impl InvocationCounts {
    fn metrics(&self) -> MutexGuard<'_, AggregatorMetrics> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn seats_reserved(&self, count: u64) {
        self.metrics().reserved.add(count);
    }

    pub fn batch_opened(&self) {
        self.metrics().batches_opened.add(1);
    }

    pub fn batch_sealed(&self, reason: FlushReason) {
        let metrics = &mut *self.metrics();
        let count = match reason {
            FlushReason::Full => &mut metrics.flushed_full,
            FlushReason::Bytes => &mut metrics.flushed_bytes,
            FlushReason::Drained => &mut metrics.flushed_drained,
            FlushReason::Urgent => &mut metrics.flushed_urgent,
            FlushReason::Idle => &mut metrics.flushed_idle,
        };
        count.add(1);
        metrics.batches_sealed.add(1);
    }

    pub fn claim_throttled(&self) {
        self.metrics().throttles.add(1);
    }

    /// Returns metrics with these counts, to which the messages are added.
    pub fn into_metrics(self) -> AggregatorMetrics {
        let metrics = self.0.into_inner();
        metrics.unwrap_or_else(PoisonError::into_inner)
    }
}
