//! Bursts: every event is delivered once, in full batches.

use loadgen::DuplicateRule;
use local::bodies::BodiesKind;

use crate::events::body;
use crate::output::sorted;
use crate::rig::{Rig, Setup, cases, workload};

#[tokio::test]
async fn a_burst_with_duplicates_is_delivered_once_each() {
    use BodiesKind::{Items, LogS3, LogTable};
    for (write_mode, bodies) in cases(&[
        ("put", Items),
        ("batch", Items),
        ("batch", LogTable),
        ("batch", LogS3),
    ]) {
        let mut setup = Setup::new().var("WRITE_MODE", write_mode).bodies(bodies);
        setup.options.batch_size = 500;
        let rig = setup.start().await;
        let workload = workload(1, 2_000, 10.0);
        rig.burst(&workload).await;
        rig.until_drained().await;
        let report = rig.audit(&workload, DuplicateRule::Drop);
        assert_eq!(report.delivered, workload.unique());
        rig.assert_bodies_are_in(bodies).await;
        rig.end().await;
    }
}

/// Returns the number of reserved seats of every sealed batch.
fn sealed(rig: &Rig) -> Vec<u64> {
    let seats = |line: &String| {
        let (_, rest) = line.split_once("items_count=")?;
        rest.split_whitespace().next()?.parse().ok()
    };
    let lines = rig.logged("batch sealed");
    lines.iter().filter_map(seats).collect()
}

#[tokio::test]
async fn all_environments_and_their_invocations_fill_the_same_batches() {
    for (aggregators, invocations) in cases(&[(4, 1), (1, 4)]) {
        // All batches get full, so that none waits for its window.
        let mut setup = Setup::new().batches_of(300).window(600);
        setup.options.aggregators = aggregators;
        setup.options.concurrency_per_environment = invocations;
        setup.options.batch_size = 100;
        let rig = setup.start().await;
        let workload = workload(3, 2_700, 0.0);
        rig.burst(&workload).await;
        // If a reply is lost on a machine under load, seats stay empty. Then a tenth batch has the rest, and waits for its window.
        let filled = async || rig.all_taken() && sealed(&rig).len() >= 9;
        rig.until("all batches that can be are full", filled).await;
        // A full batch does not wait for its window, which is longer than any wait in this test.
        rig.until_metric("BatchesCompleted", 9).await;
        let sealed = sealed(&rig);
        assert!(sealed.iter().all(|seats| *seats == 300), "{sealed:?}");
        rig.end().await;
    }
}

#[tokio::test]
async fn with_seal_when_drained_the_end_of_a_burst_does_not_wait_for_the_window() {
    // The window is longer than any wait in this test.
    let setup = Setup::new().var("MAX_SECONDARY_BATCHING_WINDOW", 880);
    let rig = setup.one_aggregator_environment().start().await;
    let ids: Vec<String> = (0..100).map(|number| format!("e{number}")).collect();
    let (last, others) = ids.split_last().expect("there are some");
    others.iter().for_each(|id| rig.send(body(id)));
    rig.until_taken().await;
    // The last message is sent alone, because two invocations that end together may each take the other's messages
    // for remaining ones, and then seal nothing.
    rig.send(body(last));
    rig.until_drained().await;
    assert_eq!(rig.delivered_ids(), sorted(ids));
    rig.end().await;
}

#[tokio::test]
async fn work_that_does_not_fit_an_invocation_is_given_back_and_done_later() {
    // The invocation has two seconds for writes that take ten, because all of them are to one key of the index.
    let mut setup = Setup::new().mortal().var("INDEX_SHARDS", 1);
    setup.options.faults.partition_limit = Some(50);
    let rig = setup.start().await;
    let workload = workload(8, 550, 10.0);
    rig.burst(&workload).await;
    rig.until_drained().await;
    rig.audit(&workload, DuplicateRule::Drop);
    for mapping in [&rig.stack.input_mapping, &rig.stack.batch_mapping] {
        assert!(mapping.stats().returned > 0, "it did fit");
    }
    rig.end().await;
}
