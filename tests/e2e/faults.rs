//! Each fault of the services, one at a time: nothing is lost or repeated.
//!
//! A fault that depends on how fast the machine is goes on until the test has seen it strike, and ends then. That the
//! others strike, and how often, is shown by the tests of `emulators` and by the simulation. `batch-local burst` has the
//! same faults as options, for longer runs.

use std::time::Duration;

use loadgen::{DuplicateRule, Sizes, Workload, WorkloadConfig};
use local::bodies::BodiesKind;
use local::faults::{FaultReport, Percent};

use crate::rig::{Rig, Setup, cases, workload};

use BodiesKind::{Items, LogS3, LogTable};

const MESSAGES: u64 = 1_200;

fn setup(bodies: BodiesKind) -> Setup {
    let mut setup = Setup::new().mortal().bodies(bodies).batches_of(300);
    // Small invocations, so that faults strike some of them and not others.
    setup.options.batch_size = 100;
    setup
}

pub fn percent(percent: u32) -> Percent {
    let text = percent.to_string();
    text.parse().expect("the value is a percentage")
}

fn report(rig: &Rig) -> FaultReport {
    rig.stack.faults.report().expect("a fault is on")
}

/// Returns a burst. A load of a hundred of its bodies is too large for the table if there is a bucket.
fn burst(bodies: BodiesKind, messages: u64) -> Workload {
    let config = WorkloadConfig {
        sizes: Sizes::Fixed(if bodies == Items { 300 } else { 1_000 }),
        ..*workload(11, messages, 10.0).config()
    };
    Workload::new(config).expect("the workload is sound")
}

/// Sends a burst, waits until `struck` says that the fault struck, ends the faults that can be ended, and audits the output.
async fn burst_through(setup: Setup, workload: &Workload, struck: impl Fn(&FaultReport) -> bool) {
    let rig = setup.start().await;
    rig.burst(workload).await;
    let struck = async || struck(&report(&rig));
    rig.until("the fault strikes", struck).await;
    rig.stack.faults.end();
    rig.until_drained().await;
    rig.audit(workload, DuplicateRule::Drop);
    eprintln!("{}", report(&rig));
    rig.end().await;
}

#[tokio::test]
async fn lost_replies_errors_and_throttles_lose_and_repeat_nothing() {
    for bodies in cases(&[LogTable, Items, LogS3]) {
        let mut setup = setup(bodies);
        setup.options.faults.lost_replies = percent(8);
        setup.options.faults.error_rate = percent(8);
        burst_through(setup, &burst(bodies, MESSAGES), |report| {
            let lost = report.lost_replies.expect("the fault is on");
            let errors = report.request_errors.expect("the fault is on");
            lost.cut > 0 && errors.server_errors > 0 && errors.throttled > 0
        })
        .await;
    }
}

#[tokio::test]
async fn an_index_that_lags_hides_and_repeats_nothing() {
    let mut setup = setup(Items);
    setup.options.faults.index_lag = Some(Duration::from_secs(3_600));
    let rig = setup.start().await;
    let workload = burst(Items, MESSAGES);
    rig.burst(&workload).await;
    // The batch-processor finds fewer claims than were counted.
    rig.until_metric("IndexLagRetries", 1).await;
    rig.stack.faults.end();
    rig.until_drained().await;
    rig.audit(&workload, DuplicateRule::Drop);
    rig.end().await;
}

#[tokio::test]
async fn a_hot_index_key_only_slows_claims_down() {
    for write_mode in cases(&["batch", "put"]) {
        let mut setup = setup(Items)
            .var("WRITE_MODE", write_mode)
            .var("INDEX_SHARDS", 1);
        setup.options.faults.partition_limit = Some(1);
        burst_through(setup, &burst(Items, MESSAGES), |report| {
            let limit = report.partition_limit.as_ref();
            limit.is_some_and(|limit| limit.by_index_key > 0)
        })
        .await;
    }
}

#[tokio::test]
async fn a_table_without_units_left_only_slows_claims_down() {
    for write_mode in cases(&["batch", "put"]) {
        let mut setup = setup(Items).var("WRITE_MODE", write_mode);
        // Enough for the batch table to reserve seats before its batches close, and too little for the claims of one request.
        setup.options.faults.table_limit = Some(8);
        burst_through(setup, &burst(Items, MESSAGES), |report| {
            let limit = report.table_limit.as_ref();
            limit.is_some_and(|limit| limit.throttled_by_items > 0)
        })
        .await;
    }
}

#[tokio::test]
async fn a_hot_key_of_the_batch_tables_index_only_slows_batches_down() {
    // A batch takes about six units, over a few keys. So only very small batches make a key hot.
    let mut setup = setup(Items).batches_of(4);
    setup.options.faults.partition_limit = Some(1);
    burst_through(setup, &burst(Items, 200), |report| {
        let limit = report.partition_limit.as_ref();
        limit.is_some_and(|limit| limit.by_batch_index_key > 0)
    })
    .await;
}

#[tokio::test]
async fn messages_and_tickets_delivered_twice_are_processed_once() {
    for bodies in cases(&[LogS3, Items, LogTable]) {
        let mut setup = setup(bodies);
        setup.options.faults.duplicate_deliveries = percent(20);
        burst_through(setup, &burst(bodies, MESSAGES), |_| true).await;
    }
}
