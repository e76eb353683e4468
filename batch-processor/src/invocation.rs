//! The time limits and the metrics of one invocation.

use std::time::Duration;

use protocol::ids::SourceArn;
use protocol::retry::RetryPolicy;
use protocol::time::Timestamp;
use shared::metrics::Metrics;
use shared::ports::Ports;
use shared::retry::Budget;

/// The invocation, as described by Lambda.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invocation {
    /// The name of the function, a dimension of its metrics.
    pub function: String,
    /// The request id of Lambda, unique to the invocation.
    pub request_id: String,
    /// When Lambda stops the invocation.
    pub deadline: Timestamp,
}

/// Time limits of an invocation, for one ticket.
pub(crate) struct Budgets<'a> {
    /// When Lambda stops the invocation.
    pub(crate) deadline: Timestamp,
    /// The budget for work that another invocation can continue.
    pub(crate) work: Budget<'a>,
    /// The later budget for writes that end the work, such as the receipt of a part and giving up the lease.
    pub(crate) wrap_up: Budget<'a>,
    /// How long a given-back ticket stays away, unless its error names a longer time.
    pub(crate) backoff: Duration,
}

impl<'a> Budgets<'a> {
    /// Returns budgets that end `margin` before the deadline for work, and later for writes that end it. `receives` is
    /// how often the ticket was received, this time included.
    pub(crate) fn new(
        deadline: Timestamp,
        margin: Duration,
        receives: u32,
        ports: &'a Ports,
    ) -> Budgets<'a> {
        let budget = |margin| Budget::new(ports, deadline.saturating_sub(margin));
        Budgets {
            deadline,
            work: budget(margin),
            wrap_up: budget(margin / 3),
            backoff: RetryPolicy::TICKET.pause(receives, ports.entropy.jitter()),
        }
    }
}

/// The metrics of one ticket.
#[derive(Debug, Default)]
pub(crate) struct Report {
    /// The source of the batch, once its record was read.
    pub(crate) source: Option<SourceArn>,
    pub(crate) metrics: Metrics,
}
