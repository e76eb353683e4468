//! The index of the log: `prime`, `tombstones`, `find`, `forget` and `dedup status`; and `redrive` with it.

use local::bodies::BodiesKind;
use local::stack::{INPUT_DEAD_LETTER_QUEUE, QUARANTINE_QUEUE};
use serde_json::Value;

use super::events::delivers_a_pair;
use super::{Batchctl, YES};
use crate::events::{body, take_all};
use crate::rig::{Rig, Setup, cases};
use crate::tables::text;

/// Returns a stack in which two messages fill a batch.
async fn of_pairs(bodies: BodiesKind) -> Rig {
    let setup = Setup::new().bodies(bodies).batches_of(2).window(600);
    setup.one_aggregator_environment().start().await
}

async fn what_is_primed_is_a_duplicate_and_what_is_forgotten_is_not(bodies: BodiesKind) {
    let rig = of_pairs(bodies).await;
    let batchctl = Batchctl::of(&rig);
    let none = batchctl.text(&["dedup", "status"]).await;
    assert_eq!(none.code, Some(3), "{none:?}");
    let ids = batchctl.directory.path().join("ids.txt");
    std::fs::write(ids, "\u{feff}p\r\n\nq\n").expect("the directory takes a file");
    let prime = ["prime", "--ids", "ids.txt", "--for", "1h"];
    let shown = batchctl.json(4, &prime).await;
    assert_eq!(shown["events"], 2, "{shown}");
    assert_eq!(shown["done"], false, "{shown}");
    batchctl.change(&prime).await;
    let found = batchctl.json(0, &["find", "p"]).await;
    assert_eq!(found["state"], "delivered", "{found}");
    assert!(found["rememberedUntil"].is_number(), "{found}");

    delivers_a_pair(&rig, ["p", "a"]).await;
    assert_eq!(rig.delivered_ids(), ["a"]);
    let status = batchctl.json(0, &["dedup", "status"]).await;
    assert_eq!(status["runs"], 2, "{status}");
    assert_eq!(status["entries"], 3, "{status}");

    let refused = batchctl.text(&[&["forget", "p"][..], &YES].concat()).await;
    assert_eq!(refused.code, Some(5), "{refused:?}");
    assert!(refused.err.contains("it was primed"), "{refused:?}");
    let done = batchctl.change(&["forget", "a"]).await;
    assert_eq!(done["state"], "delivered", "{done}");
    let found: Value = batchctl.json(3, &["find", "a"]).await;
    assert_eq!(found["state"], "unknown", "{found}");
    delivers_a_pair(&rig, ["a", "b"]).await;
    // Only its first delivery was forgotten.
    delivers_a_pair(&rig, ["a", "c"]).await;
    assert_eq!(rig.delivered_ids(), ["a", "a", "b", "c"]);
    rig.end().await;
}

#[tokio::test]
async fn the_index_of_the_log_can_be_primed_and_forgets_single_events() {
    for bodies in cases(&[BodiesKind::LogTable, BodiesKind::LogS3]) {
        what_is_primed_is_a_duplicate_and_what_is_forgotten_is_not(bodies).await;
    }
}

#[tokio::test]
async fn what_the_lock_table_remembers_is_a_duplicate_after_a_switch_to_the_log() {
    let rig = of_pairs(BodiesKind::Items).await;
    let batchctl = Batchctl::of(&rig);
    let prime = ["prime", "--lock-table", "--bodies", "log:table"];
    let no_log = ["prime", "--lock-table", "--bodies", "items"];
    let refused = batchctl.text(&no_log).await;
    assert_eq!(refused.code, Some(2), "{refused:?}");
    let words = "`--bodies`: got `items`";
    assert!(refused.err.contains(words), "{refused:?}");
    rig.send(body("a"));
    rig.until_metric("Claimed", 1).await;
    let refused = batchctl.text(&[&prime[..], &YES].concat()).await;
    assert_eq!(refused.code, Some(5), "{refused:?}");
    assert!(refused.err.contains("got 1, expected none"), "{refused:?}");
    rig.send(body("b"));
    rig.until_drained().await;
    let primed = batchctl.change(&prime).await;
    assert_eq!(primed["events"], 2, "{primed}");
    assert_eq!(primed["messages"], 0, "{primed}");
    rig.redeploy_with(&[("BODIES", "log:table")]);
    delivers_a_pair(&rig, ["a", "c"]).await;
    assert_eq!(rig.delivered_ids(), ["a", "b", "c"]);

    // Without the run that was primed, it is delivered again. No batch is in error, so none is tried again.
    let items = rig.batch_items().await;
    let ids = items.iter().map(|item| text(item, "batchId"));
    let runs = ids.filter_map(|id| id.strip_prefix("run/"));
    for run in runs.filter(|run| !run.contains('/')) {
        batchctl.change(&["drop-run", run]).await;
    }
    delivers_a_pair(&rig, ["a", "d"]).await;
    assert_eq!(rig.delivered_ids(), ["a", "a", "b", "c", "d"]);
    rig.end().await;
}

