//! Compares the cost of a burst with the calculated cost: the units that DynamoDB reports, requests, and latencies.

use std::collections::BTreeMap;
use std::time::Duration;

use loadgen::DuplicateRule;
use local::bodies::BodiesKind;
use local::dynamodb::{BATCH_INDEX, BATCH_TABLE, LOCK_TABLE};
use local::latency::Latency;
use local::ledger::{Ledger, Units};
use protocol::limits::WRITE_UNIT_BYTES;

use crate::events::claim;
use crate::rig::{Rig, Setup, cases, workload};

/// How many times as much as on an idle machine what is retried may cost: at most this factor.
const RETRIED: f64 = 10.0;

/// Returns the units of one part of one table; zero if the ledger does not have it.
fn units(ledger: &Ledger, table: &str, part: &str) -> Units {
    let mut all = ledger.units.iter();
    let found = all.find(|one| one.table == table && one.part == part);
    found.map(|one| one.units).unwrap_or_default()
}

/// Returns how often each operation was called.
fn calls(ledger: &Ledger) -> BTreeMap<&str, u64> {
    let requests = ledger.requests.iter();
    let calls = requests.map(|one| (&*one.operation, one.requests.count));
    calls.collect()
}

/// Checks the write units. A claim writes an item and its index entry; a release changes the item and removes the
/// entry. With bodies this small, each is one unit. A retry of a write whose reply was late counts as a failed
/// condition.
fn assert_every_claim_was_written_and_released_once(ledger: &Ledger, unique: u64) {
    let twice = 2.0 * unique as f64;
    let items = units(ledger, LOCK_TABLE, "items");
    assert_eq!(items.writes, twice, "{ledger}");
    let entries = units(ledger, LOCK_TABLE, BATCH_INDEX);
    assert_eq!(entries.writes, twice, "{ledger}");
}

#[tokio::test]
async fn a_unique_message_costs_four_write_units_and_a_read_and_a_batch_little() {
    let setup = Setup::new().batches_of(400);
    let rig = setup.one_aggregator_environment().start().await;
    let workload = workload(21, 1_000, 0.0);
    rig.burst(&workload).await;
    rig.until_drained().await;
    let report = rig.audit(&workload, DuplicateRule::Drop);
    let ledger = rig.stack.ledger(workload.len(), workload.unique());
    assert_every_claim_was_written_and_released_once(&ledger, 1_000);

    // A retry of a write whose reply was late writes nothing, and at least one of its conditions fails.
    let failed = units(&ledger, LOCK_TABLE, "failed conditions").writes;
    let was_idle = failed == 0.0;
    // Every body is read once with strong consistency. On a machine under load, reads and batches are retried.
    let retried = if was_idle { 3.0 } else { RETRIED };
    let about = |units: f64, expected: f64| (expected..expected * retried).contains(&units);
    let reads = units(&ledger, LOCK_TABLE, "items").reads;
    assert!(about(reads, 1_000.0), "{ledger}");
    let reads_max = if was_idle { 100.0 } else { 500.0 };
    let reads = units(&ledger, LOCK_TABLE, BATCH_INDEX).reads;
    assert!(reads < reads_max, "{ledger}");
    let batches = report.batches.count as f64;
    for part in ["items", "status-index"] {
        let each = units(&ledger, BATCH_TABLE, part).writes / batches;
        assert!((4.0..30.0).contains(&each), "{ledger}");
    }
    let each = writes_each(&ledger, 1_000);
    let most = if was_idle { 4.5 } else { 5.0 };
    assert!((4.0..most).contains(&each), "{ledger}");

    let calls = calls(&ledger);
    let wrote = calls["BatchExecuteStatement"] as f64 - failed;
    assert!(wrote < 240.0, "{ledger}");
    assert!(calls["BatchExecuteStatement"] >= 80, "{ledger}");
    for of_the_mapping in ["ReceiveMessage", "DeleteMessageBatch"] {
        assert!(calls[of_the_mapping] >= 100, "{ledger}");
    }
    // Each batch has one ticket, and a full batch has a second one without delay.
    assert!(calls["SendMessage"] >= report.batches.count, "{ledger}");
    let mut functions = ledger.functions.iter();
    assert!(functions.all(|one| one.gb_seconds > 0.0), "{ledger}");

    let full = report.batches.sizes.get(&400).copied().unwrap_or_default();
    assert_every_batch_has_a_latency(&rig, report.batches.count, full).await;
    rig.end().await;
}

/// Returns the write units of one of `unique` messages, without those of retries whose condition failed.
fn writes_each(ledger: &Ledger, unique: u64) -> f64 {
    let failed =
        [LOCK_TABLE, BATCH_TABLE].map(|table| units(ledger, table, "failed conditions").writes);
    ledger.per_unique.write_units - failed.iter().sum::<f64>() / unique as f64
}

