//! Batches: `show`, `retry`, `discard`, `pause` and `resume`.

use std::fs;

use local::bodies::BodiesKind;
use local::stack::QUARANTINE_QUEUE;
use protocol::batch::Status;
use serde_json::Value;

use super::{Batchctl, YES};
use crate::events::body;
use crate::output::sorted;
use crate::rig::{Rig, Setup, cases};

const IDS: [&str; 3] = ["a", "b", "c"];

/// Returns a stack with one batch of three events in error, because a file is where the sink would have none.
async fn with_a_batch_in_error(bodies: BodiesKind) -> (Rig, String) {
    let rig = Setup::new()
        .window(5)
        .bodies(bodies)
        .one_aggregator_environment()
        .start()
        .await;
    // In one event, so that all are in one batch.
    let source = rig.stack.sqs.arn(local::stack::INPUT_QUEUE);
    let bodies = IDS.map(body);
    let messages: Vec<(&str, &str)> = IDS
        .into_iter()
        .zip(bodies.iter().map(String::as_str))
        .collect();
    let event = crate::events::event(&source, &messages);
    let failed = crate::events::failures(&rig, &rig.stack.aggregator, event).await;
    assert_eq!(failed, [""; 0]);
    let batch = &rig.only_batch().await;
    fs::create_dir_all(rig.stack.out.join(batch)).expect("the sink is a directory");
    fs::write(obstacle(&rig, batch), "an obstacle").expect("the sink takes a file");
    rig.until("the batch is in error", async || {
        rig.statuses().await[&Status::Error] == 1
    })
    .await;
    (rig, batch.clone())
}

/// Returns the path of a reject list that the sink does not expect.
fn obstacle(rig: &Rig, batch: &str) -> std::path::PathBuf {
    rig.stack.out.join(batch).join("0.rejects")
}

async fn a_batch_in_error_is_found_shown_and_delivered_after_a_retry(bodies: BodiesKind) {
    let (rig, batch) = with_a_batch_in_error(bodies).await;
    let batchctl = Batchctl::of(&rig);
    let listed = batchctl
        .json(0, &["list", "--error", "exists with other content"])
        .await;
    assert_eq!(listed["batches"][0]["batchId"], batch.as_str(), "{listed}");
    let none = batchctl
        .json(0, &["list", "--error", "nothing like it"])
        .await;
    assert_eq!(none["matching"], 0, "{none}");
    let shown = batchctl.json(0, &["show", &batch[..13]]).await;
    assert_eq!(shown["status"], "error", "{shown}");
    assert_eq!(shown["counts"]["confirmed"], 3, "{shown}");
    assert_eq!(shown["partList"][0]["state"], "frozen", "{shown}");
    let found = batchctl.json(0, &["find", "a"]).await;
    assert_eq!(
        (&found["state"], &found["batchStatus"]),
        (&"live".into(), &"error".into())
    );

    let retry = ["retry", "--error", "exists with other content"];
    let would = batchctl.json(4, &retry).await;
    assert_eq!(would["batches"][0]["outcome"], "would", "{would}");
    assert_eq!(rig.statuses().await[&Status::Error], 1, "only shown");
    let text = batchctl.text(&retry).await;
    let hint = "1 batch to retry: add --yes --why TEXT --by NAME\n";
    assert!(text.out.ends_with(hint), "{text:?}");

    fs::remove_file(obstacle(&rig, &batch)).expect("it is there");
    let done = batchctl.change(&retry).await;
    assert_eq!(done["batches"][0]["outcome"], "sent", "{done}");
    rig.until_metric("BatchesCompleted", 1).await;
    assert_eq!(rig.delivered_ids(), IDS);
    let shown = batchctl.json(0, &["show", &batch]).await;
    assert_eq!(
        (&shown["status"], &shown["delivered"]),
        (&"complete".into(), &3.into())
    );
    let note = &shown["notes"][0];
    assert_eq!(
        (&note["action"], &note["by"], &note["why"]),
        (&"retry".into(), &"tester".into(), &"a test".into())
    );
    let complete = batchctl.json(0, &["list", "--status", "complete"]).await;
    assert_eq!(
        complete["batches"][0]["batchId"],
        batch.as_str(),
        "{complete}"
    );
    // There is nothing to retry any more.
    let left = batchctl
        .json(3, &[&["retry", &batch], &YES[..]].concat())
        .await;
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
    let (rig, batch) = with_a_batch_in_error(bodies).await;
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
    let files = fs::read_dir(made).expect("the directory was made");
    let files = files.map(|entry| entry.expect("it can be read").path());
    let file = files.filter(|path| path.extension().is_some_and(|ending| ending == "jsonl"));
    let text = fs::read_to_string(file.last().expect("a file")).expect("it can be read");
    let lines = text
        .lines()
        .map(|line| serde_json::from_str(line).expect("a line is JSON"));
    let lines: Vec<Value> = lines.collect();
    let ids = lines
        .iter()
        .map(|line| line["eventId"].as_str().unwrap_or_default());
    assert_eq!(sorted(ids), IDS);
    assert!(lines.iter().all(|line| {
        line["body"]
            .as_str()
            .is_some_and(|body| body.contains("value of"))
    }));
    let found = batchctl.json(0, &["find", "a"]).await;
    assert_eq!(found["state"], "setAside", "{found}");

    // The obstacle is gone, and everything is redriven.
    let redrive = ["redrive", "--from", "quarantine", "--all", "--yes"];
    let redriven = batchctl.json(0, &redrive).await;
    assert_eq!(redriven["counts"]["redriven"], 3, "{redriven}");
    rig.until_metric("BatchesCompleted", 2).await;
    assert_eq!(rig.delivered_ids(), IDS);
    rig.end().await;
}

