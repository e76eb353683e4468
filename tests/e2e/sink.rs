//! A directory sink that cannot be written.

use std::fs;

use local::stack::BATCH_QUEUE;

use crate::events::{body, ticket};
use crate::output::{delivered, sorted};
use crate::rig::{Rig, Setup};

impl Rig {
    /// Returns whether the sink has a finished part.
    pub fn has_parts(&self) -> bool {
        !self.delivered().is_empty()
    }
}

#[tokio::test]
async fn a_batch_waits_for_a_sink_that_cannot_be_written_and_is_then_delivered_once() {
    let ids = sorted((0..20).map(|number| format!("e{number}")));
    let directory = tempfile::tempdir().expect("a temporary directory can be made");
    let obstacle = directory.path().join("obstacle");
    fs::write(&obstacle, "a file, where a directory should be").expect("it can be written");
    let out = obstacle.join("out");
    // The tickets come back late enough that the new ticket is the first.
    let rig = Setup::new()
        .var("SINK", format!("file://{}", out.display()))
        .var("MAX_BATCH_SIZE", ids.len())
        .redeliver(BATCH_QUEUE, 100)
        .one_aggregator_environment()
        .start()
        .await;
    ids.iter().for_each(|id| rig.send(body(id)));
    rig.until("the ticket is given back", async || {
        rig.stack.batch_mapping.stats().returned >= 1
    })
    .await;
    rig.until("the log names the place", async || {
        rig.has_complained("obstacle/out")
    })
    .await;
    assert_eq!(rig.under_way().await, 1);
    assert_eq!(
        rig.lock_items().await,
        ids.len() as u64,
        "every event is still there"
    );
    assert!(delivered(&out).is_empty());

    fs::remove_file(&obstacle).expect("it was there");
    let batches = rig.batch_ids().await;
    assert_eq!(batches.len(), 1);
    rig.send_to(BATCH_QUEUE, ticket(&batches[0]));
    rig.until_drained().await;
    let first = delivered(&out);
    assert_eq!(sorted(first.iter().map(|line| line.event_id.clone())), ids);
    // The earlier tickets come back too, and change nothing.
    rig.until_depth(BATCH_QUEUE, 0).await;
    assert_eq!(delivered(&out), first);
    rig.end().await;
}
