//! The index of the log: `prime`, `find`, `forget` and `dedup status`.

use local::bodies::BodiesKind;
use serde_json::Value;

use super::{Batchctl, YES};
use crate::events::body;
use crate::output::sorted;
use crate::rig::{Rig, Setup, cases};
use crate::tables::{Item, text};

/// Sends a message of each event, and waits until their batch is complete.
async fn sends(rig: &Rig, ids: [&str; 2]) {
    let completed = rig.stack.function_logs.sum("BatchesCompleted");
    ids.iter().for_each(|id| rig.send(body(id)));
    rig.until_metric("BatchesCompleted", completed + 1).await;
}

/// Returns a stack in which two messages fill a batch.
async fn of_pairs(bodies: BodiesKind) -> Rig {
    Setup::new()
        .bodies(bodies)
        .var("MAX_BATCH_SIZE", 2)
        .window(600)
        .one_aggregator_environment()
        .start()
        .await
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
    assert_eq!(
        (&shown["events"], &shown["done"]),
        (&2.into(), &false.into())
    );
    batchctl.change(&prime).await;
    let found = batchctl.json(0, &["find", "p"]).await;
    assert_eq!(found["state"], "delivered", "{found}");
    assert!(found["rememberedUntil"].is_number(), "{found}");

    sends(&rig, ["p", "a"]).await;
    assert_eq!(sorted(rig.delivered_ids()), ["a"]);
    let status = batchctl.json(0, &["dedup", "status"]).await;
    assert_eq!(
        (&status["runs"], &status["entries"]),
        (&2.into(), &3.into()),
        "{status}"
    );

    let refused = batchctl.text(&[&["forget", "p"][..], &YES].concat()).await;
    assert_eq!(refused.code, Some(5), "{refused:?}");
    assert!(refused.err.contains("it was primed"), "{refused:?}");
    let done = batchctl.change(&["forget", "a"]).await;
    assert_eq!(done["state"], "delivered", "{done}");
    let found: Value = batchctl.json(3, &["find", "a"]).await;
    assert_eq!(found["state"], "unknown", "{found}");
    sends(&rig, ["a", "b"]).await;
    // Only its first delivery was forgotten.
    sends(&rig, ["a", "c"]).await;
    assert_eq!(sorted(rig.delivered_ids()), ["a", "a", "b", "c"]);
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
    assert!(
        refused.err.contains("`--bodies`: got `items`"),
        "{refused:?}"
    );
    rig.send(body("a"));
    rig.until_metric("Claimed", 1).await;
    let refused = batchctl.text(&[&prime[..], &YES].concat()).await;
    assert_eq!(refused.code, Some(5), "{refused:?}");
    assert!(refused.err.contains("got 1, expected none"), "{refused:?}");
    rig.send(body("b"));
    rig.until_drained().await;
    let primed = batchctl.change(&prime).await;
    assert_eq!(
        (&primed["events"], &primed["messages"]),
        (&2.into(), &0.into()),
        "{primed}"
    );
    let to_log = [("BODIES".to_owned(), "log:table".to_owned())].into();
    for function in [&rig.stack.aggregator, &rig.stack.batch_processor] {
        function.redeploy(&to_log);
    }
    sends(&rig, ["a", "c"]).await;
    assert_eq!(sorted(rig.delivered_ids()), ["a", "b", "c"]);

    // Without the run that was primed, it is delivered again. No batch is in error, so none is tried again.
    let of_run = |item: &Item| {
        text(item, "batchId")
            .strip_prefix("run/")
            .map(str::to_owned)
    };
    let runs = rig.batch_items().await;
    let runs: Vec<String> = runs.iter().filter_map(of_run).collect();
    for run in runs.iter().filter(|run| !run.contains('/')) {
        batchctl.change(&["drop-run", run]).await;
    }
    sends(&rig, ["a", "d"]).await;
    assert_eq!(sorted(rig.delivered_ids()), ["a", "a", "b", "c", "d"]);
    rig.end().await;
}
