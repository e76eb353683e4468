//! Stands in for EventBridge: invokes a function on a schedule, independently of its event source mappings.

use std::time::{Duration, SystemTime};

use protocol::time::Timestamp;
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use uuid::Uuid;

use emulators::lambda::{ACCOUNT_ID, Function, REGION};

/// A running schedule. Dropping it stops it.
#[derive(Debug)]
pub struct Schedule(JoinHandle<()>);

impl Schedule {
    /// Starts a task that invokes `function` once per `every`, the first time after one such period. If all its
    /// environments are busy, a new one is started: the maximum concurrency of a mapping does not apply to a schedule.
    ///
    /// # Panics
    /// Outside of a Tokio runtime.
    pub fn start(function: Function, every: Duration) -> Schedule {
        Schedule(tokio::spawn(async move {
            let mut ticks = tokio::time::interval(every);
            // The first tick comes at once.
            ticks.tick().await;
            loop {
                ticks.tick().await;
                let event = event(SystemTime::now()).to_string();
                // The next sweep does what a failed one left undone. The function has logged the error.
                if let Err(error) = function.invoke(event.into()).await {
                    tracing::debug!(%error, "scheduled invocation failed");
                }
            }
        }))
    }

    /// Stops the schedule. An invocation in flight continues.
    pub fn stop(&self) {
        self.0.abort();
    }
}

impl Drop for Schedule {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Returns the event of a rule with a schedule.
/// Source: <https://docs.aws.amazon.com/lambda/latest/dg/with-eventbridge-scheduler.html> (2026-08).
fn event(time: SystemTime) -> Value {
    json!({
        "version": "0",
        "id": Uuid::now_v7(),
        "detail-type": "Scheduled Event",
        "source": "aws.events",
        "account": ACCOUNT_ID,
        "time": rfc3339(time),
        "region": REGION,
        "resources": [format!("arn:aws:events:{REGION}:{ACCOUNT_ID}:rule/sweep")],
        "detail": {},
    })
}

/// Returns a time in UTC, in whole seconds, as RFC 3339 writes it.
fn rfc3339(time: SystemTime) -> String {
    let time = Timestamp::from(time);
    let (year, month, day) = time.date();
    let secs = time.as_ms() / 1_000 % 86_400;
    let (hour, minute, second) = (secs / 3_600, secs / 60 % 60, secs % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use super::*;

    #[test]
    fn times_are_written_as_aws_writes_them() {
        for (secs, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_735_689_599, "2024-12-31T23:59:59Z"),
            (1_790_000_000, "2026-09-21T14:13:20Z"),
        ] {
            assert_eq!(rfc3339(UNIX_EPOCH + Duration::from_secs(secs)), text);
        }
    }

    #[test]
    fn the_event_is_a_schedules() {
        assert_eq!(event(UNIX_EPOCH)["detail-type"], "Scheduled Event");
    }
}
