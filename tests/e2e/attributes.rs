//! Message attributes: they are delivered, set aside and redriven with their events.

use std::collections::BTreeMap;
use std::fs;

use bytes::Bytes;
use emulators::sqs::{Message, MessageAttribute};
use local::bodies::BodiesKind;
use local::stack::{INPUT_QUEUE, QUARANTINE_QUEUE};
use protocol::batch::Status;
use serde_json::{Value, json};
use shared::memory::noise;

use crate::batchctl::Batchctl;
use crate::events::{body, failures};
use crate::output::sorted;
use crate::rig::{Rig, Setup, cases};

const IDS: [&str; 5] = ["e1", "e2", "e3", "e4", "e5"];

fn custom(data_type: &str, attribute: MessageAttribute) -> MessageAttribute {
    MessageAttribute {
        data_type: data_type.to_owned(),
        ..attribute
    }
}

/// Returns ten attributes of all types. Three have names of the service's.
fn ten() -> BTreeMap<String, MessageAttribute> {
    let text = MessageAttribute::string;
    [
        ("tenant", text("t1")),
        ("label", custom("String.mine", text("\"a\", \u{e9}"))),
        ("count", MessageAttribute::number("1.50")),
        ("raw", MessageAttribute::binary([0, 159, 146, 150])),
        (
            "picture",
            custom("Binary.jpg", MessageAttribute::binary([255])),
        ),
        ("reason", text("of the producer")),
        ("eventId", text("of the producer")),
        (
            "source",
            custom("Number.source", MessageAttribute::number("7")),
        ),
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

impl Rig {
    fn send_with(&self, body: impl Into<String>, attributes: BTreeMap<String, MessageAttribute>) {
        let sent = self
            .stack
            .sqs
            .send(INPUT_QUEUE, body.into(), None, attributes);
        sent.expect("the queue takes the message");
    }

    /// Returns the envelopes of all parts, by event id.
    fn envelopes(&self) -> BTreeMap<String, Value> {
        let batches = self.delivered_batches();
        let part = |batch: String| {
            let file = self.stack.out.join(batch).join("0.jsonl");
            fs::read_to_string(file).expect("a batch has one part")
        };
        let text: String = batches.into_iter().map(part).collect();
        let lines = text.lines().map(|line| {
            let line: Value = serde_json::from_str(line).expect("every line is an envelope");
            (
                line["eventId"].as_str().expect("it has an id").to_owned(),
                line,
            )
        });
        lines.collect()
    }
}

async fn attributes_are_delivered(setup: Setup) {
    let rig = setup
        .window(60)
        .var("MAX_BATCH_SIZE", 3)
        .one_aggregator_environment()
        .start()
        .await;
    let large = json!({ "id": "large", "noise": noise(600_000) });
    rig.send_with(body("small"), ten());
    rig.send_with(large.to_string(), ten());
    rig.send(body("bare"));
    rig.until_drained().await;
    let mut envelopes = rig.envelopes();
    assert_eq!(
        sorted(envelopes.keys().cloned()),
        ["bare", "large", "small"]
    );
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
async fn attributes_are_columns() {
    let columns = r#"[{"name":"id","json":"id"},{"name":"tenant","field":"attribute:tenant"},{"name":"raw","field":"attribute:raw"}]"#;
    let rig = Setup::new()
        .var("SINK_FORMAT", "csv")
        .var("SINK_COLUMNS", columns)
        .var("SINK_HEADER", "off")
        .window(60)
        .var("MAX_BATCH_SIZE", 2)
        .one_aggregator_environment()
        .start()
        .await;
    rig.send_with(body("a"), ten());
    rig.send(body("b"));
    rig.until_drained().await;
    let batch = rig.only_batch().await;
    let text = fs::read_to_string(rig.stack.out.join(batch).join("0.csv"));
    let text = text.expect("the part is there");
    assert_eq!(sorted(text.lines()), ["a,t1,AJ+Slg==", "b,,"]);
    rig.end().await;
}

/// Returns an event of Lambda in which the event id of each message is an attribute.
fn with_ids(source: &str) -> Bytes {
    let record = |id: &str| {
        json!({
            "messageId": format!("message-{id}"),
            "body": format!("body of {id}"),
            "attributes": { "SentTimestamp": "1700000000000", "MessageGroupId": format!("group-{id}") },
            "messageAttributes": {
                "eid": { "dataType": "String", "stringValue": id, "stringListValues": [], "binaryListValues": [] },
                "raw": { "dataType": "Binary", "binaryValue": "AJ+Slg==", "stringListValues": [], "binaryListValues": [] },
            },
            "eventSourceARN": source,
        })
    };
    json!({ "Records": IDS.map(record) }).to_string().into()
}

async fn a_discarded_event_whose_id_is_an_attribute_is_redriven(bodies: BodiesKind) {
    let rig = Setup::new()
        .window(5)
        .bodies(bodies)
        .var("EVENT_ID", "attribute:eid")
        .one_aggregator_environment()
        .start()
        .await;
    let batchctl = Batchctl::of(&rig);
    let event = with_ids(&rig.stack.sqs.arn(INPUT_QUEUE));
    assert_eq!(failures(&rig, &rig.stack.aggregator, event).await, [""; 0]);
    let batch = &rig.only_batch().await;
    // The sink refuses the part, because it does not know this file.
    fs::create_dir_all(rig.stack.out.join(batch)).expect("the sink is a directory");
    let obstacle = rig.stack.out.join(batch).join("0.rejects");
    fs::write(obstacle, "an obstacle").expect("the sink takes a file");
    rig.until("the batch is in error", async || {
        rig.statuses().await[&Status::Error] == 1
    })
    .await;

    batchctl.change(&["discard", batch]).await;
    rig.until_metric("BatchesCompleted", 1).await;
    rig.until_depth(QUARANTINE_QUEUE, IDS.len()).await;
    let saved = fs::read_dir(batchctl.directory.path()).expect("the directory is there");
    let mut saved = saved.map(|entry| entry.expect("it can be read").path());
    let saved = saved.find(|path| path.extension().is_some_and(|ending| ending == "jsonl"));
    let saved = fs::read_to_string(saved.expect("a file")).expect("it can be read");
    for line in saved.lines() {
        let line: Value = serde_json::from_str(line).expect("a line is JSON");
        let attributes = &line["attributes"];
        assert_eq!(attributes["eid"]["stringValue"], line["eventId"], "{line}");
        assert_eq!(attributes["raw"]["binaryValue"], "AJ+Slg==", "{line}");
    }

    let redrive = ["redrive", "--from", "quarantine", "--where"];
    let in_group = "attributes.eid && attributes.\"AWS.MessageGroupId\"";
    let wanted = [&redrive[..], &[in_group, "--yes"]].concat();
    let redriven = batchctl.json(0, &wanted).await;
    assert_eq!(redriven["counts"]["redriven"], IDS.len(), "{redriven}");
    rig.until_metric("BatchesCompleted", 2).await;
    rig.until_drained().await;
    assert_eq!(rig.delivered_ids(), IDS, "each once");
    for (id, envelope) in rig.envelopes() {
        let attributes = json!({
            "AWS.MessageGroupId": { "dataType": "String", "stringValue": format!("group-{id}") },
            "eid": { "dataType": "String", "stringValue": id },
            "raw": { "dataType": "Binary", "binaryValue": "AJ+Slg==" },
        });
        assert_eq!(envelope["attributes"], attributes);
        assert_eq!(envelope["body"], format!("body of {id}"));
    }
    rig.end().await;
}

#[tokio::test]
async fn discarded_events_are_redriven_with_the_attribute_that_is_their_id() {
    for bodies in cases(&[BodiesKind::Items, BodiesKind::LogTable]) {
        a_discarded_event_whose_id_is_an_attribute_is_redriven(bodies).await;
    }
}

#[tokio::test]
async fn ten_attributes_come_back_from_the_quarantine_whatever_their_names() {
    let rig = Setup::new().one_aggregator_environment().start().await;
    let batchctl = Batchctl::of(&rig);
    let text = |message: &Message, name: &str| {
        let attribute = message.message_attributes.get(name);
        attribute.and_then(|one| one.string_value.clone())
    };
    rig.send_with("not JSON", ten());
    rig.until_depth(QUARANTINE_QUEUE, 1).await;
    let redrive = ["redrive", "--from", "quarantine", "--where"];
    let wanted = [&redrive[..], &["attributes.tenant == 't1'", "--yes"]].concat();
    let redriven = batchctl.json(0, &wanted).await;
    assert_eq!(redriven["counts"]["redriven"], 1, "{redriven}");
    // It is as wrong as before, and comes back with what it was sent with the second time.
    rig.until_metric("Quarantined", 2).await;
    let [message] = &rig.take(QUARANTINE_QUEUE, 1).await[..] else {
        panic!("one message");
    };
    let reason = text(message, "reason").expect("it has a reason");
    assert!(reason.starts_with("body: not JSON"), "{reason}");
    assert_eq!(
        text(message, "source"),
        Some(rig.stack.sqs.arn(INPUT_QUEUE))
    );
    let more = text(message, "moreAttributes").expect("it has more than have a place");
    let more: Value = serde_json::from_str(&more).expect("it is JSON");
    let ten_in_json = ten_in_json();
    for (name, attribute) in ten() {
        match more.get(&name) {
            Some(found) => assert_eq!(*found, ten_in_json[&name], "{name}"),
            None => assert_eq!(
                message.message_attributes.get(&name),
                Some(&attribute),
                "{name}"
            ),
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
    let redrive = ["redrive", "--from", "quarantine", "--all", "--yes"];
    let redriven = Batchctl::of(&rig).json(0, &redrive).await;
    assert_eq!(redriven["counts"]["redriven"], 1, "{redriven}");
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
