//! When a processor may take the lease of a batch.

use super::record::{BatchRecord, Status};
use crate::limits::CLOCK_SKEW_MAX;
use crate::planted::planted;
use crate::time::Timestamp;

/// An operator's decision about a batch in error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OperatorDecision {
    Retry,
    /// Try again, and deliver the frozen part to the present sink although it was frozen for another one.
    AcceptSink,
    /// Send every undelivered event to the quarantine, and complete the batch.
    Quarantine,
}

/// Whether a processor may take the lease, and why not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaseDecision {
    /// The processor may take the lease.
    Free,
    Complete,
    /// Another invocation has the lease.
    Held {
        /// The deadline of that invocation.
        until: Timestamp,
    },
    /// The batch is open, and its window has not ended.
    TooEarly {
        closes_at: Timestamp,
    },
    /// The batch is in error. Only an operator's ticket takes the lease.
    InError,
    /// The operator's ticket is about a batch in error, and the batch is not in error.
    NotInError,
}

/// Returns whether a processor may take the lease at `now`, with the decision of an operator's ticket.
pub fn may_lease(
    record: &BatchRecord,
    now: Timestamp,
    operator: Option<OperatorDecision>,
) -> LeaseDecision {
    match record.status {
        None => LeaseDecision::Complete,
        Some(Status::Error) if operator.is_some() => LeaseDecision::Free,
        Some(Status::Error) => LeaseDecision::InError,
        // The operator's decision holds for one error only. A later delivery of the same ticket has no effect.
        Some(Status::Open | Status::Sealed | Status::Processing)
            if matches!(
                operator,
                Some(OperatorDecision::Quarantine | OperatorDecision::AcceptSink)
            ) =>
        {
            LeaseDecision::NotInError
        }
        Some(Status::Sealed) => LeaseDecision::Free,
        Some(Status::Open) if record.closes_at <= now => LeaseDecision::Free,
        Some(Status::Open) => LeaseDecision::TooEarly {
            closes_at: record.closes_at,
        },
        Some(Status::Processing) => match &record.lease {
            // Lambda stops the owner at its deadline by another clock, and ours may be ahead.
            Some(lease)
                if lease.until + CLOCK_SKEW_MAX > now && !planted("lease-taken-while-held") =>
            {
                LeaseDecision::Held { until: lease.until }
            }
            Some(_) | None => LeaseDecision::Free,
        },
    }
}
