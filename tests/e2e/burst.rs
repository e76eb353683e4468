//! Bursts: once each, and in full batches.

use std::time::Duration;

use loadgen::DuplicateRule;
use local::stack::{BATCH_QUEUE, INPUT_QUEUE};

use crate::events::body;
use crate::output::sorted;
use crate::rig::{Rig, Setup, plan};

async fn comes_out_once_each(write_mode: &str) {
    // On a machine under load not all of it fits one invocation; the rest shall not take half a minute to come back.
    let rig = Setup::new()
        .var("WRITE_MODE", write_mode)
        .redeliver(INPUT_QUEUE, Duration::from_secs(6), 100)
        .start()
        .await;
    let plan = plan(1, 3_000, 10.0);
    rig.burst(&plan).await;
    rig.until_drained().await;
    let report = rig.audit(&plan, DuplicateRule::Drop);
    assert_eq!(report.delivered, plan.unique());
    rig.end().await;
}

#[tokio::test]
async fn a_burst_with_duplicates_comes_out_once_each_by_batch_writes() {
    comes_out_once_each("batch").await;
}

#[tokio::test]
async fn a_burst_with_duplicates_comes_out_once_each_by_single_puts() {
    comes_out_once_each("put").await;
}

#[tokio::test]
async fn all_batches_but_the_last_of_each_environment_are_exactly_full() {
    // The window is longer than the burst takes, so that no batch ends for another reason than being full.
    let mut setup = Setup::new()
        .var("MAX_BATCH_SIZE", 500)
        .var("MAX_SECONDARY_BATCHING_WINDOW", 10);
    setup.options.batch_size = 300;
    let rig = setup.start().await;
    let plan = plan(2, 2_000, 0.0);
    rig.burst(&plan).await;
    rig.until_drained().await;
    let report = rig.audit(&plan, DuplicateRule::Drop);
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

/// Of every batch sealed: its claims, and the places held for claims whose reply was lost.
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
    // No duplicates: one that is found while its batch is full frees its place after another batch was opened.
    let plan = plan(3, 2_700, 0.0);
    rig.burst(&plan).await;
    rig.until_drained().await;
    let report = rig.audit(&plan, DuplicateRule::Drop);
    let stats = rig.stack.aggregator.stats();
    assert_eq!(stats.cold_starts, 1, "{stats:?}");
    assert!(
        stats.concurrency_max > 1,
        "nothing ran at the same time: {stats:?}"
    );
    // On a machine under load a claim's reply can be lost; its place then stays empty, for the write may yet come.
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
    let all_full = [(300, plan.unique() / 300)].into();
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
    let plan = plan(4, 50, 0.0);
    rig.burst(&plan).await;
    rig.until_drained().await;
    rig.audit(&plan, DuplicateRule::Drop);
    rig.end().await;
}

#[tokio::test]
async fn the_end_of_a_burst_does_not_wait_for_the_window_when_told_so() {
    // The window ends long after any wait here is given up.
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
    // Alone, because two invocations that end together may each take the other's messages for more to come.
    rig.send(body(last));
    rig.until_drained().await;
    assert_eq!(rig.delivered_ids(), sorted(ids));
    rig.end().await;
}

#[tokio::test]
async fn work_that_does_not_fit_an_invocation_is_given_back_in_time_and_done_later() {
    // A second for the work, and writes for several: all of them change the index under one key.
    let mut setup = Setup::new()
        .var("INDEX_SHARDS", 1)
        .redeliver(INPUT_QUEUE, Duration::from_secs(4), 1_000)
        .redeliver(BATCH_QUEUE, Duration::from_secs(4), 1_000);
    setup.options.aggregator_timeout = Duration::from_secs(2);
    setup.options.batch_processor_timeout = Duration::from_secs(2);
    setup.options.faults.partition_limit = Some(100);
    let rig = setup.start().await;
    let plan = plan(8, 600, 10.0);
    rig.burst(&plan).await;
    rig.until_drained().await;
    rig.audit(&plan, DuplicateRule::Drop);
    let returned =
        [&rig.stack.input_mapping, &rig.stack.batch_mapping].map(|one| one.stats().returned);
    assert!(
        returned.iter().all(|count| *count > 0),
        "it did fit: {returned:?}"
    );
    rig.end().await;
}
