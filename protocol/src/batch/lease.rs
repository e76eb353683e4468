//! Who may work on a batch.

use super::record::{BatchRecord, Status};
use crate::limits::CLOCK_SKEW_MAX;
use crate::planted::{Bug, planted};
use crate::time::Timestamp;

/// What an operator says of a batch in error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OperatorWord {
    /// Try again.
    Retry,
    /// Try again, and let the part that is frozen go to the sink of now.
    AcceptSink,
    /// Send what is undelivered to the quarantine, and end the batch.
    Quarantine,
}

/// Whether a processor may take a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaseVerdict {
    /// Yes.
    Free,
    /// It is done.
    Complete,
    /// Somebody works on it.
    Held {
        /// When that one must have stopped.
        until: Timestamp,
    },
    /// Its window has not closed and it is not sealed.
    TooEarly {
        /// When the window closes.
        closes_at: Timestamp,
    },
    /// The sink refused it; only an operator's ticket reopens it.
    InError,
    /// It is not in error, and what the operator says is of an error.
    NotInError,
}

/// Judges a record for a processor that asks at `now`.
pub fn may_lease(
    record: &BatchRecord,
    now: Timestamp,
    operator: Option<OperatorWord>,
) -> LeaseVerdict {
    match record.status {
        None => LeaseVerdict::Complete,
        Some(Status::Error) if operator.is_some() => LeaseVerdict::Free,
        Some(Status::Error) => LeaseVerdict::InError,
        // What is said of an error holds for that error alone, however often the ticket comes.
        Some(Status::Open | Status::Sealed | Status::Processing)
            if matches!(
                operator,
                Some(OperatorWord::Quarantine | OperatorWord::AcceptSink)
            ) =>
        {
            LeaseVerdict::NotInError
        }
        Some(Status::Sealed) => LeaseVerdict::Free,
        Some(Status::Open) if record.closes_at <= now => LeaseVerdict::Free,
        Some(Status::Open) => LeaseVerdict::TooEarly {
            closes_at: record.closes_at,
        },
        Some(Status::Processing) => match &record.lease {
            // The owner is stopped at its deadline by its own clock; ours may be ahead.
            Some(lease)
                if lease.until + CLOCK_SKEW_MAX > now && !planted(Bug::LeaseTakenWhileHeld) =>
            {
                LeaseVerdict::Held { until: lease.until }
            }
            Some(_) | None => LeaseVerdict::Free,
        },
    }
}
