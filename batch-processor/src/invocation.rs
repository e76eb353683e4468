//! What belongs to one invocation: its limits of time, and what is measured during it.

use std::time::Duration;

use protocol::ids::SourceArn;
use protocol::retry::RetryPolicy;
use protocol::time::Timestamp;
use shared::metrics::Metrics;
use shared::ports::Ports;
use shared::retry::Budget;

/// What Lambda says about an invocation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invocation {
    /// Name of the function.
    pub function: String,
    /// Unique to the invocation.
    pub request_id: String,
    /// When Lambda kills the process.
    pub deadline: Timestamp,
}

/// Time limits of an invocation, for one ticket.
pub(crate) struct Budgets<'a> {
    /// When Lambda kills the process.
    pub(crate) deadline: Timestamp,
    /// For everything that another invocation can resume.
    pub(crate) work: Budget<'a>,
    /// For what should still be written: that the sink has a part, that the lease is given up.
    pub(crate) wrap_up: Budget<'a>,
    /// How long the ticket stays away if it must be retried and no error says otherwise.
    pub(crate) backoff: Duration,
}

impl<'a> Budgets<'a> {
    /// Work starts until `margin` before the deadline, and what wraps it up somewhat later. `receives` is how often the
    /// ticket was received, this time included.
    pub(crate) fn new(
        deadline: Timestamp,
        margin: Duration,
        receives: u32,
        ports: &'a Ports,
    ) -> Budgets<'a> {
        let budget = |margin| Budget {
            clock: &*ports.clock,
            entropy: &*ports.entropy,
            stop_at: deadline.saturating_sub(margin),
        };
        Budgets {
            deadline,
            work: budget(margin),
            wrap_up: budget(margin / 3),
            backoff: RetryPolicy::TICKET.pause(receives, ports.entropy.jitter()),
        }
    }
}

/// What is measured while a ticket is processed.
#[derive(Debug, Default)]
pub(crate) struct Report {
    /// Where the batch's events came from, once the batch record was read.
    pub(crate) source: Option<SourceArn>,
    /// The figures.
    pub(crate) metrics: Metrics,
}