async fn what_the_log_remembers_is_a_duplicate_after_a_switch_back(bodies: BodiesKind) {
    let rig = of_pairs(bodies).await;
    let batchctl = Batchctl::of(&rig);
    let ids = batchctl.directory.path().join("ids.txt");
    std::fs::write(ids, "p\n").expect("the directory takes a file");
    let prime = ["prime", "--ids", "ids.txt", "--for", "1h"];
    batchctl.change(&prime).await;
    delivers_a_pair(&rig, ["a", "f"]).await;
    batchctl.change(&["forget", "f"]).await;
    rig.send(body("b"));
    rig.until_metric("Reserved", 3).await;
    let refused = batchctl.text(&[&["tombstones"][..], &YES].concat()).await;
    assert_eq!(refused.code, Some(5), "{refused:?}");
    let words = "not complete: got 1, expected none; the oldest is `";
    assert!(refused.err.contains(words), "{refused:?}");
    rig.send(body("c"));
    rig.until_drained().await;

    let shown = batchctl.json(4, &["tombstones"]).await;
    let counts = |report: &Value| {
        ["batches", "events", "messages", "present", "primed"].map(|name| report[name].as_u64())
    };
    assert_eq!(counts(&shown), [2, 3, 0, 0, 1].map(Some), "{shown}");
    let unknown = batchctl.json(3, &["find", "f"]).await;
    assert_eq!(unknown["state"], "unknown", "{unknown}");
    let done = batchctl.change(&["tombstones"]).await;
    assert_eq!(counts(&done), [2, 3, 0, 0, 1].map(Some), "{done}");
    let again = batchctl.change(&["tombstones"]).await;
    assert_eq!(counts(&again), [2, 3, 0, 3, 1].map(Some), "{again}");

    // Duplicates may take seats, so that no batch gets full.
    rig.redeploy_with(&[("BODIES", "items"), ("MAX_SECONDARY_BATCHING_WINDOW", "1")]);
    let ids = ["a", "b", "c", "d", "f"];
    ids.iter().for_each(|id| rig.send(body(id)));
    rig.send(r#"{"id":"a","other":true}"#);
    rig.until_drained().await;
    // `f` was forgotten.
    assert_eq!(rig.delivered_ids(), ["a", "b", "c", "d", "f", "f"]);
    rig.until_depth(QUARANTINE_QUEUE, 1).await;
    rig.end_with_set_aside(1, 0).await;
}

#[tokio::test]
async fn tombstones_take_what_the_log_remembers_to_the_lock_table() {
    for bodies in cases(&[BodiesKind::LogTable, BodiesKind::LogS3]) {
        what_the_log_remembers_is_a_duplicate_after_a_switch_back(bodies).await;
    }
}

#[tokio::test]
async fn a_dead_letter_is_left_whose_event_may_be_in_a_batch_of_the_log_that_is_not_decided() {
    let setup = Setup::new().bodies(BodiesKind::LogTable);
    let setup = setup.var("EVENT_ID", "message-id").window(600);
    let rig = setup.start().await;
    let batchctl = Batchctl::of(&rig);
    let letter = rig.send_to(INPUT_DEAD_LETTER_QUEUE, body("a"));
    take_all(&rig, &[(&letter, &body("a"))]).await;
    let redrive = ["redrive", "--from", "dead-letters", "--all"];
    let left = batchctl.json(3, &redrive).await;
    let outcome = "left: it may have been delivered; look for it at the sink";
    assert_eq!(left["counts"][outcome], 1, "{left}");
    rig.stack.stop().await;
}
