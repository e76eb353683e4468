//! What belongs to one invocation: its limits of time, and what happens during it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use protocol::time::Timestamp;
use shared::ports::Ports;
use shared::retry::Budget;

/// What Lambda says about an invocation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invocation {
    /// Name of the function.
    pub function: String,
    /// When it is killed.
    pub deadline: Timestamp,
}

/// Time limits of an invocation.
pub struct Budgets<'a> {
    /// When it is killed.
    pub deadline: Timestamp,
    /// For claims.
    pub claims: Budget<'a>,
    /// For what must still be written after the last claim.
    pub wrap_up: Budget<'a>,
}

impl<'a> Budgets<'a> {
    /// Claims start until `margin` before the deadline. Counts, seals and witnesses of what was claimed last may start
    /// later, but must end in time.
    pub fn new(deadline: Timestamp, margin: Duration, ports: &'a Ports) -> Budgets<'a> {
        let budget = |margin| Budget {
            clock: &*ports.clock,
            entropy: &*ports.entropy,
            stop_at: deadline.saturating_sub(margin),
        };
        Budgets {
            deadline,
            claims: budget(margin),
            wrap_up: budget(margin / 3),
        }
    }
}

/// How often things happened that no single message tells.
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

    /// Returns the counts by the names of their metrics.
    pub fn metrics(&self) -> [(&'static str, u64); 3] {
        [
            ("BatchesOpened", &self.opened),
            ("BatchesSealed", &self.sealed),
            ("Throttles", &self.throttled),
        ]
        .map(|(name, count)| (name, count.load(Ordering::Relaxed)))
    }
}
