//! Messages that can never be processed: they are quarantined with a reason, and the other messages are delivered.

use bytes::Bytes;
use emulators::lambda::InvokeResponse;
use emulators::sqs::Message;
use local::stack::{INPUT_DEAD_LETTER_QUEUE, INPUT_QUEUE, QUARANTINE_QUEUE};
use shared::memory::noise;

use crate::events::{body, take};
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
    let no_key = "`BATCH_KEY`: `key`: found nothing";
    let no_space = "message: too large: got an item of";
    vec![
        bad(r#"{"no":"id"}"#, "`EVENT_ID`: `id`: found nothing", None),
        bad(r#"{"id":null,"key":"k"}"#, "`EVENT_ID`: `id`", None),
        bad(r#"{"id":"","key":"k"}"#, "`EVENT_ID`: `id`", None),
        bad("not json", "body: not JSON, which `EVENT_ID` needs", None),
        bad(r#"{"id":"cut"#, "body: not JSON", None),
        bad(long_id, "event id: too long: got 2049 bytes", None),
        bad(too_large, no_space, Some("large")),
        bad(r#"{"id":"keyless"}"#, no_key, Some("keyless")),
    ]
}

fn good(id: &str) -> String {
    format!(r#"{{"id":"{id}","key":"k"}}"#)
}

/// Returns the value of a message attribute.
pub fn attribute<'a>(message: &'a Message, name: &str) -> Option<&'a str> {
    let attribute = message.message_attributes.get(name)?;
    attribute.string_value.as_deref()
}

#[tokio::test]
async fn every_kind_of_bad_message_is_quarantined_with_its_reason_and_its_neighbours_are_delivered()
{
    let setup = Setup::new().var("BATCH_KEY", "key").batches_of(GOOD.len());
    let rig = setup.one_aggregator_environment().start().await;
    let kinds = every_kind();
    for (index, kind) in kinds.iter().enumerate() {
        rig.send(kind.body.as_str());
        if let Some(id) = GOOD.get(index) {
            rig.send(good(id));
        }
    }
    let quarantined = rig.take(QUARANTINE_QUEUE, kinds.len()).await;
    let source = rig.stack.sqs.arn(INPUT_QUEUE);
    for kind in &kinds {
        let expected = kind.reason;
        let message = quarantined.iter().find(|one| *one.body == *kind.body);
        let message = message.unwrap_or_else(|| panic!("not as it was sent: {expected}"));
        let reason = attribute(message, "reason").expect("there is a reason");
        assert!(reason.starts_with(expected), "{reason}, not {expected}");
        assert_eq!(attribute(message, "eventId"), kind.event_id, "{reason}");
        assert_eq!(attribute(message, "source"), Some(&*source), "{reason}");
    }
    rig.until_drained().await;
    assert_eq!(rig.delivered_ids(), GOOD);
    rig.end_with_set_aside(kinds.len(), 0).await;
}

#[tokio::test]
async fn a_bad_message_of_the_largest_size_is_quarantined_uncut() {
    let setup = Setup::new().batches_of(GOOD.len());
    let rig = setup.one_aggregator_environment().start().await;
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
    let setup = Setup::new().quick().var("QUARANTINE_SQS_URL", "");
    let setup = setup.var("BATCH_KEY", "key").batches_of(GOOD.len());
    let setup = setup.redeliver(INPUT_QUEUE, 2);
    let rig = setup.one_aggregator_environment().start().await;
    let kinds = every_kind();
    kinds.iter().for_each(|kind| rig.send(kind.body.as_str()));
    GOOD.iter().for_each(|id| rig.send(good(id)));
    rig.until_metric("Claimed", GOOD.len() as u64).await;
    let conflict = r#"{"id":"g1","key":"k","other":"content"}"#;
    rig.send(conflict);
    let letters = rig.take_bodies(INPUT_DEAD_LETTER_QUEUE, kinds.len() + 1);
    let letters = letters.await;
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
    let nowhere = "http://any.host/000000000000/no-such-queue";
    let setup = Setup::new().var("QUARANTINE_SQS_URL", nowhere);
    let rig = setup.start().await;
    let failed = take(&rig, &[("m1", &body("g1")), ("m2", "not json")]).await;
    assert_eq!(failed, ["m2"]);
    rig.until_complained("no-such-queue").await;
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
    let words = "Records[0].body: invalid type";
    assert!(message.contains(words), "{message}");
    assert!(take(&rig, &[("m2", &body("g1"))]).await.is_empty());
    rig.until_drained().await;
    assert_eq!(rig.delivered_ids(), ["g1"]);
    rig.stack.stop().await;
    assert_eq!(rig.stack.aggregator.stats().function_errors, 1);
}
