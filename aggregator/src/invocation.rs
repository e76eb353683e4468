//! One invocation: its deadline, its time budgets and its counts.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use protocol::time::Timestamp;
use shared::ports::Ports;
use shared::retry::Budget;

/// What the handler must know about an invocation.
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
    opened: AtomicU64,
    sealed: AtomicU64,
    throttled: AtomicU64,
}

impl InvocationCounts {
    pub fn batch_opened(&self) {
        self.opened.fetch_add(1, Ordering::Relaxed);
    }

    pub fn batch_sealed(&self) {
        self.sealed.fetch_add(1, Ordering::Relaxed);
    }

    pub fn claim_throttled(&self) {
        self.throttled.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the counts, each with the name of its metric.
    pub fn metrics(&self) -> [(&'static str, u64); 3] {
        [
            ("BatchesOpened", &self.opened),
            ("BatchesSealed", &self.sealed),
            ("Throttles", &self.throttled),
        ]
        .map(|(name, count)| (name, count.load(Ordering::Relaxed)))
    }
}
