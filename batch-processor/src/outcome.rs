//! Whether a ticket is acknowledged or comes back, and when.

use std::time::Duration;

use protocol::ids::BatchId;
use protocol::limits::{CLOCK_SKEW_MAX, TICKET_AWAY_MAX};
use protocol::time::Timestamp;
use shared::ports::PortError;
use sinks::SinkError;

/// Why a ticket is acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Done {
    /// The batch is complete.
    Complete,
    /// The batch must be verified; another ticket was sent for it.
    Verifying,
    /// The batch is in error and waits for an operator.
    InError,
    /// The batch is open for longer than a ticket can wait.
    Open,
    /// An operator's ticket is about a batch in error, and the batch is not in error.
    NotInError,
    /// An operator paused deliveries of the batch. The sweep sends another ticket when the pause has ended.
    Paused,
    /// The next part must wait for the hours of delivery, for its turn, or for its number. Another ticket comes then.
    Waiting,
    /// The batch was so long ago that its record has expired.
    Expired,
    /// Another invocation has the lease. If it dies, the sweep sends another ticket.
    Held,
}

/// Why a ticket is retried.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RetryTicket {
    /// A wrong id in an operator's ticket, or a batch table that was restored from a backup.
    #[error("batch {batch}: got no record, expected one in the batch table")]
    UnknownBatch { batch: BatchId },
    /// The invocation of the earlier delivery may have died, and no other ticket may be on its way.
    #[error("batch {batch}: leased by an earlier delivery of this ticket until {until}")]
    Held { batch: BatchId, until: Timestamp },
    #[error("batch {batch}: open until {closes_at}")]
    TooEarly {
        batch: BatchId,
        closes_at: Timestamp,
    },
    /// Another invocation has taken the lease, or the record changed at every attempt.
    #[error("batch {batch}: the lease was lost")]
    LeaseLost { batch: BatchId },
    #[error("batch {batch}: the index does not show every claim yet: {missing}")]
    IndexLag { batch: BatchId, missing: String },
    #[error("batch {batch}: {source}")]
    Sink {
        batch: BatchId,
        #[source]
        source: SinkError,
    },
    #[error("batch {batch}: {source}")]
    Service {
        batch: BatchId,
        #[source]
        source: PortError,
    },
    #[error("batch {batch}: {count} messages may not have reached the quarantine")]
    NotQuarantined { batch: BatchId, count: usize },
    #[error("batch {batch}: {count} delivered claims are not released")]
    NotReleased { batch: BatchId, count: u64 },
    #[error("batch {batch}: deadline reached")]
    DeadlineReached { batch: BatchId },
}

impl RetryTicket {
    /// Returns how long the ticket stays away: until the time that the error names, but at least `backoff`.
    pub(crate) fn away_for(&self, backoff: Duration, now: Timestamp) -> Duration {
        let named = match self {
            RetryTicket::Held { until, .. } => now.until(*until + CLOCK_SKEW_MAX),
            RetryTicket::TooEarly { closes_at, .. } => now.until(*closes_at + CLOCK_SKEW_MAX),
            RetryTicket::Sink {
                source: SinkError::Busy { retry_after, .. },
                ..
            } => *retry_after,
            RetryTicket::Sink { .. }
            | RetryTicket::UnknownBatch { .. }
            | RetryTicket::LeaseLost { .. }
            | RetryTicket::IndexLag { .. }
            | RetryTicket::Service { .. }
            | RetryTicket::NotQuarantined { .. }
            | RetryTicket::NotReleased { .. }
            | RetryTicket::DeadlineReached { .. } => Duration::ZERO,
        };
        named.max(backoff).min(TICKET_AWAY_MAX)
    }
}

/// Why a run ends before the batch is complete.
pub(crate) enum Stop {
    /// The ticket is done.
    Done(Done),
    Retry(RetryTicket),
}

impl From<RetryTicket> for Stop {
    fn from(reason: RetryTicket) -> Stop {
        Stop::Retry(reason)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BACKOFF: Duration = Duration::from_secs(5);

    #[test]
    fn a_ticket_stays_away_until_the_time_that_its_error_names() {
        let batch: BatchId = "0190163d-8694-739b-aea5-966c26f8ad91".parse().unwrap();
        let now = Timestamp::from_ms(1_000_000);
        let away = |reason: RetryTicket| reason.away_for(BACKOFF, now).as_secs();
        assert_eq!(away(RetryTicket::DeadlineReached { batch }), 5);
        let closes_at = now + Duration::from_secs(60);
        assert_eq!(away(RetryTicket::TooEarly { batch, closes_at }), 62);
        let busy = |secs| RetryTicket::Sink {
            batch,
            source: SinkError::Busy {
                reason: "full".to_owned(),
                retry_after: Duration::from_secs(secs),
            },
        };
        assert_eq!([busy(1), busy(90), busy(90_000)].map(away), [5, 90, 3_600]);
    }
}
