//! Why a ticket comes back, and when.

use std::time::Duration;

use protocol::ids::BatchId;
use protocol::limits::{CLOCK_SKEW_MAX, TICKET_AWAY_MAX};
use protocol::time::Timestamp;
use shared::ports::PortError;

use sinks::SinkError;

/// Why a ticket is given back.
#[derive(Debug, thiserror::Error)]
pub enum GiveBack {
    /// No such batch: a typing error, or a table that was restored.
    #[error("batch {batch} has no record")]
    UnknownBatch {
        /// The batch.
        batch: BatchId,
    },
    /// An earlier delivery of the same ticket has the lease, and may be dead.
    #[error("batch {batch} is leased by an earlier delivery of this ticket until {until}")]
    Held {
        /// The batch.
        batch: BatchId,
        /// When that one must have stopped.
        until: Timestamp,
    },
    /// Its window has not closed.
    #[error("batch {batch} is open until {closes_at}")]
    TooEarly {
        /// The batch.
        batch: BatchId,
        /// When it closes.
        closes_at: Timestamp,
    },
    /// Somebody else has taken it over, or it changed at every attempt.
    #[error("lease on batch {batch} was lost")]
    LeaseLost {
        /// The batch.
        batch: BatchId,
    },
    /// What is known to exist was not seen in time.
    #[error("index does not show all of batch {batch} yet: {missing}")]
    IndexLag {
        /// The batch.
        batch: BatchId,
        /// What is missing.
        missing: String,
    },
    /// The sink may take it later.
    #[error("batch {batch}: {source}")]
    Sink {
        /// The batch.
        batch: BatchId,
        #[source]
        /// What it said.
        source: SinkError,
    },
    /// A service could not be reached in time.
    #[error("batch {batch}: {source}")]
    Service {
        /// The batch.
        batch: BatchId,
        #[source]
        /// What it said.
        source: PortError,
    },
    /// Not all of what is set aside reached the quarantine.
    #[error("`{count}` events of batch {batch} did not reach the quarantine")]
    NotQuarantined {
        /// The batch.
        batch: BatchId,
        /// How many.
        count: usize,
    },
    /// Delivered, but not all of it is released.
    #[error("`{count}` delivered claims of batch {batch} are not released")]
    NotReleased {
        /// The batch.
        batch: BatchId,
        /// How many.
        count: u64,
    },
    /// The invocation ends.
    #[error("no time left for batch {batch}")]
    OutOfTime {
        /// The batch.
        batch: BatchId,
    },
}

impl GiveBack {
    /// Returns how long the ticket should stay away: until somebody said that trying makes sense, otherwise `backoff`.
    pub fn away_for(&self, backoff: Duration, now: Timestamp) -> Duration {
        let told = match self {
            GiveBack::Held { until, .. } => now.until(*until + CLOCK_SKEW_MAX),
            GiveBack::TooEarly { closes_at, .. } => now.until(*closes_at + CLOCK_SKEW_MAX),
            GiveBack::Sink {
                source: SinkError::Busy { retry_after, .. },
                ..
            } => *retry_after,
            GiveBack::Sink { .. }
            | GiveBack::UnknownBatch { .. }
            | GiveBack::LeaseLost { .. }
            | GiveBack::IndexLag { .. }
            | GiveBack::Service { .. }
            | GiveBack::NotQuarantined { .. }
            | GiveBack::NotReleased { .. }
            | GiveBack::OutOfTime { .. } => Duration::ZERO,
        };
        told.max(backoff).min(TICKET_AWAY_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BACKOFF: Duration = Duration::from_secs(5);

    #[test]
    fn a_ticket_stays_away_until_somebody_said_that_trying_makes_sense() {
        let batch: BatchId = "0190163d-8694-739b-aea5-966c26f8ad91".parse().unwrap();
        let now = Timestamp::from_ms(1_000_000);
        let away = |reason: GiveBack| reason.away_for(BACKOFF, now).as_secs();
        assert_eq!(away(GiveBack::OutOfTime { batch }), 5);
        let closes_at = now + Duration::from_secs(60);
        assert_eq!(away(GiveBack::TooEarly { batch, closes_at }), 62);
        let busy = |secs| GiveBack::Sink {
            batch,
            source: SinkError::Busy {
                reason: "full".to_owned(),
                retry_after: Duration::from_secs(secs),
            },
        };
        assert_eq!([busy(1), busy(90), busy(90_000)].map(away), [5, 90, 3_600]);
    }
}
