//! Bursts: every event is delivered once, in full batches.

use std::time::Duration;

use loadgen::DuplicateRule;
use local::bodies::BodiesKind;
use local::stack::{BATCH_QUEUE, INPUT_QUEUE};

use crate::events::body;
use crate::output::sorted;
use crate::rig::{Rig, Setup, workload};

async fn is_delivered_once_each(write_mode: &str, bodies: BodiesKind) {
    let mut setup = Setup::new()
        .unhurried()
        .var("WRITE_MODE", write_mode)
        .bodies(bodies)
        .redeliver(INPUT_QUEUE, Duration::from_secs(9), 100);
    // On a machine under load, more messages do not fit one invocation. Those that are left come back soon.
    setup.options.batch_size = 500;
    let rig = setup.start().await;
    let workload = workload(1, 3_000, 10.0);
    rig.burst(&workload).await;
    rig.until_drained().await;
    let report = rig.audit(&workload, DuplicateRule::Drop);
    assert_eq!(report.delivered, workload.unique());
    rig.assert_bodies_are_in(bodies).await;
    rig.end().await;
}

#[tokio::test]
async fn a_burst_with_duplicates_is_delivered_once_each_by_batch_writes() {
    is_delivered_once_each("batch", BodiesKind::Items).await;
}

#[tokio::test]
async fn a_burst_with_duplicates_is_delivered_once_each_by_single_puts() {
    is_delivered_once_each("put", BodiesKind::Items).await;
}

#[tokio::test]
async fn a_burst_with_duplicates_is_delivered_once_each_from_chunks_in_the_table() {
    is_delivered_once_each("batch", BodiesKind::Table).await;
}

#[tokio::test]
async fn a_burst_with_duplicates_is_delivered_once_each_from_chunks_in_a_bucket() {
    is_delivered_once_each("batch", BodiesKind::S3).await;
}

#[tokio::test]
async fn a_burst_with_duplicates_is_delivered_once_each_from_chunks_by_single_puts() {
    is_delivered_once_each("put", BodiesKind::Table).await;
}

#[tokio::test]
async fn all_batches_but_the_last_of_each_environment_are_exactly_full() {
    // The window is longer than the burst, so that batches end only when they are full.
    let mut setup = Setup::new()
        .var("MAX_BATCH_SIZE", 500)
        .var("MAX_SECONDARY_BATCHING_WINDOW", 10);
    setup.options.batch_size = 300;
    let rig = setup.start().await;
    let workload = workload(2, 2_000, 0.0);
    rig.burst(&workload).await;
    rig.until_drained().await;
    let report = rig.audit(&workload, DuplicateRule::Drop);
    let environments = rig.stack.aggregator.stats().cold_starts;
    let sizes = &report.batches.sizes;
    let partial: u64 = sizes.range(..500).map(|(_, count)| count).sum();
    assert!(
        partial <= environments,
        "{sizes:?} of {environments} environments"
    );
    assert_eq!(sizes.range(501..).count(), 0, "{sizes:?}");
    assert!(sizes[&500] >= 3, "{sizes:?}");
    rig.end().await;
}

/// Returns, for every sealed batch, the number of its claims and of its uncertain seats.
fn sealed(rig: &Rig) -> Vec<(u64, u64)> {
    let field = |line: &str, name: &str| {
        let (_, rest) = line.split_once(name)?;
        rest.split_whitespace().next()?.parse().ok()
    };
    rig.logged("batch sealed")
        .iter()
        .filter_map(|line| {
            Some((
                field(line, "items_count=")?,
                field(line, "uncertain_count=")?,
            ))
        })
        .collect()
}

