//! Event ids: of an argument, and of a message as the aggregator finds it.

use aggregator::Config;
use aggregator::event::{SqsEvent, SqsMessage};
use aggregator::event_id::EventIdRule;
use aggregator::records;
use aws_lambda_events::event::sqs::SqsMessageAttribute;
use clap::Args;
use protocol::ids::{EventId, SourceArn};
use protocol::time::Timestamp;
use shared::message_attributes::{AttributeMap, MessageAttribute};
use stack::Settings;

use crate::failure::Failure;
use crate::service::Service;

/// The variables by which the aggregator finds the event id of a message. Others, such as sizes, do not matter here.
const READ: [&str; 6] = [
    "DDB_LOCK_TABLE",
    "DDB_BATCH_TABLE",
    "BATCH_QUEUE_URL",
    "EVENT_ID",
    "EVENT_ID_PREFIX",
    "DEDUP_WINDOW",
];

/// The event that a command is about.
#[derive(Args, Clone, Debug)]
pub struct EventArgs {
    /// The event id, without `EVENT_ID_PREFIX`
    pub event_id: String,
    /// Take the event id as it is, with its prefix
    #[arg(long)]
    pub exact: bool,
    /// ARN of the source, if `EVENT_ID_PREFIX` contains `{source}` [default: the input queue]
    #[arg(long, value_name = "ARN", conflicts_with = "exact")]
    pub source: Option<SourceArn>,
}

impl EventArgs {
    /// Returns the event id with its prefix.
    ///
    /// # Errors
    /// The id is too long, or the stack does not say what the prefix is.
    pub async fn id(&self, service: &Service) -> Result<EventId, Failure> {
        // The prefix alone is the id of no event.
        let id = EventId::try_from(self.event_id.as_str())?;
        if self.exact {
            return Ok(id);
        }
        let prefix = service.prefix(self.source.as_ref()).await?;
        Ok(EventId::try_from(format!("{prefix}{id}"))?)
    }
}

/// Finds event ids in messages, as the aggregator does.
pub struct EventIds {
    config: Config,
}

impl EventIds {
    /// Reads the rules of a stack.
    pub fn of(settings: &Settings) -> Result<EventIds, Failure> {
        let lookup = |name: &str| {
            let read = READ.contains(&name);
            settings.value(name).filter(|_| read).map(str::to_owned)
        };
        let config = Config::read(&lookup).map_err(|error| Failure::Usage(error.to_string()))?;
        Ok(EventIds { config })
    }

    /// Returns whether ids come from what a message contains, and not from the id that SQS gave it.
    pub fn are_of_content(&self) -> bool {
        !matches!(self.config.event_id, EventIdRule::MessageId)
    }

    /// Returns the event id of a message of the queue `source`.
    ///
    /// # Errors
    /// Why the message has no event id.
    pub fn find(
        &self,
        source: &str,
        message_id: &str,
        body: &str,
        attributes: &AttributeMap,
    ) -> Result<EventId, String> {
        let attributes = attributes.iter();
        let attributes = attributes.map(|(name, value)| (name.clone(), lambda_attribute(value)));
        let message = SqsMessage {
            message_id: Some(message_id.to_owned()),
            body: Some(body.to_owned()),
            attributes: None,
            message_attributes: Some(attributes.collect()),
            event_source_arn: Some(source.to_owned()),
        };
        let event = SqsEvent {
            records: vec![message],
        };
        let mut read = records::read(event, &self.config, Timestamp::EPOCH)
            .map_err(|error| error.to_string())?;
        match read.pop() {
            Some(Ok(record)) => Ok(record.candidate.event_id),
            // It may have an id although something else is wrong with it, such as its size.
            Some(Err(quarantined)) => quarantined.event_id.ok_or(quarantined.reason),
            None => Err("message: not read".to_owned()),
        }
    }
}

/// Returns an attribute as Lambda hands it to the aggregator.
fn lambda_attribute(value: &MessageAttribute) -> SqsMessageAttribute {
    let mut attribute = SqsMessageAttribute::default();
    attribute.string_value = value.string_value.clone();
    attribute.data_type = Some(value.data_type.clone());
    attribute
}
