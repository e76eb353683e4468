//! One invocation: its deadline, its time budgets and its counts.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use protocol::allocator::FlushReason;
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
pub struct InvocationCounts {
    reserved: AtomicU64,
    opened: AtomicU64,
    flushed_full: AtomicU64,
    flushed_bytes: AtomicU64,
    flushed_window: AtomicU64,
    flushed_drained: AtomicU64,
    flushed_urgent: AtomicU64,
    flushed_idle: AtomicU64,
    throttled: AtomicU64,
}

impl InvocationCounts {
    pub fn seats_reserved(&self, count: u64) {
        self.reserved.fetch_add(count, Ordering::Relaxed);
    }

    pub fn batch_opened(&self) {
        self.opened.fetch_add(1, Ordering::Relaxed);
    }

    pub fn batch_sealed(&self, reason: FlushReason) {
        let count = match reason {
            FlushReason::Full => &self.flushed_full,
            FlushReason::Bytes => &self.flushed_bytes,
            FlushReason::Window => &self.flushed_window,
            FlushReason::Drained => &self.flushed_drained,
            FlushReason::Urgent => &self.flushed_urgent,
            FlushReason::Idle => &self.flushed_idle,
        };
        count.fetch_add(1, Ordering::Relaxed);
    }

    pub fn claim_throttled(&self) {
        self.throttled.fetch_add(1, Ordering::Relaxed);
    }

    /// Adds the counts to the metrics.
    pub fn add_to(&self, metrics: &mut AggregatorMetrics) {
        let counted = |count: &AtomicU64| count.load(Ordering::Relaxed);
        metrics.reserved.add(counted(&self.reserved));
        metrics.batches_opened.add(counted(&self.opened));
        for (count, metric) in [
            (&self.flushed_full, &mut metrics.flushed_full),
            (&self.flushed_bytes, &mut metrics.flushed_bytes),
            (&self.flushed_window, &mut metrics.flushed_window),
            (&self.flushed_drained, &mut metrics.flushed_drained),
            (&self.flushed_urgent, &mut metrics.flushed_urgent),
            (&self.flushed_idle, &mut metrics.flushed_idle),
        ] {
            metric.add(counted(count));
            metrics.batches_sealed.add(counted(count));
        }
        metrics.throttles.add(counted(&self.throttled));
    }
}
