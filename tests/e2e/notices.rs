//! Notices of complete batches and of batches in error, from the real executables.

use std::fs;

use loadgen::DuplicateRule;
use local::notices::{CompletionKind, NoticeReport};
use local::stack::BATCH_QUEUE;
use serde_json::Value;

use crate::events::{body, order, take};
use crate::faults::percent;
use crate::rig::{Rig, Setup, cases, workload};

const MESSAGES: u64 = 1_000;

/// Returns how many batches have notices that were not sent.
pub async fn waiting(rig: &Rig) -> usize {
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
    let mut setup = Setup::new().mortal().batches_of(50);
    setup.options.completion = Some(kind);
    setup.options.faults.lost_replies = percent(5);
    let rig = setup.start().await;
    let workload = workload(12, MESSAGES, 10.0);
    rig.burst(&workload).await;
    rig.until_drained().await;
    let sent = async || waiting(&rig).await == 0;
    rig.until("every notice was sent", sent).await;
    let audited = rig.audit(&workload, DuplicateRule::Drop);
    let report = NoticeReport::of(&manifests(&rig).await);
    eprintln!("{report}");
    assert!(report.agrees(audited.delivered), "{report}");
    let batches_min = audited.delivered as usize / 50;
    assert!(report.complete >= batches_min, "{report}");
    rig.stack.stop().await;
}

#[tokio::test]
async fn every_complete_batch_has_a_notice_despite_lost_replies() {
    for kind in cases(&[CompletionKind::Queue, CompletionKind::EventBus]) {
        every_batch_has_a_notice(kind).await;
    }
}

/// A file is where the sink would have none, so the sink refuses the part. After an operator removed the file and tried again,
/// the batch is complete.
#[tokio::test]
async fn a_batch_in_error_has_a_notice_with_the_reason_and_one_more_when_it_is_complete() {
    let mut setup = Setup::new().window(5).one_aggregator_environment();
    setup.options.completion = Some(CompletionKind::EventBus);
    let rig = setup.start().await;
    assert_eq!(take(&rig, &[("m1", &body("a"))]).await, [""; 0]);
    let batch = rig.only_batch().await;
    let obstacle = rig.put_in_error(&batch).await;
    let noticed = async |count| manifests(&rig).await.len() == count;
    rig.until("there is a notice of the error", async || noticed(1).await)
        .await;
    fs::remove_file(&obstacle).expect("the file is there");
    rig.send_to(BATCH_QUEUE, order(&batch, "operator"));
    rig.until("there is a second notice", async || noticed(2).await)
        .await;
    let notices = manifests(&rig).await;
    notices.iter().for_each(|notice| eprintln!("{notice:#}"));
    assert_eq!(notices[0]["id"], format!("{batch}/error/1"));
    assert_eq!(notices[0]["counts"]["delivered"], 0);
    let error = notices[0]["error"].as_str().unwrap_or_default();
    assert!(error.contains("exists with other content"), "{error}");
    assert_eq!(notices[1]["id"], format!("{batch}/complete"));
    assert_eq!(notices[1]["counts"]["delivered"], 1);
    rig.stack.stop().await;
}