#[tokio::test]
async fn concurrent_invocations_of_one_environment_share_its_batches_and_fill_them() {
    let mut setup = Setup::new()
        .var("MAX_BATCH_SIZE", 300)
        .var("MAX_SECONDARY_BATCHING_WINDOW", 10);
    setup.options.aggregators = 4;
    setup.options.concurrency_per_environment = 4;
    setup.options.batch_size = 100;
    let rig = setup.start().await;
    // There are no duplicates, because a duplicate could free its place only after another batch was opened.
    let workload = workload(3, 2_700, 0.0);
    rig.burst(&workload).await;
    rig.until_drained().await;
    let report = rig.audit(&workload, DuplicateRule::Drop);
    let stats = rig.stack.aggregator.stats();
    assert_eq!(stats.cold_starts, 1, "{stats:?}");
    assert!(
        stats.concurrency_max > 1,
        "nothing ran at the same time: {stats:?}"
    );
    // On a machine under load, the reply of a claim may be lost. The seat stays uncertain, because the write may
    // come late.
    let sealed = sealed(&rig);
    let sizes = &report.batches.sizes;
    assert!(
        sealed
            .iter()
            .all(|(items, uncertain)| items + uncertain == 300),
        "{sealed:?}"
    );
    let full = sealed
        .iter()
        .filter(|(_, uncertain)| *uncertain == 0)
        .count() as u64;
    assert!(sizes[&300] >= full, "{sizes:?} of {sealed:?}");
    let all_full = [(300, workload.unique() / 300)].into();
    assert!(
        full < sealed.len() as u64 || *sizes == all_full,
        "{sizes:?} of {sealed:?}: 2,700 events are nine full batches"
    );
    rig.end().await;
}

#[tokio::test]
async fn a_full_batch_does_not_wait_for_its_window() {
    let rig = Setup::new()
        .var("MAX_BATCH_SIZE", 50)
        .var("MAX_SECONDARY_BATCHING_WINDOW", 600)
        .one_aggregator_environment()
        .start()
        .await;
    let workload = workload(4, 50, 0.0);
    rig.burst(&workload).await;
    rig.until_drained().await;
    rig.audit(&workload, DuplicateRule::Drop);
    rig.end().await;
}

#[tokio::test]
async fn with_seal_when_drained_the_end_of_a_burst_does_not_wait_for_the_window() {
    // The window is longer than any wait in this test.
    let rig = Setup::new()
        .var("SEAL_WHEN_DRAINED", "on")
        .var("MAX_SECONDARY_BATCHING_WINDOW", 880)
        .one_aggregator_environment()
        .start()
        .await;
    let ids: Vec<String> = (0..100).map(|number| format!("e{number}")).collect();
    let (last, others) = ids.split_last().expect("there are some");
    others.iter().for_each(|id| rig.send(body(id)));
    rig.until("all but the last are taken", async || rig.all_taken())
        .await;
    // The last message is sent alone, because two invocations that end together may each take the other's messages
    // for remaining ones, and then seal nothing.
    rig.send(body(last));
    rig.until_drained().await;
    assert_eq!(rig.delivered_ids(), sorted(ids));
    rig.end().await;
}

#[tokio::test]
async fn work_that_does_not_fit_an_invocation_is_given_back_and_done_later() {
    // The invocation has one second, and the writes take several, because all of them are to one key of the index.
    let mut setup = Setup::new()
        .var("INDEX_SHARDS", 1)
        .redeliver(INPUT_QUEUE, Duration::from_secs(4), 1_000)
        .redeliver(BATCH_QUEUE, Duration::from_secs(4), 1_000);
    setup.options.aggregator_timeout = Duration::from_secs(2);
    setup.options.batch_processor_timeout = Duration::from_secs(2);
    setup.options.faults.partition_limit = Some(100);
    let rig = setup.start().await;
    let workload = workload(8, 600, 10.0);
    rig.burst(&workload).await;
    rig.until_drained().await;
    rig.audit(&workload, DuplicateRule::Drop);
    let returned =
        [&rig.stack.input_mapping, &rig.stack.batch_mapping].map(|one| one.stats().returned);
    assert!(
        returned.iter().all(|count| *count > 0),
        "it did fit: {returned:?}"
    );
    rig.end().await;
}
