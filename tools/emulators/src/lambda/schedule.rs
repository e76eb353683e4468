//! Stands in for EventBridge: invokes a function on a schedule, independently of its event source mappings.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use tokio::task::JoinHandle;

use super::function::Function;
use super::ids::random_id;
use super::limits::{ACCOUNT_ID, REGION};

/// A running schedule. Dropping it stops it.
#[derive(Debug)]
pub struct Schedule(JoinHandle<()>);

impl Schedule {
    /// Starts a task that invokes `function` once per `every`, the first time after one such period, with the event of a rule
    /// named `rule`. If all its environments are busy, a new one is started: the maximum concurrency of a mapping does not
    /// apply to a schedule.
    ///
    /// # Panics
    /// Outside of a Tokio runtime.
    pub fn start(function: Function, rule: &str, every: Duration) -> Schedule {
        let rule = rule.to_owned();
        Schedule(tokio::spawn(async move {
            let mut ticks = tokio::time::interval(every);
            // The first tick comes at once.
            ticks.tick().await;
            loop {
                ticks.tick().await;
                let event = event(&rule, SystemTime::now()).to_string();
                // Not retried: the next tick invokes the function again. The function has logged the error.
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

/// Returns the event that a rule with a schedule sends at a time.
/// Source: <https://docs.aws.amazon.com/lambda/latest/dg/with-eventbridge-scheduler.html> (2026-08).
fn event(rule: &str, time: SystemTime) -> Value {
    json!({
        "version": "0",
        "id": random_id(),
        "detail-type": "Scheduled Event",
        "source": "aws.events",
        "account": ACCOUNT_ID,
        "time": rfc3339(time),
        "region": REGION,
        "resources": [format!("arn:aws:events:{REGION}:{ACCOUNT_ID}:rule/{rule}")],
        "detail": {},
    })
}

/// Returns a time in UTC, in whole seconds, as RFC 3339 writes it.
fn rfc3339(time: SystemTime) -> String {
    let age = time.duration_since(UNIX_EPOCH);
    let secs = age.map_or(0, |age| age.as_secs());
    let (year, month, day) = date(secs / 86_400);
    let (hour, minute, second) = (secs / 3_600 % 24, secs / 60 % 60, secs % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

/// Returns the year, month and day that is `days` days after 1970-01-01.
///
/// Counts years from March, so that the leap day is the last day of a year.
/// Source: Howard Hinnant, `civil_from_days`, <https://howardhinnant.github.io/date_algorithms.html>.
fn date(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * from_march + 2) / 5 + 1;
    let month = (from_march + 2) % 12 + 1;
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    (year, month, day)
}

#[cfg(test)]
mod tests {
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
    fn the_event_is_that_of_the_rule() {
        let event = event("hourly", UNIX_EPOCH);
        assert_eq!(event["detail-type"], "Scheduled Event");
        let rule = "arn:aws:events:us-east-1:000000000000:rule/hourly";
        assert_eq!(event["resources"], json!([rule]));
    }
}
