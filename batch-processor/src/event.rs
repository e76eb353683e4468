//! What the function is invoked with, and what it answers.

use aws_lambda_events::event::sqs::{SqsBatchResponse, SqsEvent};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use crate::sweep::Swept;

/// `detail-type` of a rule's schedule.
/// Source: <https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-create-rule-schedule.html> (2026-08).
const SCHEDULED_EVENT: &str = "Scheduled Event";

/// An event of one of the two kinds the function is wired to.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// Messages of the batch queue.
    Tickets(SqsEvent),
    /// The schedule struck.
    Sweep,
}

/// What is answered to it.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Response {
    /// The tickets that must come back.
    Tickets(SqsBatchResponse),
    /// What the sweep found; nobody reads it but people.
    Swept(Swept),
}

impl From<SqsEvent> for Event {
    fn from(event: SqsEvent) -> Event {
        Event::Tickets(event)
    }
}

/// An event of neither kind.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "event with {found} is neither an SQS event (`Records`) nor a schedule (`detail-type` `Scheduled Event`)"
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
    fn any_other_event_is_named_with_what_is_allowed() {
        for (event, found) in [
            ("{}", "no `detail-type`"),
            ("7", "no `detail-type`"),
            (r#"{"detail-type":"EC2"}"#, "`detail-type` `EC2`"),
        ] {
            let error = serde_json::from_str::<Event>(event)
                .unwrap_err()
                .to_string();
            assert!(
                error.contains(found) && error.contains("`Scheduled Event`"),
                "{error}"
            );
        }
    }
}
