//! Notices of complete batches and of batches in error, from the real executables.

use std::fs;
use std::time::Duration;

use emulators::sqs::QueueAttributes;
use loadgen::DuplicateRule;
use local::notices::{CompletionKind, NOTICE_QUEUE, NoticeHost, NoticeReport};
use local::stack::{BATCH_QUEUE, INPUT_QUEUE};
use serde_json::{Value, json};

use crate::events::{body, event, failures};
use crate::faults::percent;
use crate::rig::{Rig, Setup, cases, workload};

const MESSAGES: u64 = 1_000;

async fn waiting(rig: &Rig) -> usize {
    let waiting = rig.stack.notices_waiting().await;
    waiting.expect("the batch table can be read")
}

async fn manifests(rig: &Rig) -> Vec<Value> {
    let notices = rig.stack.notices().expect("the stand-in runs");
    notices.manifests().await.expect("notices are JSON")
}

/// Sends a burst while replies are lost. Every complete batch must have a notice with the same
/// content each time, and the notices together must count every delivered event.
async fn every_batch_has_a_notice(kind: CompletionKind) {
    let mut setup = Setup::new().mortal().var("MAX_BATCH_SIZE", 50);
    setup.options.completion = Some(kind);
    setup.options.faults.lost_replies = percent(5);
    let rig = setup.start().await;
    let workload = workload(12, MESSAGES, 10.0);
    rig.burst(&workload).await;
    rig.until_drained().await;
    rig.until("every notice was sent", async || waiting(&rig).await == 0)
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
async fn every_complete_batch_has_a_notice_despite_lost_replies() {
    for kind in cases(&[CompletionKind::Queue, CompletionKind::EventBus]) {
        every_batch_has_a_notice(kind).await;
    }
}

/// The queue of notices does not exist at first. Batches are delivered all the same, and their notices follow.
#[tokio::test]
async fn a_missing_target_stops_no_delivery_and_its_notices_are_sent_later() {
    let url = format!("http://127.0.0.1:9/000000000000/{NOTICE_QUEUE}");
    let mut setup = Setup::new().var("MAX_BATCH_SIZE", 1).var("COMPLETION", url);
    setup.options.sweep_every = Some(Duration::from_secs(2));
    let rig = setup.start().await;
    for name in ["a", "b"] {
        rig.send(body(name));
    }
    rig.until_metric("BatchesCompleted", 2).await;
    rig.until_metric("NoticesFailed", 2).await;
    assert_eq!(waiting(&rig).await, 2);
    let attributes = QueueAttributes::default();
    let created = rig.stack.sqs.create_queue(NOTICE_QUEUE, attributes);
    created.expect("there is none of this name");
    // The sweep sends tickets one minute after the batches were completed.
    rig.until("both notices are sent", async || waiting(&rig).await == 0)
        .await;
    let queue = NoticeHost::Queue(rig.stack.sqs.clone());
    let manifests = queue.manifests().await.expect("notices are JSON");
    let report = NoticeReport::of(&manifests);
    assert_eq!((report.complete, report.delivered), (2, 2), "{report}");
    rig.stack.stop().await;
}

/// A file is where the sink would have none, so the sink refuses the part. After an operator removed the file and tried again,
/// the batch is complete.
#[tokio::test]
async fn a_batch_in_error_has_a_notice_with_the_reason_and_one_more_when_it_is_complete() {
    let mut setup = Setup::new().window(5).one_aggregator_environment();
    setup.options.completion = Some(CompletionKind::EventBus);
    let rig = setup.start().await;
    let source = rig.stack.sqs.arn(INPUT_QUEUE);
    let event = event(&source, &[("m1", &body("a"))]);
    let failed = failures(&rig, &rig.stack.aggregator, event).await;
    assert_eq!(failed, [""; 0]);
    let batch = rig.batch_ids().await.remove(0);
    let obstacle = rig.put_in_error(&batch).await;
    let noticed = async |count| manifests(&rig).await.len() == count;
    rig.until("there is a notice of the error", async || noticed(1).await)
        .await;
    fs::remove_file(&obstacle).expect("the file is there");
    let ticket = json!({ "batchId": batch, "reason": "operator" });
    rig.send_to(BATCH_QUEUE, ticket.to_string());
    rig.until("there is a second notice", async || noticed(2).await)
        .await;
    let notices = manifests(&rig).await;
    for notice in &notices {
        eprintln!(
            "{}",
            serde_json::to_string_pretty(notice).expect("it is JSON")
        );
    }
    assert_eq!(notices[0]["id"], format!("{batch}/error/1"));
    assert_eq!(notices[0]["counts"]["delivered"], 0);
    let error = notices[0]["error"].as_str().unwrap_or_default();
    assert!(error.contains("exists with other content"), "{error}");
    assert_eq!(notices[1]["id"], format!("{batch}/complete"));
    assert_eq!(notices[1]["counts"]["delivered"], 1);
    rig.stack.stop().await;
}
