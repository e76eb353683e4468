//! The time limits and the metrics of one invocation.

use std::collections::BTreeMap;
use std::time::Duration;

use protocol::ids::SourceArn;
use protocol::retry::RetryPolicy;
use protocol::time::Timestamp;
use shared::ports::Ports;
use shared::retry::Budget;

use crate::metrics::BatchProcessorMetrics;

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

/// The results of the tickets of one invocation.
#[derive(Debug, Default)]
pub(crate) struct Report {
    pub(crate) tickets_count: usize,
    pub(crate) given_back_count: usize,
    /// The metrics of the batches of each source. A ticket whose batch could not be leased measures nothing.
    pub(crate) metrics: BTreeMap<SourceArn, BatchProcessorMetrics>,
}

impl Report {
    /// Returns the metrics of a source, which the invocation adds to.
    pub(crate) fn metrics_of(&mut self, source: &SourceArn) -> &mut BatchProcessorMetrics {
        self.metrics.entry(source.clone()).or_default()
    }
}
