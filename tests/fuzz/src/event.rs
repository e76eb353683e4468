//! The event as Lambda hands it over.

use std::collections::{BTreeMap, HashMap};
use std::sync::LazyLock;

use aggregator::Config;
use aggregator::event::{Event, MalformedEvent};
use aggregator::records::{self, NoMessageId, Record};
use aws_lambda_events::event::sqs::{SqsEvent, SqsMessage, SqsMessageAttribute};
use protocol::ids::{BodyHash, SourceArn};
use protocol::limits::{DYNAMODB_ITEM_BYTES_MAX, DYNAMODB_KEY_BYTES_MAX};
use serde_json::value::RawValue;

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
/// was read of it is not what it says, to the types that AWS publishes.
pub fn event(data: &[u8]) {
    let grown = Choices::of(data).map(|mut choices| choices.event());
    let payload = grown.as_deref().unwrap_or(data);
    match serde_json::from_slice::<SqsEvent>(payload) {
        Ok(event) if has_names(payload) => {
            for config in CONFIGS.iter() {
                check(payload, &event, config);
            }
        }
        // What is wrong in a field that nobody needs may be read all the same.
        Ok(_) | Err(_) => drop(read(payload, &CONFIGS[0])),
    }
}

/// Whether fields have names: the types would take lists of values as well, each in an order of its own.
fn has_names(payload: &[u8]) -> bool {
    type Fields<'a> = BTreeMap<String, &'a RawValue>;
    let event = serde_json::from_slice::<Fields<'_>>(payload).unwrap_or_default();
    event
        .get("Records")
        .is_some_and(|records| serde_json::from_str::<Vec<Fields<'_>>>(records.get()).is_ok())
}

fn read(
    payload: &[u8],
    config: &Config,
) -> Result<Result<Vec<Record>, NoMessageId>, MalformedEvent> {
    let event = Event::parse(payload)?;
    Ok(records::read(event, config, NOW))
}

fn check(payload: &[u8], event: &SqsEvent, config: &Config) {
    let nameless = event.records.iter().position(|message| {
        let id = message.message_id.as_deref().unwrap_or_default();
        id.is_empty() || id.len() > 256
    });
    let read_whole = read(payload, config).expect("by what AWS publishes it is an event");
    let records = match (read_whole, nameless) {
        (Err(error), Some(index)) => return assert_eq!(error.index, index),
        (Ok(records), None) => records,
        (read, nameless) => panic!("nameless: {nameless:?}, read: {read:?}"),
    };
    assert_eq!(records.len(), event.records.len());
    for (record, message) in records.iter().zip(&event.records) {
        check_record(record, message);
        let mut alone = SqsEvent::default();
        alone.records.push(message.clone());
        let alone = serde_json::to_vec(&alone).expect("it came from JSON");
        let alone = read(&alone, config)
            .expect("it is an event")
            .expect("it has a name");
        assert_eq!(format!("{alone:?}"), format!("[{record:?}]"));
    }
}

fn check_record(record: &Record, message: &SqsMessage) {
    assert_eq!(
        Some(record.sqs_message_id.as_str()),
        message.message_id.as_deref()
    );
    let arn = message.event_source_arn.as_deref();
    let arn = arn.and_then(|arn| SourceArn::try_from(arn).ok());
    assert_eq!(
        record.source.as_str(),
        arn.as_ref().map_or("unknown", SourceArn::as_str)
    );
    let body = message.body.as_deref();
    match &record.content {
        Err(bad) => {
            assert_ne!(bad.reason.to_string(), "");
            assert_eq!(&*bad.body, body.unwrap_or_default());
        }
        Ok(good) => {
            let claim = &good.candidate;
            let body = body.expect("a good one has a body");
            assert_eq!(&*claim.body, body);
            assert_eq!(claim.body_hash, BodyHash::of(body.as_bytes()));
            assert_eq!(claim.sqs_message_id, record.sqs_message_id);
            assert_eq!(claim.source, record.source);
            assert_eq!(good.slot.source, record.source);
            assert!((1..=DYNAMODB_KEY_BYTES_MAX).contains(&claim.event_id.as_str().len()));
            assert!(claim.item_bytes() <= DYNAMODB_ITEM_BYTES_MAX);
            let attributes: HashMap<String, SqsMessageAttribute> = claim
                .attributes
                .as_deref()
                .map(|text| serde_json::from_str(text).expect("attributes are stored as JSON"))
                .unwrap_or_default();
            assert_eq!(attributes, message.message_attributes);
        }
    }
}
