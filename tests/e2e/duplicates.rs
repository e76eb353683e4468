//! Duplicates: with `requeue` they are delivered later, and a batch of duplicates only completes without a delivery.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use emulators::sqs::QueueAttributes;
use loadgen::DuplicateRule;
use serde_json::Value;

use crate::events::{body, failures};
use crate::faults::percent;
use crate::output::sorted;
use crate::rig::{Setup, workload};

#[tokio::test]
async fn a_requeued_duplicate_is_delivered_in_a_later_batch() {
    let setup = Setup::new().var("ON_DUPLICATE", "requeue").mortal();
    let setup = setup.batches_of(60).one_aggregator_environment();
    let rig = setup.start().await;
    let workload = workload(5, 200, 10.0);
    rig.burst(&workload).await;
    rig.until_drained().await;
    let report = rig.audit(&workload, DuplicateRule::Requeue);
    // Every message, duplicates too.
    assert_eq!(report.delivered, workload.len());
    let mut batches: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for line in rig.delivered() {
        let of_event = batches.entry(line.event_id).or_default();
        let is_first = of_event.insert(line.batch_id);
        assert!(is_first, "two copies of an event in one batch");
    }
    let repeated = batches.values().filter(|batches| batches.len() > 1).count();
    assert!(repeated > 0, "the burst had duplicates");
    rig.end().await;
}

#[tokio::test]
async fn a_batch_of_duplicates_only_completes_and_delivers_no_file() {
    let ids: Vec<String> = (0..20).map(|number| format!("e{number}")).collect();
    let setup = Setup::new().window(1).batches_of(ids.len());
    let rig = setup.one_aggregator_environment().start().await;
    ids.iter().for_each(|id| rig.send(body(id)));
    rig.until_metric("BatchesCompleted", 1).await;
    // All events are delivered. Now other messages carry the same events.
    ids.iter().for_each(|id| rig.send(body(id)));
    rig.until_metric("Duplicates", ids.len() as u64).await;
    // The batch that the duplicates opened, and filled.
    rig.until_metric("BatchesCompleted", 2).await;
    rig.until_drained().await;
    assert_eq!(rig.delivered_ids(), sorted(ids));
    assert_eq!(rig.delivered_batches().len(), 1);
    let directories = std::fs::read_dir(&rig.stack.out).expect("the output can be read");
    assert_eq!(directories.count(), 1, "not even a directory is left by it");
    rig.end().await;
}

#[tokio::test]
async fn an_event_without_records_has_no_failures() {
    let rig = Setup::new().start().await;
    for function in [&rig.stack.aggregator, &rig.stack.batch_processor] {
        let empty = Bytes::from_static(br#"{"Records":[]}"#);
        assert_eq!(failures(&rig, function, empty).await, [""; 0]);
    }
    assert_eq!(rig.under_way().await, 0, "no batch is opened for nothing");
    rig.end().await;
}

/// The queue of reports.
const DUPLICATE_QUEUE: &str = "duplicate-queue";

/// Every dropped duplicate is reported, also if replies are lost.
#[tokio::test]
async fn dropped_duplicates_are_reported() {
    let url = format!("http://127.0.0.1:9/000000000000/{DUPLICATE_QUEUE}");
    let setup = Setup::new().var("DUPLICATES_SQS_URL", url);
    let mut setup = setup.batches_of(50).mortal();
    setup.options.faults.lost_replies = percent(3);
    let rig = setup.start().await;
    let sqs = &rig.stack.sqs;
    let created = sqs.create_queue(DUPLICATE_QUEUE, QueueAttributes::default());
    created.expect("there is none of this name");
    let workload = workload(61, 1_000, 20.0);
    rig.burst(&workload).await;
    rig.until_drained().await;
    let audited = rig.audit(&workload, DuplicateRule::Drop);
    let dropped = workload.len() - audited.delivered;
    let reports = rig.depth(DUPLICATE_QUEUE);
    let mut of_messages = BTreeSet::new();
    for report in rig.take_bodies(DUPLICATE_QUEUE, reports).await {
        let report: Value = serde_json::from_str(&report).expect("a report is JSON");
        let message = report["sqsMessageId"].as_str().expect("a text");
        assert!(report["eventId"].is_string(), "{report}");
        of_messages.insert(message.to_owned());
    }
    let reported = of_messages.len() as u64;
    assert!(reported >= dropped, "{reported} of {dropped}");
    assert!(dropped > 100, "{dropped}");
    rig.stack.stop().await;
}
