//! Each fault of the services and the machines, one at a time: it really occurs, and nothing is lost or repeated.
//!
//! `local burst` has the same faults as options, for longer runs.

use std::time::Duration;

use loadgen::{DuplicateRule, Sizes, Workload, WorkloadConfig};
use local::bodies::BodiesKind;
use local::faults::{FaultReport, KillAt, Percent};
use local::stack::{BATCH_QUEUE, INPUT_QUEUE};

use crate::rig::{Rig, Setup, workload};

use BodiesKind::{Items, S3, Table};

/// Returns a set-up with quick and many redeliveries, because faults cause some.
///
/// Of an invocation's 8 s, 4 s are the margin, so that a request may take 1 s: on a slow machine all of them would fail in
/// much less.
fn setup() -> Setup {
    let mut setup = Setup::new()
        .var("MAX_BATCH_SIZE", 500)
        .var("DEADLINE_MARGIN_MS", 4_000)
        .redeliver(INPUT_QUEUE, Duration::from_secs(9), 1_000)
        .redeliver(BATCH_QUEUE, Duration::from_secs(3), 1_000);
    setup.options.batch_size = 500;
    setup.options.aggregator_timeout = Duration::from_secs(8);
    setup.options.batch_processor_timeout = Duration::from_secs(8);
    setup
}

/// As [`setup`], with bodies in this place. With chunks, invocations are small, so that faults strike some chunks.
fn setup_with(bodies: BodiesKind) -> Setup {
    let mut setup = setup().bodies(bodies);
    if bodies != Items {
        setup.options.batch_size = 100;
    }
    setup
}

/// Returns how many messages to send: with chunks half as many, because each of these tests runs in both layouts.
fn messages(bodies: BodiesKind) -> u64 {
    if bodies == Items { 3_000 } else { 1_500 }
}

fn percent(percent: u32) -> Percent {
    percent
        .to_string()
        .parse()
        .expect("the value is a percentage")
}

/// Sends a burst, audits the output, and returns how often the faults occurred.
async fn burst_through(rig: &Rig, messages: u64) -> FaultReport {
    planned_burst_through(rig, &workload(11, messages, 10.0)).await
}

/// As [`burst_through`], and checks that the bodies were in this place. A hundred of them are too large for a chunk in the
/// table if there is a bucket.
async fn burst_of_bodies_through(rig: &Rig, bodies: BodiesKind, messages: u64) -> FaultReport {
    let config = WorkloadConfig {
        sizes: Sizes::Fixed(if bodies == Items { 300 } else { 1_000 }),
        ..*workload(11, messages, 10.0).config()
    };
    let workload = Workload::new(config).expect("the workload is sound");
    let report = planned_burst_through(rig, &workload).await;
    rig.assert_bodies_are_in(bodies).await;
    report
}

async fn planned_burst_through(rig: &Rig, workload: &Workload) -> FaultReport {
    rig.burst(workload).await;
    // A batch whose opening was cut short has no ticket until a sweep finds it, a minute after it was due.
    rig.until_drained_within(Duration::from_secs(180)).await;
    rig.audit(workload, DuplicateRule::Drop);
    let report = rig.stack.faults.report().expect("a fault is on");
    eprintln!("{report}");
    report
}

async fn lost_replies(bodies: BodiesKind) {
    let mut setup = setup_with(bodies);
    // With chunks, there are half as many requests.
    setup.options.faults.lost_replies = percent(if bodies == Items { 5 } else { 10 });
    let rig = setup.start().await;
    let report = burst_of_bodies_through(&rig, bodies, 3_000).await;
    let lost = report.lost_replies.expect("the fault is on");
    assert!(lost.cut > 0, "{report}");
    assert!(lost.stalled + lost.applied_late > 0, "{report}");
    rig.end().await;
}

#[tokio::test]
async fn lost_replies_lose_and_repeat_nothing() {
    lost_replies(Items).await;
}

#[tokio::test]
async fn lost_replies_lose_and_repeat_nothing_from_chunks() {
    tokio::join!(lost_replies(Table), lost_replies(S3));
}

async fn errors_and_throttles(bodies: BodiesKind) {
    let mut setup = setup_with(bodies);
    setup.options.faults.error_rate = percent(10);
    let rig = setup.start().await;
    let report = burst_of_bodies_through(&rig, bodies, messages(bodies)).await;
    let errors = report.request_errors.expect("the fault is on");
    assert!(errors.server_errors > 0 && errors.throttled > 0, "{report}");
    rig.end().await;
}

#[tokio::test]
async fn errors_and_throttles_lose_and_repeat_nothing() {
    errors_and_throttles(Items).await;
}

#[tokio::test]
async fn errors_and_throttles_lose_and_repeat_nothing_from_chunks() {
    tokio::join!(errors_and_throttles(Table), errors_and_throttles(S3));
}

async fn an_index_that_lags(write_mode: &str) {
    let mut setup = setup().var("WRITE_MODE", write_mode);
    setup.options.faults.index_lag = Some(Duration::from_millis(1_500));
    let rig = setup.start().await;
    let report = burst_through(&rig, 3_000).await;
    let lag = report.index_lag.expect("the fault is on");
    assert!(lag.hidden > 0 && lag.gone > 0, "{report}");
    rig.end().await;
}

#[tokio::test]
async fn an_index_that_lags_hides_and_repeats_nothing_with_batch_writes() {
    an_index_that_lags("batch").await;
}

#[tokio::test]
async fn an_index_that_lags_hides_and_repeats_nothing_with_single_puts() {
    an_index_that_lags("put").await;
}

