//! Messages that can never be processed: they are quarantined with a reason, and the other messages are delivered.

use std::collections::BTreeMap;

use bytes::Bytes;
use emulators::lambda::InvokeResponse;
use emulators::sqs::Message;
use local::stack::{INPUT_DEAD_LETTER_QUEUE, INPUT_QUEUE, QUARANTINE_QUEUE};
use shared::memory::noise;

use crate::events::{body, event, failures};
use crate::output::sorted;
use crate::rig::Setup;

const GOOD: [&str; 4] = ["g1", "g2", "g3", "g4"];

/// A bad body, the beginning of its reason, and its event id if one can be read.
struct Bad {
    body: String,
    reason: &'static str,
    event_id: Option<&'static str>,
}

fn bad(body: impl Into<String>, reason: &'static str, event_id: Option<&'static str>) -> Bad {
    Bad {
        body: body.into(),
        reason,
        event_id,
    }
}

fn every_kind() -> Vec<Bad> {
    let too_large = format!(r#"{{"id":"large","key":"k","pad":"{}"}}"#, noise(600_000));
    let long_id = format!(r#"{{"id":"{}","key":"k"}}"#, "x".repeat(2_049));
    vec![
        bad(r#"{"no":"id"}"#, "`EVENT_ID`: `id`: found nothing", None),
        bad(r#"{"id":null,"key":"k"}"#, "`EVENT_ID`: `id`", None),
        bad(r#"{"id":"","key":"k"}"#, "`EVENT_ID`: `id`", None),
        bad("not json", "body: not JSON, which `EVENT_ID` needs", None),
        bad(r#"{"id":"cut"#, "body: not JSON", None),
        bad(long_id, "event id: too long: got 2049 bytes", None),
        bad(
            too_large,
            "message: too large: got an item of",
            Some("large"),
        ),
        bad(
            r#"{"id":"keyless"}"#,
            "`BATCH_KEY`: `key`: found nothing",
            Some("keyless"),
        ),
    ]
}

fn good(id: &str) -> String {
    format!(r#"{{"id":"{id}","key":"k"}}"#)
}

/// Returns the value of a message attribute.
pub fn attribute<'a>(message: &'a Message, name: &str) -> Option<&'a str> {
    message
        .message_attributes
        .get(name)?
        .string_value
        .as_deref()
}

#[tokio::test]
async fn every_kind_of_bad_message_is_quarantined_with_its_reason_and_its_neighbours_are_delivered()
{
    let rig = Setup::new()
        .var("BATCH_KEY", "key")
        .var("MAX_BATCH_SIZE", GOOD.len())
        .one_aggregator_environment()
        .start()
        .await;
    let kinds = every_kind();
    for (index, kind) in kinds.iter().enumerate() {
        rig.send(kind.body.as_str());
        if let Some(id) = GOOD.get(index) {
            rig.send(good(id));
        }
    }
    let quarantined = rig.take(QUARANTINE_QUEUE, kinds.len()).await;
    let by_body: BTreeMap<&str, &Message> = quarantined
        .iter()
        .map(|message| (&*message.body, message))
        .collect();
    let source = rig.stack.sqs.arn(INPUT_QUEUE);
    for kind in &kinds {
        let message = by_body.get(kind.body.as_str());
        let message =
            message.unwrap_or_else(|| panic!("not there as it was sent: {}", kind.reason));
        let reason = attribute(message, "reason").expect("there is a reason");
        assert!(
            reason.starts_with(kind.reason),
            "{reason}, expected {}",
            kind.reason
        );
        assert_eq!(attribute(message, "eventId"), kind.event_id, "{reason}");
        assert_eq!(
            attribute(message, "source"),
            Some(source.as_str()),
            "{reason}"
        );
    }
    rig.until_drained().await;
    assert_eq!(rig.delivered_ids(), GOOD);
    rig.end_with_set_aside(kinds.len(), 0).await;
}

#[tokio::test]
async fn a_bad_message_of_the_largest_size_is_quarantined_uncut() {
    let rig = Setup::new()
        .var("MAX_BATCH_SIZE", GOOD.len())
        .one_aggregator_environment()
        .start()
        .await;
    // The message leaves no space for attributes.
    let largest = "x".repeat(1_048_576);
    rig.send(largest.as_str());
    GOOD.iter().for_each(|id| rig.send(body(id)));
    let quarantined = rig.take(QUARANTINE_QUEUE, 1).await;
    assert!(*quarantined[0].body == *largest, "cut or changed");
    rig.until_drained().await;
    assert_eq!(rig.delivered_ids(), GOOD);
    // It is sent again if the reply to a request of this size is late: twice is better than lost.
    let copies = rig.depth(QUARANTINE_QUEUE);
    assert!(copies > 0, "it is not in the quarantine any more");
    rig.end_with_set_aside(copies, 0).await;
}

#[tokio::test]
async fn without_a_quarantine_bad_messages_end_as_dead_letters_and_their_neighbours_are_delivered()
{
    let rig = Setup::new()
        .var("QUARANTINE_SQS_URL", "")
        .var("BATCH_KEY", "key")
        .var("MAX_BATCH_SIZE", GOOD.len())
        .quick()
        .redeliver(INPUT_QUEUE, 2)
        .one_aggregator_environment()
        .start()
        .await;
    let kinds = every_kind();
    kinds.iter().for_each(|kind| rig.send(kind.body.as_str()));
    GOOD.iter().for_each(|id| rig.send(good(id)));
    rig.until_metric("Claimed", GOOD.len() as u64).await;
    let conflict = r#"{"id":"g1","key":"k","other":"content"}"#;
    rig.send(conflict);
    let letters = rig.take(INPUT_DEAD_LETTER_QUEUE, kinds.len() + 1).await;
    let letters = sorted(letters.iter().map(|letter| letter.body.to_string()));
    let bodies = kinds.into_iter().map(|kind| kind.body);
    assert_eq!(letters, sorted(bodies.chain([conflict.to_owned()])));
    rig.until_drained().await;
    assert_eq!(rig.delivered_ids(), GOOD);
    assert_eq!(rig.depth(QUARANTINE_QUEUE), 0);
    rig.end_with_set_aside(letters.len(), 0).await;
}

#[tokio::test]
async fn a_quarantine_that_does_not_exist_gives_the_bad_messages_back() {
    // Only the queue's name in the URL matters, because `AWS_ENDPOINT_URL_SQS` sets the host.
    let rig = Setup::new()
        .var(
            "QUARANTINE_SQS_URL",
            "http://any.host/000000000000/no-such-queue",
        )
        .start()
        .await;
    let g1 = body("g1");
    let messages = [("m1", g1.as_str()), ("m2", "not json")];
    let source = rig.stack.sqs.arn(INPUT_QUEUE);
    let failed = failures(&rig, &rig.stack.aggregator, event(&source, &messages)).await;
    assert_eq!(failed, ["m2"]);
    rig.until("the log names the queue", async || {
        rig.has_complained("no-such-queue")
    })
    .await;
    rig.until_drained().await;
    assert_eq!(rig.delivered_ids(), ["g1"]);
    rig.end().await;
}

#[tokio::test]
async fn a_payload_that_is_not_an_event_is_refused_with_the_position_of_the_error() {
    let rig = Setup::new().start().await;
    let payload = Bytes::from_static(br#"{"Records":[{"messageId":"m1","body":5}]}"#);
    let (error_type, message) = match rig.stack.aggregator.invoke(payload).await {
        Ok(InvokeResponse::FunctionError {
            error_type,
            message,
        }) => (error_type, message),
        other => panic!("not an error of the function: {other:?}"),
    };
    assert!(error_type.ends_with("DeserializeError"), "{error_type}");
    assert!(
        message.contains("Records[0].body: invalid type"),
        "{message}"
    );
    let source = rig.stack.sqs.arn(INPUT_QUEUE);
    let good = event(&source, &[("m2", &body("g1"))]);
    assert!(failures(&rig, &rig.stack.aggregator, good).await.is_empty());
    rig.until_drained().await;
    assert_eq!(rig.delivered_ids(), ["g1"]);
    rig.stack.stop().await;
    assert_eq!(rig.stack.aggregator.stats().function_errors, 1);
}