#[tokio::test]
async fn a_batch_is_discarded() {
    for bodies in cases(&[BodiesKind::LogS3, BodiesKind::Items]) {
        a_discarded_batch_is_in_a_file_and_in_the_quarantine(bodies).await;
    }
}

async fn a_delivered_batch_is_replayed_to_another_directory(bodies: BodiesKind) {
    let rig = Setup::new()
        .bodies(bodies)
        .var("MAX_BATCH_SIZE", 200)
        .var("MAX_BATCH_BYTES", 409_600)
        .var("MAX_PART_BYTES", 16_384)
        .one_aggregator_environment()
        .start()
        .await;
    let ids = sorted((0..200).map(|number| format!("e{number}")));
    ids.iter().for_each(|id| rig.send(body(id)));
    rig.until_drained().await;
    let batchctl = Batchctl::of(&rig);
    let other = batchctl.directory.path().join("other");
    let to = format!("file://{}", other.display());
    for batch in &rig.batch_ids().await {
        let would = batchctl.json(4, &["replay", batch, "--to", &to]).await;
        let parts = would["parts"].as_array().map(Vec::len);
        assert!(parts >= Some(2), "large parts share a set: {would}");
        let taken = batchctl.directory.path().join("taken");
        fs::write(&taken, "a file, where the directory should be").expect("it can be written");
        let wrong = format!("file://{}", taken.display());
        let replay = ["replay", batch, "--to", &wrong];
        let failed = batchctl.json(1, &[&replay[..], &YES].concat()).await;
        assert_eq!(failed["done"], false, "{failed}");
        let shown = batchctl.json(0, &["show", batch]).await;
        let action = shown["notes"][0]["action"].as_str().unwrap_or_default();
        let expected = format!(
            "replay ended early, 0 of {} parts",
            parts.unwrap_or_default()
        );
        assert!(action.starts_with(&expected), "{shown}");

        let done = batchctl.change(&["replay", batch, "--to", &to]).await;
        assert_eq!(
            (&done["done"], &done["left"]),
            (&true.into(), &0.into()),
            "{done}"
        );
        let shown = batchctl.json(0, &["show", batch]).await;
        assert!(
            shown["notes"][1]["action"].as_str().is_some_and(|did| {
                did.starts_with("replayed ") && did.contains(" parts to file:")
            }),
            "{shown}"
        );
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
    let source = rig.stack.sqs.arn(local::stack::INPUT_QUEUE);
    let scope = ["--source", source.as_str()];
    let paused = batchctl
        .change(&[&["pause", "--for", "1h"], &scope[..]].concat())
        .await;
    assert_eq!(paused["pauses"][0]["why"], "a test", "{paused}");
    IDS.iter().for_each(|id| rig.send(body(id)));
    rig.until("the batch waits", async || rig.has_logged("why=Pause"))
        .await;
    rig.until_depth(local::stack::BATCH_QUEUE, 0).await;
    assert!(!rig.has_parts());
    let listed = batchctl.json(0, &["list", "--status", "overdue"]).await;
    assert_eq!(
        listed["matching"], 0,
        "a paused batch is not overdue: {listed}"
    );
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
    let other = batchctl
        .text(&[&["resume", "--all"], &YES[..]].concat())
        .await;
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
