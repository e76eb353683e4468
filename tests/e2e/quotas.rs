//! Quotas per key: exactly as many events as a quota has are delivered, whatever is sent again or killed.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use loadgen::{DuplicateRule, Duplicates, Workload, WorkloadConfig};
use local::bodies::BodiesKind;
use local::stack::QUARANTINE_QUEUE;
use serde_json::Value;

use crate::bad_input::attribute;
use crate::batchctl::Batchctl;
use crate::events::claim;
use crate::faults::percent;
use crate::rig::{Rig, Setup, owned, workload};

const KEYS: u32 = 10;
const QUOTA: usize = 100;

fn with_quota(bodies: BodiesKind, quota: usize) -> Setup {
    let setup = Setup::new().bodies(bodies).var("QUOTA", "source");
    setup.var("QUOTA_MAX", quota)
}

/// Returns the quota key and the id of an event.
fn key_and_id(body: &str) -> (String, String) {
    let body: Value = serde_json::from_str(body).expect("a body of the burst is JSON");
    let text = |field: &str| body[field].as_str().expect("it is a text").to_owned();
    (text("source"), text("id"))
}

/// Checks that every key has as many delivered events as its quota, each once, and returns them.
fn delivered_per_key(rig: &Rig, quota: usize) -> BTreeSet<String> {
    let mut per_key: BTreeMap<String, usize> = BTreeMap::new();
    let mut ids = BTreeSet::new();
    for line in rig.delivered() {
        let (key, id) = key_and_id(&line.body);
        *per_key.entry(key).or_default() += 1;
        assert!(ids.insert(id.clone()), "{id} is there twice");
    }
    let expected = (0..KEYS).map(|key| (format!("s{key}"), quota));
    assert_eq!(per_key, expected.collect());
    ids
}

#[tokio::test]
async fn of_2_000_events_of_10_keys_with_duplicates_exactly_100_a_key_are_delivered() {
    exactly_the_quota_is_delivered(BodiesKind::LogTable).await;
}

#[tokio::test]
async fn quotas_hold_with_loads_in_a_bucket_too() {
    exactly_the_quota_is_delivered(BodiesKind::LogS3).await;
}

/// Sends a burst while environments of both functions die.
async fn exactly_the_quota_is_delivered(bodies: BodiesKind) {
    // Many small batches, so that tallies are merged.
    let mut setup = with_quota(bodies, QUOTA).mortal().batches_of(100);
    setup.options.faults.kills = percent(8);
    setup.options.faults.duplicate_deliveries = percent(20);
    setup.options.faults.lost_replies = percent(3);
    let rig = setup.start().await;
    let workload = Workload::new(WorkloadConfig {
        seed: 61,
        messages: 2_000,
        duplicates: Duplicates::any(20.0),
        sources: KEYS,
        ..WorkloadConfig::default()
    })
    .expect("the workload is sound");
    rig.burst(&workload).await;
    rig.until_drained().await;

    let delivered = delivered_per_key(&rig, QUOTA);
    let beyond = rig.depth(QUARANTINE_QUEUE);
    let mut set_aside = BTreeSet::new();
    for message in rig.take(QUARANTINE_QUEUE, beyond).await {
        let reason = attribute(&message, "reason").expect("it has a reason");
        let exceeded = "`QUOTA` exceeded: more than 100 events for this key";
        assert!(reason.starts_with(exceeded), "{reason}");
        let (_, id) = key_and_id(&message.body);
        assert!(!delivered.contains(&id), "{id} is delivered and set aside");
        set_aside.insert(id);
    }
    let all = delivered.len() + set_aside.len();
    assert_eq!(all as u64, workload.unique());
    rig.stack.stop().await;
}

#[tokio::test]
async fn events_beyond_a_quota_are_delivered_once_it_is_larger_and_they_are_redriven() {
    let rig = with_quota(BodiesKind::LogTable, 40).quick().start().await;
    let workload = workload(62, 60, 0.0);
    rig.burst(&workload).await;
    rig.until_depth(QUARANTINE_QUEUE, 20).await;
    let more = owned(&[("QUOTA_MAX", "60")]);
    rig.stack.aggregator.redeploy(&more);
    let batchctl = Batchctl::of(&rig);
    batchctl.redrive_quarantine(&["--all"], 20).await;
    rig.until_drained().await;
    rig.audit(&workload, DuplicateRule::Drop);
    rig.end().await;
}

#[tokio::test]
async fn repro_discarded_events_were_beyond_their_quota_when_they_were_redriven() {
    let setup = with_quota(BodiesKind::LogTable, 40).quick();
    let rig = setup.one_aggregator_environment().start().await;
    let batchctl = Batchctl::of(&rig);
    let workload = workload(63, 60, 0.0);
    claim(&rig, &workload, 0..40).await;
    let batch = rig.only_batch().await;
    let obstacle = rig.put_in_error(&batch).await;
    batchctl.change(&["discard", &batch]).await;
    rig.until_depth(QUARANTINE_QUEUE, 40).await;
    rig.until_metric("BatchesCompleted", 1).await;
    // The places of the discarded events are for nobody else.
    claim(&rig, &workload, 40..60).await;
    rig.until_depth(QUARANTINE_QUEUE, 60).await;

    fs::remove_file(&obstacle).expect("it is there");
    // The second time, only those are left that never had a place.
    for count in [60, 20] {
        batchctl.redrive_quarantine(&["--all"], count).await;
        rig.until_depth(QUARANTINE_QUEUE, 20).await;
        rig.until_drained().await;
        let delivered = rig.delivered_ids();
        let expected = (0..40).map(|index| key_and_id(&workload.message(index).body).1);
        assert_eq!(delivered.len(), 40, "each is there once");
        assert_eq!(BTreeSet::from_iter(delivered), expected.collect());
    }
    for message in rig.take(QUARANTINE_QUEUE, 20).await {
        let reason = attribute(&message, "reason").expect("it has a reason");
        assert!(reason.starts_with("`QUOTA` exceeded"), "{reason}");
    }
    rig.stack.stop().await;
}
