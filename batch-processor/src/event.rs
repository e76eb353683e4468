//! The events with which the function is invoked, and its responses.

use aws_lambda_events::event::sqs::{SqsBatchResponse, SqsEvent};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use crate::sweep::Swept;

/// The `detail-type` of the events of a schedule.
/// Source: <https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-create-rule-schedule.html> (2026-08).
const SCHEDULED_EVENT: &str = "Scheduled Event";

/// An event with which the function is invoked.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// Messages of the batch queue.
    Tickets(SqsEvent),
    /// An event of the schedule.
    Sweep,
}

/// The response to an event.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Response {
    /// The tickets that must come back.
    Tickets(SqsBatchResponse),
    /// The result of the sweep, for people who invoke the function by hand.
    Swept(Swept),
}

impl From<SqsEvent> for Event {
    fn from(event: SqsEvent) -> Event {
        Event::Tickets(event)
    }
}

/// An event that is neither from SQS nor from a schedule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "event: unknown: got {found}, expected an SQS event with `Records`, or a schedule's with `detail-type` `Scheduled Event`"
)]
pub struct UnknownEvent {
    found: String,
}

impl<'de> Deserialize<'de> for Event {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Event, D::Error> {
        use serde::de::Error;
        let value = Value::deserialize(deserializer)?;
        if value.get("Records").is_some() {
            return SqsEvent::deserialize(value)
                .map(Event::Tickets)
                .map_err(D::Error::custom);
        }
        match value.get("detail-type").and_then(Value::as_str) {
            Some(SCHEDULED_EVENT) => Ok(Event::Sweep),
            Some(other) => Err(format!("`detail-type` `{other}`")),
            None => Err("no `detail-type`".to_owned()),
        }
        .map_err(|found| D::Error::custom(UnknownEvent { found }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schedule_is_the_sweep_and_records_are_tickets() {
        let sweep = r#"{"version":"0","id":"1","detail-type":"Scheduled Event","source":"aws.events","detail":{}}"#;
        assert_eq!(serde_json::from_str::<Event>(sweep).unwrap(), Event::Sweep);
        let tickets = r#"{"Records":[{"messageId":"m","body":"{}"}]}"#;
        let Event::Tickets(event) = serde_json::from_str(tickets).unwrap() else {
            panic!("not tickets");
        };
        assert_eq!(event.records.len(), 1);
    }

    #[test]
    fn the_error_of_an_unknown_event_says_what_is_expected() {
        for (event, found) in [
            ("{}", "no `detail-type`"),
            ("7", "no `detail-type`"),
            (r#"{"detail-type":"EC2"}"#, "`detail-type` `EC2`"),
        ] {
            let error = serde_json::from_str::<Event>(event).unwrap_err();
            let error = error.to_string();
            assert!(error.contains(found), "{error}");
            assert!(error.contains("`Scheduled Event`"), "{error}");
        }
    }
}
