//! Message attributes: they are delivered, set aside and redriven with their events. `batchctl/changes.rs` discards some.

use std::collections::BTreeMap;

use emulators::sqs::MessageAttribute;
use local::bodies::BodiesKind;
use local::stack::{INPUT_QUEUE, QUARANTINE_QUEUE};
use serde_json::{Value, json};
use shared::memory::noise;

use crate::bad_input::attribute;
use crate::batchctl::Batchctl;
use crate::events::body;
use crate::rig::Setup;

fn custom(data_type: &str, attribute: MessageAttribute) -> MessageAttribute {
    MessageAttribute {
        data_type: data_type.to_owned(),
        ..attribute
    }
}

/// Returns ten attributes of all types. Three have names of the service's.
fn ten() -> BTreeMap<String, MessageAttribute> {
    let (text, number) = (MessageAttribute::string, MessageAttribute::number);
    let binary = |bytes: &[u8]| MessageAttribute::binary(bytes.to_vec());
    [
        ("tenant", text("t1")),
        ("label", custom("String.mine", text("\"a\", \u{e9}"))),
        ("count", number("1.50")),
        ("raw", binary(&[0, 159, 146, 150])),
        ("picture", custom("Binary.jpg", binary(&[255]))),
        ("reason", text("of the producer")),
        ("eventId", text("of the producer")),
        ("source", custom("Number.source", number("7"))),
        ("x", text("x")),
        ("y", text("y")),
    ]
    .map(|(name, attribute)| (name.to_owned(), attribute))
    .into()
}

/// Returns [`ten`] as an envelope has them.
fn ten_in_json() -> Value {
    json!({
        "tenant": { "dataType": "String", "stringValue": "t1" },
        "label": { "dataType": "String.mine", "stringValue": "\"a\", \u{e9}" },
        "count": { "dataType": "Number", "stringValue": "1.50" },
        "raw": { "dataType": "Binary", "binaryValue": "AJ+Slg==" },
        "picture": { "dataType": "Binary.jpg", "binaryValue": "/w==" },
        "reason": { "dataType": "String", "stringValue": "of the producer" },
        "eventId": { "dataType": "String", "stringValue": "of the producer" },
        "source": { "dataType": "Number.source", "stringValue": "7" },
        "x": { "dataType": "String", "stringValue": "x" },
        "y": { "dataType": "String", "stringValue": "y" },
    })
}

async fn attributes_are_delivered(setup: Setup) {
    let setup = setup.window(60).batches_of(3);
    let rig = setup.one_aggregator_environment().start().await;
    let large = json!({ "id": "large", "noise": noise(600_000) });
    rig.send_with(INPUT_QUEUE, body("small"), ten());
    rig.send_with(INPUT_QUEUE, large.to_string(), ten());
    rig.send(body("bare"));
    rig.until_drained().await;
    let mut envelopes = rig.envelopes();
    let ids = Vec::from_iter(envelopes.keys());
    assert_eq!(ids, ["bare", "large", "small"]);
    let bare = envelopes.remove("bare").expect("it is there");
    assert!(bare.get("attributes").is_none(), "{bare}");
    for (id, envelope) in envelopes {
        assert_eq!(envelope["attributes"], ten_in_json(), "{id}");
    }
    rig.end().await;
}

#[tokio::test]
async fn attributes_of_lock_items_and_of_overflowed_bodies_are_in_the_envelope() {
    for mode in ["batch", "put"] {
        let setup = Setup::new().var("WRITE_MODE", mode);
        attributes_are_delivered(setup.var("OVERFLOW_BUCKET", "overflow")).await;
    }
}

#[tokio::test]
async fn attributes_of_loads_are_in_the_envelope() {
    for bodies in [BodiesKind::LogTable, BodiesKind::LogS3] {
        attributes_are_delivered(Setup::new().bodies(bodies)).await;
    }
}

#[tokio::test]
async fn ten_attributes_come_back_from_the_quarantine_whatever_their_names() {
    let rig = Setup::new().one_aggregator_environment().start().await;
    let batchctl = Batchctl::of(&rig);
    rig.send_with(INPUT_QUEUE, "not JSON", ten());
    rig.until_depth(QUARANTINE_QUEUE, 1).await;
    let wanted = ["--where", "attributes.tenant == 't1'"];
    batchctl.redrive_quarantine(&wanted, 1).await;
    // It is as wrong as before, and comes back with what it was sent with the second time.
    rig.until_metric("Quarantined", 2).await;
    let [message] = &rig.take(QUARANTINE_QUEUE, 1).await[..] else {
        panic!("one message");
    };
    let reason = attribute(message, "reason").expect("it has a reason");
    assert!(reason.starts_with("body: not JSON"), "{reason}");
    let source = rig.stack.sqs.arn(INPUT_QUEUE);
    assert_eq!(attribute(message, "source"), Some(&*source));
    let more = attribute(message, "moreAttributes").expect("it has more than have a place");
    let more: Value = serde_json::from_str(more).expect("it is JSON");
    let ten_in_json = ten_in_json();
    for (name, sent) in ten() {
        match more.get(&name) {
            Some(found) => assert_eq!(*found, ten_in_json[&name], "{name}"),
            None => assert_eq!(message.message_attributes[&name], sent, "{name}"),
        }
    }
    rig.end_with_set_aside(1, 0).await;
}

#[tokio::test]
async fn the_message_group_comes_back_from_the_quarantine() {
    let rig = Setup::new().one_aggregator_environment().start().await;
    let input = rig.stack.queue_url(INPUT_QUEUE);
    let send = rig.stack.sqs_client().send_message().queue_url(input);
    let send = send.message_body("not JSON").message_group_id("tenant-1");
    send.send().await.expect("the queue takes the message");
    rig.until_depth(QUARANTINE_QUEUE, 1).await;
    let batchctl = Batchctl::of(&rig);
    batchctl.redrive_quarantine(&["--all"], 1).await;
    // It is as wrong as before, and comes back with what it was sent with the second time.
    rig.until_metric("Quarantined", 2).await;
    let [message] = &rig.take(QUARANTINE_QUEUE, 1).await[..] else {
        panic!("one message");
    };
    assert_eq!(message.message_group_id.as_deref(), Some("tenant-1"));
    let names = Vec::from_iter(message.message_attributes.keys());
    assert_eq!(names, ["reason", "source"]);
    rig.end_with_set_aside(1, 0).await;
}
