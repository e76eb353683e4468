//! Compares the cost of a burst with the calculated cost: the units that DynamoDB reports, requests, and latencies.

use std::collections::BTreeMap;

use loadgen::DuplicateRule;
use local::dynamodb::{BATCH_INDEX, BATCH_TABLE, LOCK_TABLE};
use local::latency::Latency;
use local::ledger::{Ledger, Units};

use crate::rig::{Rig, Setup, plan};

/// Returns the units of one part of one table; zero if the ledger does not have it.
fn units(ledger: &Ledger, table: &str, part: &str) -> Units {
    let of = |one: &&local::ledger::TableUnits| one.table == table && one.part == part;
    let found = ledger.units.iter().find(of);
    found.map(|one| one.units).unwrap_or_default()
}

/// Returns how often each operation was called.
fn calls(ledger: &Ledger) -> BTreeMap<&str, u64> {
    let requests = ledger.requests.iter();
    requests
        .map(|one| (&*one.operation, one.requests.count))
        .collect()
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
    let rig = Setup::new()
        .var("MAX_BATCH_SIZE", 400)
        .one_aggregator_environment()
        .start()
        .await;
    let plan = plan(21, 1_000, 0.0);
    rig.burst(&plan).await;
    rig.until_drained().await;
    let report = rig.audit(&plan, DuplicateRule::Drop);
    let ledger = rig.stack.ledger(plan.len(), plan.unique());
    assert_every_claim_was_written_and_released_once(&ledger, 1_000);

    // Every body is read once with strong consistency. On a machine under load, a few requests are retried, and one
    // more invocation may count its claims.
    let about = |units: f64, expected: f64| (expected..expected * 1.5).contains(&units);
    assert!(
        about(units(&ledger, LOCK_TABLE, "items").reads, 1_000.0),
        "{ledger}"
    );
    assert!(
        units(&ledger, LOCK_TABLE, BATCH_INDEX).reads < 100.0,
        "{ledger}"
    );
    let batches = report.batches.count as f64;
    for part in ["items", "status-index"] {
        let writes = units(&ledger, BATCH_TABLE, part).writes;
        assert!(
            (4.0 * batches..30.0 * batches).contains(&writes),
            "{ledger}"
        );
    }
    let each = ledger.per_unique.write_units;
    assert!((4.0..4.3).contains(&each), "{ledger}");

    let calls = calls(&ledger);
    assert!(
        about(calls["BatchExecuteStatement"] as f64, 80.0),
        "{ledger}"
    );
    for of_the_mapping in ["ReceiveMessage", "DeleteMessageBatch"] {
        assert!(calls[of_the_mapping] >= 100, "{ledger}");
    }
    // Each batch has one ticket, and a full batch has a second one without delay.
    assert!(calls["SendMessage"] >= report.batches.count, "{ledger}");
    assert!(
        ledger.functions.iter().all(|one| one.gb_seconds > 0.0),
        "{ledger}"
    );

    let full = report.batches.sizes.get(&400).copied().unwrap_or_default();
    assert_every_batch_has_a_latency(&rig, report.batches.count, full).await;
    rig.end().await;
}

async fn assert_every_batch_has_a_latency(rig: &Rig, batches: u64, full: u64) {
    let latencies = rig.stack.latencies(300).await.expect("they can be read");
    let count = |latency: &Option<Latency>| latency.as_ref().map_or(0, |one| one.batches);
    assert_eq!(count(&latencies.all) as u64, batches, "{latencies:?}");
    assert_eq!(count(&latencies.full) as u64, full, "{latencies:?}");
    assert!(full > 0 && count(&latencies.drained) > 0, "{latencies:?}");
}

async fn events_that_come_again(write_mode: &str) {
    let rig = Setup::new().var("WRITE_MODE", write_mode).start().await;
    let plan = plan(22, 100, 0.0);
    let sent = async |rig: &Rig| {
        rig.burst(&plan).await;
        rig.until_drained().await;
        rig.stack.ledger(plan.len(), plan.unique())
    };
    let before = sent(&rig).await;
    let after = sent(&rig).await;
    assert_every_claim_was_written_and_released_once(&after, 100);
    let failed = |ledger| units(ledger, LOCK_TABLE, "failed conditions").writes;
    let added = failed(&after) - failed(&before);
    assert!((100.0..200.0).contains(&added), "{write_mode}: {after}");
    // DynamoDB reports no units for a request of which no item succeeds.
    assert!(
        after.unreported_write_units >= 100.0,
        "{write_mode}: {after}"
    );
    rig.end().await;
}

#[tokio::test]
async fn an_event_that_comes_again_costs_the_write_unit_of_its_failed_condition() {
    tokio::join!(
        events_that_come_again("batch"),
        events_that_come_again("put")
    );
}

#[tokio::test]
async fn throttled_requests_are_not_charged() {
    let mut setup = Setup::new().var("INDEX_SHARDS", 1);
    setup.options.faults.partition_limit = Some(150);
    let rig = setup.start().await;
    let plan = plan(23, 500, 0.0);
    rig.burst(&plan).await;
    rig.until_drained().await;
    rig.audit(&plan, DuplicateRule::Drop);
    let report = rig.stack.faults.report().expect("a fault is on");
    let limit = report.partition_limit.expect("the fault is on");
    assert!(limit.by_index_key > 0, "{report}");
    let ledger = rig.stack.ledger(plan.len(), plan.unique());
    assert_every_claim_was_written_and_released_once(&ledger, 500);
    rig.end().await;
}
