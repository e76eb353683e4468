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

/// Returns, for every sealed batch, the number of its claims and of its uncertain seats.
fn sealed(rig: &Rig) -> Vec<(u64, u64)> {
    let field = |line: &str, name: &str| {
        let (_, rest) = line.split_once(name)?;
        rest.split_whitespace().next()?.parse().ok()
    };
    let counts = |line: &String| {
        let items_count = field(line, "items_count=")?;
        Some((items_count, field(line, "uncertain_count=")?))
    };
    let lines = rig.logged("batch sealed");
    lines.iter().filter_map(counts).collect()
}

#[tokio::test]
async fn concurrent_invocations_of_one_environment_share_its_batches_and_fill_them() {
    // All batches get full, so that none waits for its window.
    let mut setup = Setup::new().batches_of(300).window(600);
    setup.options.aggregators = 4;
    setup.options.concurrency_per_environment = 4;
    setup.options.batch_size = 100;
    let rig = setup.start().await;
    // There are no duplicates, because a duplicate could free its place only after another batch was opened.
    let workload = workload(3, 2_700, 0.0);
    rig.burst(&workload).await;
    // If the reply of a claim is lost on a machine under load, its seat stays uncertain, because the write may come late. Then
    // a tenth batch has the rest, and waits for its window.
    let filled = async || rig.all_taken() && sealed(&rig).len() >= 9;
    rig.until("all batches that can be are full", filled).await;
    // A full batch does not wait for its window, which is longer than any wait in this test.
    rig.until_metric("BatchesCompleted", 9).await;
    let stats = rig.stack.aggregator.stats();
    assert_eq!(stats.cold_starts, 1, "{stats:?}");
    let sealed = sealed(&rig);
    let mut seats = sealed.iter().map(|(items, uncertain)| items + uncertain);
    // A message that an invocation had no time for leaves its seat empty.
    let are_full = rig.stack.input_mapping.stats().returned == 0;
    let is_right = |seats: u64| seats == 300 || (seats < 300 && !are_full);
    assert!(seats.all(is_right), "{sealed:?}");
    rig.end().await;
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
