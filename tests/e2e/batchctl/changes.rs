//! Batches: `show`, `retry`, `discard`, `pause` and `resume`.

use std::fs;
use std::path::PathBuf;

use bytes::Bytes;
use local::bodies::BodiesKind;
use local::stack::{INPUT_QUEUE, QUARANTINE_QUEUE};
use protocol::batch::Status;
use serde_json::{Value, json};
use tests::files_below;

use super::{Batchctl, YES};
use crate::events::{body, failures};
use crate::output::sorted;
use crate::rig::{Rig, Setup, cases};

const IDS: [&str; 3] = ["a", "b", "c"];

/// Returns an event of Lambda with three messages, so that they are in one batch. The event id of each is an attribute.
fn messages(source: &str) -> Bytes {
    let record = |id: &str| {
        json!({
            "messageId": format!("message-{id}"),
            "body": body(id),
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

/// Returns a stack with one batch of three events in error, the batch, and the file because of which the sink refused it.
async fn with_a_batch_in_error(bodies: BodiesKind) -> (Rig, String, PathBuf) {
    let setup = Setup::new().window(5).bodies(bodies);
    let setup = setup.var("EVENT_ID", "attribute:eid");
    let rig = setup.one_aggregator_environment().start().await;
    let event = messages(&rig.stack.sqs.arn(INPUT_QUEUE));
    assert_eq!(failures(&rig, &rig.stack.aggregator, event).await, [""; 0]);
    let batch = rig.only_batch().await;
    let obstacle = rig.put_in_error(&batch).await;
    (rig, batch, obstacle)
}

async fn a_batch_in_error_is_found_shown_and_delivered_after_a_retry(bodies: BodiesKind) {
    let (rig, batch, obstacle) = with_a_batch_in_error(bodies).await;
    let batchctl = Batchctl::of(&rig);
    let list = ["list", "--error", "exists with other content"];
    let listed = batchctl.json(0, &list).await;
    assert_eq!(listed["batches"][0]["batchId"], *batch, "{listed}");
    let list = ["list", "--error", "nothing like it"];
    let none = batchctl.json(0, &list).await;
    assert_eq!(none["matching"], 0, "{none}");
    let shown = batchctl.json(0, &["show", &batch[..13]]).await;
    assert_eq!(shown["status"], "error", "{shown}");
    assert_eq!(shown["counts"]["confirmed"], 3, "{shown}");
    assert_eq!(shown["partList"][0]["state"], "frozen", "{shown}");
    let found = batchctl.json(0, &["find", "a"]).await;
    assert_eq!(found["state"], "live", "{found}");
    assert_eq!(found["batchStatus"], "error", "{found}");

    let retry = ["retry", "--error", "exists with other content"];
    let would = batchctl.json(4, &retry).await;
    assert_eq!(would["batches"][0]["outcome"], "would", "{would}");
    assert_eq!(rig.statuses().await[&Status::Error], 1, "only shown");
    let text = batchctl.text(&retry).await;
    let hint = "1 batch to retry: add --yes --why TEXT --by NAME\n";
    assert!(text.out.ends_with(hint), "{text:?}");

    fs::remove_file(obstacle).expect("it is there");
    let done = batchctl.change(&retry).await;
    assert_eq!(done["batches"][0]["outcome"], "sent", "{done}");
    rig.until_metric("BatchesCompleted", 1).await;
    assert_eq!(rig.delivered_ids(), IDS);
    let shown = batchctl.json(0, &["show", &batch]).await;
    assert_eq!(shown["status"], "complete", "{shown}");
    assert_eq!(shown["delivered"], 3, "{shown}");
    let note = &shown["notes"][0];
    for (field, value) in [("action", "retry"), ("by", "tester"), ("why", "a test")] {
        assert_eq!(note[field], value, "{shown}");
    }
    let complete = batchctl.json(0, &["list", "--status", "complete"]).await;
    assert_eq!(complete["batches"][0]["batchId"], *batch, "{complete}");
    // There is nothing to retry any more.
    let retry = [&["retry", &batch], &YES[..]].concat();
    let left = batchctl.json(3, &retry).await;
    assert_eq!(left["batches"][0]["outcome"], "left", "{left}");
    rig.end().await;
}

#[tokio::test]
async fn a_batch_in_error_is_retried() {
    for bodies in cases(&[BodiesKind::Items, BodiesKind::LogTable]) {
        a_batch_in_error_is_found_shown_and_delivered_after_a_retry(bodies).await;
    }
}

async fn a_discarded_batch_is_in_a_file_and_in_the_quarantine(bodies: BodiesKind) {
    let (rig, batch, _) = with_a_batch_in_error(bodies).await;
    let batchctl = Batchctl::of(&rig);
    let made = batchctl.directory.path().join("made/here");
    let discard = ["discard", &batch, "--dir", "made/here"];
    batchctl.json(4, &discard).await;
    assert!(!made.exists(), "only shown");
    let done = batchctl.change(&discard).await;
    let detail = done["batches"][0]["detail"].as_str().unwrap_or_default();
    assert!(detail.starts_with("3 events in "), "{done}");
    rig.until_depth(QUARANTINE_QUEUE, 3).await;
    rig.until_metric("BatchesCompleted", 1).await;
    let files = files_below(&made, ".jsonl");
    let text = fs::read_to_string(&files[0]).expect("it can be read");
    let mut ids = Vec::new();
    for line in text.lines() {
        let line: Value = serde_json::from_str(line).expect("a line is JSON");
        let id = line["eventId"].as_str().expect("it has an id");
        assert_eq!(line["body"], body(id), "{line}");
        let attributes = &line["attributes"];
        assert_eq!(attributes["eid"]["stringValue"], id, "{line}");
        assert_eq!(attributes["raw"]["binaryValue"], "AJ+Slg==", "{line}");
        ids.push(id.to_owned());
    }
    assert_eq!(sorted(ids), IDS);
    let found = batchctl.json(0, &["find", "a"]).await;
    assert_eq!(found["state"], "setAside", "{found}");

    // In another batch, for which there is no such file.
    let in_group = "attributes.eid && attributes.\"AWS.MessageGroupId\"";
    batchctl.redrive_quarantine(&["--where", in_group], 3).await;
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
        assert_eq!(envelope["body"], body(&id));
    }
    rig.end().await;
}

#[tokio::test]
async fn a_batch_is_discarded() {
    for bodies in cases(&[BodiesKind::LogS3, BodiesKind::Items, BodiesKind::LogTable]) {
        a_discarded_batch_is_in_a_file_and_in_the_quarantine(bodies).await;
    }
}

async fn a_delivered_batch_is_replayed_to_another_directory(bodies: BodiesKind) {
    let setup = Setup::new().bodies(bodies).batches_of(200);
    let setup = setup.var("MAX_BATCH_BYTES", 409_600);
    let setup = setup.var("MAX_PART_BYTES", 16_384);
    let rig = setup.one_aggregator_environment().start().await;
    let ids = sorted((0..200).map(|number| format!("e{number}")));
    ids.iter().for_each(|id| rig.send(body(id)));
    rig.until_drained().await;
    let batchctl = Batchctl::of(&rig);
    let other = batchctl.directory.path().join("other");
    let to = format!("file://{}", other.display());
    for batch in &rig.batch_ids().await {
        let would = batchctl.json(4, &["replay", batch, "--to", &to]).await;
        let parts = would["parts"].as_array().map_or(0, Vec::len);
        assert!(parts >= 2, "large parts share a set: {would}");
        let taken = batchctl.directory.path().join("taken");
        fs::write(&taken, "a file, where the directory should be").expect("it can be written");
        let wrong = format!("file://{}", taken.display());
        let replay = ["replay", batch, "--to", &wrong];
        let failed = batchctl.json(1, &[&replay[..], &YES].concat()).await;
        assert_eq!(failed["done"], false, "{failed}");
        let shown = batchctl.json(0, &["show", batch]).await;
        let action = shown["notes"][0]["action"].as_str().unwrap_or_default();
        let expected = format!("replay ended early, 0 of {parts} parts");
        assert!(action.starts_with(&expected), "{shown}");

        let done = batchctl.change(&["replay", batch, "--to", &to]).await;
        assert_eq!(done["done"], true, "{done}");
        assert_eq!(done["left"], 0, "{done}");
        let shown = batchctl.json(0, &["show", batch]).await;
        let did = shown["notes"][1]["action"].as_str().unwrap_or_default();
        assert!(did.starts_with("replayed "), "{shown}");
        assert!(did.contains(" parts to file:"), "{shown}");
        assert_eq!(shown["notes"].as_array().map(Vec::len), Some(2), "{shown}");
    }
    assert_eq!(crate::output::delivered(&other), rig.delivered());
    rig.end().await;
}

#[tokio::test]
async fn a_batch_of_the_log_is_replayed() {
    a_delivered_batch_is_replayed_to_another_directory(BodiesKind::LogTable).await;
}

/// Pauses deliveries for an hour, and waits until a batch of three events waits for the end. Returns the stack, and the options of the
/// pause.
async fn with_a_paused_batch() -> (Rig, [String; 2]) {
    let rig = Setup::new().one_aggregator_environment().start().await;
    let batchctl = Batchctl::of(&rig);
    let source = rig.stack.sqs.arn(INPUT_QUEUE);
    let scope = ["--source", source.as_str()];
    let pause = [&["pause", "--for", "1h"], &scope[..]].concat();
    let paused = batchctl.change(&pause).await;
    assert_eq!(paused["pauses"][0]["why"], "a test", "{paused}");
    IDS.iter().for_each(|id| rig.send(body(id)));
    rig.until_logged("why=Pause").await;
    rig.until_depth(local::stack::BATCH_QUEUE, 0).await;
    assert!(!rig.has_parts());
    let listed = batchctl.json(0, &["list", "--status", "overdue"]).await;
    assert_eq!(listed["matching"], 0, "it is not overdue: {listed}");
    let waiting = batchctl.json(0, &["list", "--status", "processing"]).await;
    let batch = waiting["batches"][0]["batchId"].as_str().expect("an id");
    let shown = batchctl.json(0, &["show", batch]).await;
    assert_eq!(shown["waits"]["for"], "pause", "{shown}");
    (rig, scope.map(str::to_owned))
}

#[tokio::test]
async fn paused_batches_are_delivered_once_after_resume() {
    let (rig, scope) = with_a_paused_batch().await;
    let batchctl = Batchctl::of(&rig);
    let all = [&["resume", "--all"], &YES[..]].concat();
    let other = batchctl.text(&all).await;
    assert_eq!(other.code, Some(3), "{other:?}");
    let [option, source] = &scope;
    let resumed = batchctl.change(&["resume", option, source]).await;
    assert_eq!(resumed["tickets"], 1, "{resumed}");
    rig.until_drained().await;
    assert_eq!(rig.delivered_ids(), IDS);
    rig.end().await;
}

#[tokio::test]
async fn paused_batches_are_delivered_once_after_a_shorter_pause() {
    let (rig, [option, source]) = with_a_paused_batch().await;
    let batchctl = Batchctl::of(&rig);
    let pause = |time| ["pause", "--for", time, &option, &source];
    let longer = batchctl.json(4, &pause("2h")).await;
    assert_eq!(longer["tickets"], 0, "{longer}");
    let shorter = batchctl.change(&pause("1s")).await;
    assert_eq!(shorter["pauses"].as_array().map(Vec::len), Some(1));
    assert_eq!(shorter["tickets"], 1, "{shorter}");
    rig.until_drained().await;
    assert_eq!(rig.delivered_ids(), IDS);
    rig.end().await;
}