/// Brings 3,000 events in three invocations into one batch of the log, has it delivered, and checks that nothing was written for an
/// event. Returns the ledger, and the rig.
async fn three_thousand_events_in_the_log(bodies: BodiesKind) -> (Ledger, Rig) {
    let setup = Setup::new().bodies(bodies).batches_of(3_000);
    let mut setup = setup.window(600).without_sweep();
    // Each invocation takes all of its messages, however long that takes.
    setup.options.aggregator_timeout = Duration::from_secs(250);
    setup.options.batch_processor_timeout = Duration::from_secs(250);
    let rig = setup.start().await;
    let workload = workload(24, 3_000, 0.0);
    for first in [0, 1_000, 2_000] {
        claim(&rig, &workload, first..first + 1_000).await;
    }
    rig.until_metric("BatchesCompleted", 1).await;
    let report = rig.audit(&workload, DuplicateRule::Drop);
    assert_eq!(report.batches.count, 1, "{report:?}");
    let ledger = rig.stack.ledger(workload.len(), workload.unique());
    let items = units(&ledger, LOCK_TABLE, "items");
    assert_eq!(items, Units::default(), "{ledger}");
    let slots = units(&ledger, BATCH_TABLE, "slots").writes;
    assert!((3.0..3.0 * RETRIED).contains(&slots), "{ledger}");
    // The scope item, the record and its index entries.
    let others = ["items", "status-index"].map(|part| units(&ledger, BATCH_TABLE, part).writes);
    let others: f64 = others.iter().sum();
    assert!((10.0..100.0).contains(&others), "{ledger}");
    (ledger, rig)
}

#[tokio::test]
async fn a_message_costs_its_share_of_a_load_and_of_a_run_in_the_table() {
    let (ledger, rig) = three_thousand_events_in_the_log(BodiesKind::LogTable).await;
    let items = rig.batch_items().await;
    let pieces = items.iter();
    let pieces = pieces.filter_map(|item| item.get("piece")?.as_b().ok());
    // A unit for each KB. An item has less than 1 KB beside its bytes.
    let units_of = pieces.map(|piece| piece.as_ref().len().div_ceil(WRITE_UNIT_BYTES));
    let least: usize = units_of.sum();
    let written = ["slots", "loads", "runs"].map(|part| units(&ledger, BATCH_TABLE, part).writes);
    let written: f64 = written.iter().sum();
    // An object whose reply was late is put again.
    let range = least as f64..=least as f64 * RETRIED;
    assert!(range.contains(&written), "at least {least}\n{ledger}");
    // A run has 40 bytes an event.
    let runs = units(&ledger, BATCH_TABLE, "runs").writes;
    assert!(runs >= 3_000.0 * 40.0 / 1_024.0, "{ledger}");
    assert!(writes_each(&ledger, 3_000) < 0.5, "{ledger}");
    rig.end().await;
}

#[tokio::test]
async fn a_message_costs_its_share_of_some_requests_with_the_log_in_a_bucket() {
    let (ledger, rig) = three_thousand_events_in_the_log(BodiesKind::LogS3).await;
    let loads = units(&ledger, BATCH_TABLE, "loads");
    assert_eq!(loads.writes, 0.0, "{ledger}");
    assert!(writes_each(&ledger, 3_000) < 0.05, "{ledger}");
    // Three loads and a run, and retries of those that were late. The list of runs is small, and in the table.
    assert_eq!(rig.objects_in_bucket().await.len(), 4, "{ledger}");
    let puts = ledger.s3.iter();
    let puts = puts.filter(|one| one.key.operation == "PutObject");
    let puts: u64 = puts.map(|one| one.requests.count).sum();
    assert!((4..40).contains(&puts), "{ledger}");
    rig.end().await;
}

async fn assert_every_batch_has_a_latency(rig: &Rig, batches: u64, full: u64) {
    let latencies = rig.stack.latencies(300).await.expect("they can be read");
    let count = |latency: &Option<Latency>| latency.as_ref().map_or(0, |one| one.batches);
    assert_eq!(count(&latencies.all) as u64, batches, "{latencies:?}");
    // A batch whose claims were counted late may be larger than a full one.
    assert!(full > 0, "{latencies:?}");
    assert!(count(&latencies.full) as u64 >= full, "{latencies:?}");
    assert!(count(&latencies.drained) > 0, "{latencies:?}");
}

async fn events_that_come_again(write_mode: &str) {
    let rig = Setup::new().var("WRITE_MODE", write_mode).start().await;
    let workload = workload(22, 100, 0.0);
    let sent = async |rig: &Rig| {
        rig.burst(&workload).await;
        rig.until_drained().await;
        rig.stack.ledger(workload.len(), workload.unique())
    };
    let before = sent(&rig).await;
    let after = sent(&rig).await;
    assert_every_claim_was_written_and_released_once(&after, 100);
    let failed = |ledger| units(ledger, LOCK_TABLE, "failed conditions").writes;
    let added = failed(&after) - failed(&before);
    assert!(added >= 100.0, "{write_mode}: {after}");
    // DynamoDB reports no units for a request of which no item succeeds.
    assert!(after.unreported_write_units >= 100.0, "{after}");
    rig.end().await;
}

#[tokio::test]
async fn an_event_that_comes_again_costs_the_write_unit_of_its_failed_condition() {
    for write_mode in cases(&["batch", "put"]) {
        events_that_come_again(write_mode).await;
    }
}

#[tokio::test]
async fn throttled_requests_are_not_charged() {
    let mut setup = Setup::new().mortal().var("INDEX_SHARDS", 1);
    setup.options.faults.partition_limit = Some(1);
    let rig = setup.start().await;
    let workload = workload(23, 500, 0.0);
    rig.burst(&workload).await;
    rig.until("writes are throttled", async || {
        let report = rig.stack.faults.report().expect("a fault is on");
        let limit = report.partition_limit.expect("the fault is on");
        limit.by_index_key > 0
    })
    .await;
    rig.stack.faults.end();
    rig.until_drained().await;
    rig.audit(&workload, DuplicateRule::Drop);
    let ledger = rig.stack.ledger(workload.len(), workload.unique());
    assert_every_claim_was_written_and_released_once(&ledger, 500);
    rig.end().await;
}
