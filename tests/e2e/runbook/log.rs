//! The index of the log is lost, in whole or in part.

use std::collections::BTreeMap;

use aws_sdk_dynamodb::types::AttributeValue;
use local::bodies::BodiesKind;
use local::dynamodb::BATCH_TABLE;
use protocol::batch::Status;

use super::alarms::State;
use super::page::Rehearsal;
use crate::events::body;
use crate::rig::{Rig, Setup};
use crate::tables::text;

/// Events of each batch.
const EVENTS: usize = 3;

/// Returns a stack of the log in which the event `e0` was delivered, with two others.
async fn with_a_delivered_batch() -> Rig {
    let setup = Setup::new().quick().bodies(BodiesKind::LogTable);
    let setup = setup.batches_of(EVENTS).one_aggregator_environment();
    let rig = setup.start().await;
    (0..EVENTS).for_each(|number| rig.send(body(&format!("e{number}"))));
    rig.until_drained().await;
    rig
}

/// Somebody removes the items of the batch table whose keys begin with `prefix`. Returns the names of those that are no pieces.
async fn remove(rig: &Rig, prefix: &str) -> Vec<String> {
    let items = rig.batch_items().await;
    let keys = items.iter().map(|item| text(item, "batchId").to_owned());
    let mut keys = Vec::from_iter(keys.filter(|key| key.starts_with(prefix)));
    for key in &keys {
        let delete = rig.dynamodb().delete_item().table_name(BATCH_TABLE);
        let delete = delete.key("batchId", AttributeValue::S(key.clone()));
        delete.send().await.expect("the item can be removed");
    }
    keys.retain(|key| key.matches('/').count() < 2);
    keys
}

/// Sends a duplicate of `e0` and two other events, and waits until the alarm says that their batch is in error.
async fn fails(rig: &Rig, page: &Rehearsal<'_>) {
    // An environment would remember what it read before.
    rig.stack.batch_processor.redeploy(&BTreeMap::new());
    for id in ["e0", "f1", "f2"] {
        rig.send(body(id));
    }
    page.until_alarm(State::Alarm).await;
}

/// Waits until the batch that was in error is complete, as the one before it. `until_drained` alone does not wait for a batch in error, and it
/// stays in error until the ticket of its retry is taken.
async fn until_complete(rig: &Rig) {
    rig.until_metric("BatchesCompleted", 2).await;
    rig.until_drained().await;
}

#[tokio::test]
async fn a_lost_manifest_is_made_anew_and_its_events_are_still_remembered() {
    let rig = with_a_delivered_batch().await;
    let mut page = Rehearsal::of(&rig, "The manifest of the log is lost");
    let epoch = rig.named_item("dedup#epoch").await;
    let manifest = format!("dedup#{}", text(&epoch, "epoch"));
    assert_eq!(remove(&rig, &manifest).await, [&*manifest]);
    fails(&rig, &page).await;
    let listed = page.looks("list --status error").await;
    let error = listed["batches"][0]["error"].as_str().unwrap_or_default();
    let missing = format!("index: manifest `{manifest}`: missing");
    assert!(error.contains(&missing), "{listed}");
    let would = page.looks("rebuild-dedup").await;
    assert_eq!(would["batches"], 1, "{would}");
    assert_eq!(would["entries"], EVENTS, "{would}");
    let done = page.changes("rebuild-dedup").await;
    assert_eq!(done["done"], true, "{done}");
    until_complete(&rig).await;
    page.sees_no_batch().await;
    page.end_when_ok().await;
    assert_eq!(rig.delivered_ids(), ["e0", "e1", "e2", "f1", "f2"]);
    rig.end().await;
}

#[tokio::test]
async fn a_run_that_cannot_be_read_is_dropped_and_its_events_are_delivered_again() {
    let rig = with_a_delivered_batch().await;
    let mut page = Rehearsal::of(&rig, "A run of the log cannot be read");
    let runs = remove(&rig, "run/").await;
    assert_eq!(runs.len(), 1, "{runs:?}");
    fails(&rig, &page).await;
    let batch = rig.batch_with(Status::Error).await;
    page.set("BATCH", &batch);
    page.set("RUN", &runs[0]);
    let shown = page.looks("show").await;
    let error = shown["error"].as_str().unwrap_or_default();
    let missing = format!("object `{}`: missing", runs[0]);
    assert!(error.contains(&missing), "{shown}");
    let status = page.looks("dedup status").await;
    assert_eq!(status["runs"], 1, "{status}");
    assert_eq!(status["entries"], EVENTS, "{status}");
    let would = page.looks("drop-run").await;
    assert_eq!(would["entries"], EVENTS, "{would}");
    page.changes("drop-run").await;
    until_complete(&rig).await;
    page.sees_no_batch().await;
    page.end_when_ok().await;
    let expected = ["e0", "e0", "e1", "e2", "f1", "f2"];
    assert_eq!(rig.delivered_ids(), expected);
    rig.end().await;
}
