//! How a ticket ends: it is acknowledged, or it comes back after a while.

use std::time::Duration;

use protocol::limits::{CLOCK_SKEW_MAX, TICKET_AWAY_MAX};
use protocol::time::Timestamp;
use shared::ports::PortError;
use sinks::SinkError;

/// How a ticket ends. Whatever a ticket does returns this as its error once there is nothing more to do for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TicketEnd {
    /// The ticket is acknowledged. The text is for the log.
    Done(&'static str),
    /// The ticket comes back, after `after` at least.
    Retry { after: Duration, why: String },
}

impl TicketEnd {
    /// Returns the end of a ticket that comes back after the backoff.
    pub(crate) fn retry(why: impl Into<String>) -> TicketEnd {
        TicketEnd::Retry {
            after: Duration::ZERO,
            why: why.into(),
        }
    }

    /// Returns the end of a ticket that comes back once `until` has passed by every clock.
    pub(crate) fn retry_at(until: Timestamp, now: Timestamp, why: String) -> TicketEnd {
        let after = now.until(until + CLOCK_SKEW_MAX);
        TicketEnd::Retry { after, why }
    }

    /// Returns how long the ticket stays away: at least for `backoff`. `None` if it is acknowledged.
    pub(crate) fn away_for(&self, backoff: Duration) -> Option<Duration> {
        match self {
            TicketEnd::Done(_) => None,
            TicketEnd::Retry { after, .. } => Some((*after).max(backoff).min(TICKET_AWAY_MAX)),
        }
    }
}

impl From<PortError> for TicketEnd {
    fn from(error: PortError) -> TicketEnd {
        TicketEnd::retry(error.to_string())
    }
}

/// Returns how a ticket ends whose part the sink did not take.
pub(crate) fn not_taken(error: &SinkError) -> TicketEnd {
    let after = match error {
        SinkError::Busy { retry_after, .. } => *retry_after,
        SinkError::Retryable { .. } | SinkError::Permanent { .. } => Duration::ZERO,
    };
    let why = error.to_string();
    TicketEnd::Retry { after, why }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BACKOFF: Duration = Duration::from_secs(5);

    #[test]
    fn a_ticket_stays_away_until_the_time_that_its_end_names() {
        let now = Timestamp::from_ms(1_000_000);
        let away = |end: TicketEnd| end.away_for(BACKOFF).map(|away| away.as_secs());
        assert_eq!(away(TicketEnd::Done("complete")), None);
        assert_eq!(away(TicketEnd::retry("deadline reached")), Some(5));
        let closes_at = now + Duration::from_secs(60);
        let early = TicketEnd::retry_at(closes_at, now, "open".to_owned());
        assert_eq!(away(early), Some(62));
        let busy = |secs| {
            not_taken(&SinkError::Busy {
                reason: "full".to_owned(),
                retry_after: Duration::from_secs(secs),
            })
        };
        let aways = [busy(1), busy(90), busy(90_000)].map(away);
        assert_eq!(aways, [Some(5), Some(90), Some(3_600)]);
    }
}
