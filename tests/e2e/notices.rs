//! Notices of complete batches and of batches in error, from the real executables.

use std::time::Duration;

use loadgen::DuplicateRule;
use local::faults::Percent;
use local::notices::{CompletionKind, NoticeReport};
use local::stack::{BATCH_QUEUE, INPUT_QUEUE};
use protocol::batch::Status;
use serde_json::{Value, json};

use crate::events::body;
use crate::rig::{Rig, Setup, workload};

const MESSAGES: u64 = 3_000;

fn percent(text: &str) -> Percent {
    text.parse().expect("the value is a percentage")
}

async fn manifests(rig: &Rig) -> Vec<Value> {
    let notices = rig.stack.notices().expect("the stand-in runs");
    notices.manifests().await.expect("notices are JSON")
}

/// Sends a burst while environments are killed and replies are lost. Every complete batch must have a notice with the same
/// content each time, and the notices together must count every delivered event.
async fn every_batch_has_a_notice(kind: CompletionKind) {
    let mut setup = Setup::new()
        .var("MAX_BATCH_SIZE", 50)
        .redeliver(INPUT_QUEUE, Duration::from_secs(6), 1_000)
        .redeliver(BATCH_QUEUE, Duration::from_secs(3), 1_000);
    setup.options.completion = Some(kind);
    setup.options.batch_size = 500;
    setup.options.faults.kills = percent("5");
    setup.options.faults.lost_replies = percent("3");
    let rig = setup.start().await;
    let workload = workload(12, MESSAGES, 10.0);
    rig.burst(&workload).await;
    rig.until_drained_within(Duration::from_secs(240)).await;
    rig.until("every notice was sent", async || {
        rig.stack.notices_waiting().await.expect("it can be read") == 0
    })
    .await;
    let audited = rig.audit(&workload, DuplicateRule::Drop);
    let report = NoticeReport::of(&manifests(&rig).await);
    eprintln!("{report}");
    assert!(report.agrees(audited.delivered), "{report}");
    assert!(
        report.complete >= audited.delivered as usize / 50,
        "{report}"
    );
    rig.stack.stop().await;
}

#[tokio::test]
async fn every_complete_batch_has_a_notice_in_the_queue_despite_kills_and_lost_replies() {
    every_batch_has_a_notice(CompletionKind::Queue).await;
}

#[tokio::test]
async fn every_complete_batch_has_a_notice_on_the_event_bus_despite_kills_and_lost_replies() {
    every_batch_has_a_notice(CompletionKind::EventBus).await;
}

/// The queue of notices does not exist at first. Batches are delivered all the same, and their notices follow.
#[tokio::test]
async fn a_missing_target_stops_no_delivery_and_its_notices_are_sent_later() {
    let mut setup = Setup::new().var("MAX_BATCH_SIZE", 1);
    setup.options.completion = Some(CompletionKind::Queue);
    setup.options.sweep_every = Some(Duration::from_secs(2));
    let rig = setup.start().await;
    let queue = local::notices::NOTICE_QUEUE;
    rig.stack.sqs.delete_queue(queue).expect("the queue exists");
    for name in ["a", "b"] {
        rig.send(body(name));
    }
    rig.until_metric("BatchesCompleted", 2).await;
    rig.until_metric("NoticesFailed", 2).await;
    assert_eq!(rig.stack.notices_waiting().await.unwrap(), 2);
    let attributes = emulators::sqs::QueueAttributes::default();
    rig.stack.sqs.create_queue(queue, attributes).unwrap();
    // The sweep sends tickets one minute after the batches were completed.
    rig.until("both notices are sent", async || {
        rig.stack.notices_waiting().await.unwrap() == 0
    })
    .await;
    let report = NoticeReport::of(&manifests(&rig).await);
    assert_eq!((report.complete, report.delivered), (2, 2), "{report}");
    rig.stack.stop().await;
}

#[tokio::test]
async fn a_batch_in_error_has_a_notice_with_the_reason() {
    let mut setup = Setup::new().var("SINK", "lambda-of-nobody");
    setup.options.completion = Some(CompletionKind::EventBus);
    // A file in place of the directory that the batch would go to.
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path().join("out");
    std::fs::write(&place, "").unwrap();
    setup = setup.var("SINK", format!("file://{}", place.display()));
    setup = setup.var("SINK_REJECTS", "");
    let rig = setup.start().await;
    rig.send(json!({ "id": "one" }).to_string());
    rig.until("the batch is in error, and its notice sent", async || {
        rig.statuses().await[&Status::Error] == 1 && !manifests(&rig).await.is_empty()
    })
    .await;
    let manifest = manifests(&rig).await.remove(0);
    eprintln!("{}", serde_json::to_string_pretty(&manifest).unwrap());
    assert_eq!(manifest["kind"], "error");
    assert_eq!(manifest["counts"]["delivered"], 0);
    assert!(!manifest["error"].as_str().unwrap_or_default().is_empty());
    rig.stack.stop().await;
}