async fn a_hot_index_key(write_mode: &str) {
    let mut setup = setup().var("WRITE_MODE", write_mode).var("INDEX_SHARDS", 1);
    setup.options.faults.partition_limit = Some(150);
    let rig = setup.start().await;
    let report = burst_through(&rig, 2_000).await;
    let limit = report.partition_limit.expect("the fault is on");
    assert!(limit.by_index_key > 0, "{report}");
    rig.end().await;
}

#[tokio::test]
async fn a_hot_index_key_only_slows_batch_writes_down() {
    a_hot_index_key("batch").await;
}

#[tokio::test]
async fn a_hot_index_key_only_slows_single_puts_down() {
    a_hot_index_key("put").await;
}

async fn a_table_with_a_write_limit(write_mode: &str, bodies: BodiesKind) {
    let mut setup = setup_with(bodies).var("WRITE_MODE", write_mode);
    // A claim, and a release of those that have their bodies.
    let writes_each = if bodies == Items { 2 } else { 1 };
    setup.options.faults.table_limit = Some(150 * writes_each);
    let rig = setup.start().await;
    let report = burst_of_bodies_through(&rig, bodies, 1_500).await;
    let limit = report.table_limit.expect("the fault is on");
    assert!(limit.throttled_by_items > 0, "{report}");
    let writes = u64::from(writes_each) * 1_350 + limit.throttled_by_items;
    assert!(limit.writes > writes, "{report}");
    let used = limit.used_percent.expect("claims were throttled");
    // No more units than the limit, except for one write, which may exceed it.
    assert!(used > 0.0 && used < 110.0, "{report}");
    let refused = limit.refused_percent.expect("claims were throttled");
    assert!(refused > 0.0 && refused < 100.0, "{report}");
    rig.end().await;
}

#[tokio::test]
async fn a_table_without_units_left_only_slows_batch_writes_down() {
    a_table_with_a_write_limit("batch", Items).await;
}

#[tokio::test]
async fn a_table_without_units_left_only_slows_single_puts_down() {
    a_table_with_a_write_limit("put", Items).await;
}

#[tokio::test]
async fn a_table_without_units_left_only_slows_claims_of_chunks_down() {
    tokio::join!(
        a_table_with_a_write_limit("batch", Table),
        a_table_with_a_write_limit("batch", S3)
    );
}

#[tokio::test]
async fn a_hot_key_of_the_batch_tables_index_only_slows_batches_down() {
    // A batch takes about six units, over a few keys. So only very small batches and a very small limit make a key
    // hot.
    let mut setup = setup().var("MAX_BATCH_SIZE", 4);
    setup.options.faults.partition_limit = Some(5);
    let rig = setup.start().await;
    let report = burst_through(&rig, 600).await;
    let limit = report.partition_limit.expect("the fault is on");
    assert!(limit.by_batch_index_key > 0, "{report}");
    rig.end().await;
}

async fn repeated_deliveries(bodies: BodiesKind) {
    let mut setup = setup_with(bodies);
    setup.options.faults.duplicate_deliveries = percent(20);
    let rig = setup.start().await;
    let report = burst_of_bodies_through(&rig, bodies, messages(bodies)).await;
    assert!(report.deliveries_repeated > Some(0), "{report}");
    rig.end().await;
}

#[tokio::test]
async fn messages_and_tickets_delivered_twice_are_processed_once() {
    repeated_deliveries(Items).await;
}

#[tokio::test]
async fn messages_and_tickets_delivered_twice_are_processed_once_from_chunks() {
    tokio::join!(repeated_deliveries(Table), repeated_deliveries(S3));
}

async fn kills_at_random(bodies: BodiesKind) {
    let mut setup = setup_with(bodies);
    setup.options.batch_size = setup.options.batch_size.min(200);
    setup.options.faults.kills = percent(25);
    let rig = setup.start().await;
    let report = burst_of_bodies_through(&rig, bodies, messages(bodies)).await;
    assert!(report.killed_at_random > Some(0), "{report}");
    rig.stack.stop().await;
}

#[tokio::test]
async fn environments_killed_at_random_lose_and_repeat_nothing() {
    kills_at_random(Items).await;
}

#[tokio::test]
async fn environments_killed_at_random_lose_and_repeat_nothing_from_chunks() {
    tokio::join!(kills_at_random(Table), kills_at_random(S3));
}

#[tokio::test]
async fn an_aggregator_killed_as_it_opens_a_batch_loses_and_repeats_nothing() {
    let mut setup = setup();
    setup.options.faults.kill_at = vec![KillAt {
        text: "batch opened".to_owned(),
        percent: percent(50),
        kills_max: None,
    }];
    let rig = setup.start().await;
    let report = burst_through(&rig, 3_000).await;
    assert!(report.kill_at[0].killed > 0, "{report}");
    rig.stack.stop().await;
}

#[tokio::test]
async fn a_sink_that_is_down_for_the_whole_burst_gets_everything_once_when_it_is_back() {
    let mut setup = setup();
    setup.options.faults.sink_outages = vec!["0:15".parse().expect("the value is an outage")];
    let rig = setup.start().await;
    let report = burst_through(&rig, 3_000).await;
    assert!(report.tickets_refused_by_sink > Some(0), "{report}");
    rig.end().await;
}

#[tokio::test]
async fn the_schedule_has_the_batch_processor_sweep() {
    let mut setup = setup();
    setup.options.sweep_every = Some(Duration::from_secs(1));
    let rig = setup.start().await;
    rig.until("a sweep", async || rig.has_logged("sweep done"))
        .await;
    rig.end().await;
}
