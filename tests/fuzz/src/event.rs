//! The event as Lambda hands it over.

use std::collections::HashMap;
use std::sync::LazyLock;

use aggregator::Config;
use aggregator::records::{self, NoMessageId, Record};
use aws_lambda_events::event::sqs::{SqsEvent, SqsMessage, SqsMessageAttribute};
use protocol::ids::{BodyHash, SourceArn};
use protocol::limits::{DYNAMODB_ITEM_BYTES_MAX, DYNAMODB_KEY_BYTES_MAX};
use shared::message_attributes::MessageAttributes;
use shared::ports::Quarantined;

use crate::config::{NOW, config};
use crate::grow::Choices;

/// Every kind of event id, with and without prefix and batch key.
static CONFIGS: LazyLock<Vec<Config>> = LazyLock::new(|| {
    [
        ["message-id", "", ""],
        ["body-hash", "t1-", ""],
        ["attribute:order", "", ""],
        ["json:id", "", "customer"],
        ["json:[customer, day]", "t1-", ""],
        ["message-id", "", "@"],
    ]
    .map(|[event_id, prefix, batch_key]| {
        config(&[
            ("EVENT_ID", event_id),
            ("EVENT_ID_PREFIX", prefix),
            ("BATCH_KEY", batch_key),
        ])
        .expect("these settings are right")
    })
    .into()
});

/// Any bytes as an SQS event.
///
/// # Panics
/// When a message is lost, exchanged, neither good nor bad, or read differently because of its neighbours; or when what
/// was read of it is not what it says.
pub fn event(data: &[u8]) {
    let grown = Choices::of(data).map(|mut choices| choices.event());
    let payload = grown.as_deref().unwrap_or(data);
    if let Ok(event) = serde_json::from_slice::<SqsEvent>(payload) {
        for config in CONFIGS.iter() {
            check(&event, config);
        }
    }
}

/// Reads an event as the function does. `aws_lambda_events` has a type of its own, by which the result is checked.
pub fn read(
    event: &SqsEvent,
    config: &Config,
) -> Result<Vec<Result<Record, Quarantined>>, NoMessageId> {
    let payload = serde_json::to_vec(event).expect("an event is JSON");
    let event = serde_json::from_slice(&payload).expect("the function reads every event");
    records::read(event, config, NOW)
}

fn check(event: &SqsEvent, config: &Config) {
    let nameless = event.records.iter().position(|message| {
        let id = message.message_id.as_deref().unwrap_or_default();
        id.is_empty() || id.len() > 256
    });
    let records = match (read(event, config), nameless) {
        (Err(error), Some(index)) => return assert_eq!(error.index, index),
        (Ok(records), None) => records,
        (read, nameless) => panic!("nameless: {nameless:?}, read: {read:?}"),
    };
    assert_eq!(records.len(), event.records.len());
    for (record, message) in records.iter().zip(&event.records) {
        check_record(record, message);
        let mut alone = SqsEvent::default();
        alone.records.push(message.clone());
        let alone = read(&alone, config).expect("it has a name");
        assert_eq!(format!("{alone:?}"), format!("[{record:?}]"));
    }
}

/// Checks that attributes are stored as they were received, but for those without a value and for the lists that SQS does not use.
fn check_attributes(stored: Option<&str>, received: &HashMap<String, SqsMessageAttribute>) {
    let stored = stored.map(|text| {
        let read = MessageAttributes::read(text);
        let read = read
            .expect("attributes are stored as JSON")
            .expect("none are not stored");
        assert_eq!(&**read.as_text(), text);
        read.to_map()
    });
    let stored = stored.unwrap_or_default();
    for (name, attribute) in &stored {
        let received = &received[name];
        assert_eq!(attribute.string_value, received.string_value);
        let binary = received.binary_value.as_ref().map(|bytes| &bytes.0);
        assert_eq!(attribute.binary_value.as_ref(), binary);
        assert!(
            received
                .data_type
                .as_ref()
                .is_none_or(|kind| *kind == attribute.data_type)
        );
    }
    let has_value = |one: &&SqsMessageAttribute| {
        one.string_value
            .as_ref()
            .is_some_and(|text| !text.is_empty())
            || one
                .binary_value
                .as_ref()
                .is_some_and(|bytes| !bytes.0.is_empty())
    };
    assert_eq!(stored.len(), received.values().filter(has_value).count());
}

fn check_record(record: &Result<Record, Quarantined>, message: &SqsMessage) {
    let (id, source) = match record {
        Ok(Record { candidate, .. }) => (&candidate.sqs_message_id, &candidate.source),
        Err(bad) => (&bad.sqs_message_id, &bad.source),
    };
    assert_eq!(Some(id.as_str()), message.message_id.as_deref());
    let arn = message.event_source_arn.as_deref();
    let arn = arn.and_then(|arn| SourceArn::try_from(arn).ok());
    assert_eq!(
        source.as_str(),
        arn.as_ref().map_or("unknown", SourceArn::as_str)
    );
    let body = message.body.as_deref();
    match record {
        Err(bad) => {
            assert_ne!(bad.reason, "");
            assert_eq!(&*bad.body, body.unwrap_or_default());
        }
        Ok(Record {
            candidate, scope, ..
        }) => {
            let body = body.expect("a good one has a body");
            assert_eq!(&*candidate.body, body);
            assert_eq!(candidate.body_hash, BodyHash::of(body.as_bytes()));
            assert_eq!(scope.source, *source);
            assert!((1..=DYNAMODB_KEY_BYTES_MAX).contains(&candidate.event_id.as_str().len()));
            assert!(candidate.item_bytes() <= DYNAMODB_ITEM_BYTES_MAX);
            let attributes = candidate.attributes.as_deref();
            check_attributes(attributes, &message.message_attributes);
        }
    }
}
