//! Notices cannot be sent.

use std::time::Duration;

use aws_sdk_dynamodb::operation::update_item::UpdateItemError;
use aws_sdk_dynamodb::types::AttributeValue;
use emulators::sqs::QueueAttributes;
use loadgen::DuplicateRule;
use local::dynamodb::BATCH_TABLE;
use local::notices::{NOTICE_QUEUE, NoticeHost, NoticeReport};
use tokio::time::sleep;

use super::alarms::State;
use super::ids;
use super::page::Rehearsal;
use crate::notices::waiting;
use crate::rig::{Rig, Setup, workload};

/// Makes the batches whose notices wait due again and again.
async fn let_notices_be_due(rig: &Rig) {
    loop {
        for batch in rig.batch_ids().await {
            let call = rig.dynamodb().update_item().table_name(BATCH_TABLE);
            let call = call.key("batchId", AttributeValue::S(batch));
            let has_notice = "attribute_exists(completedAt) AND attribute_exists(notices)";
            let call = call.condition_expression(has_notice);
            let call = call.update_expression("SET dueAt = completedAt");
            let sent = call.send().await;
            // A batch without a notice stays as it is.
            let refused = sent.as_ref().is_err_and(|error| {
                let error = error.as_service_error();
                error.is_some_and(UpdateItemError::is_conditional_check_failed_exception)
            });
            assert!(sent.is_ok() || refused, "{sent:?}");
        }
        sleep(Duration::from_millis(500)).await;
    }
}

#[tokio::test]
async fn a_missing_queue_of_notices_is_found_and_the_notices_are_sent_once_it_is_there() {
    let url = format!("http://127.0.0.1:9/000000000000/{NOTICE_QUEUE}");
    let setup = Setup::new().quick().batches_of(20);
    let setup = setup.var("COMPLETION", url);
    let mut setup = setup.one_aggregator_environment();
    setup.options.sweep_every = Some(Duration::from_millis(500));
    let rig = setup.start().await;
    let mut page = Rehearsal::of(&rig, "Notices cannot be sent");
    let workload = workload(40, 100, 10.0);
    rig.burst(&workload).await;
    // Deliveries go on.
    rig.until_drained().await;
    rig.audit(&workload, DuplicateRule::Drop);
    // An hour of the alarm is over before a notice is due for the first time, so time has to pass faster for them too.
    tokio::select! {
        () = page.until_alarm(State::Alarm) => {}
        () = let_notices_be_due(&rig) => unreachable!("it never ends"),
    }
    assert!(rig.has_logged("notice not sent"));

    let listed = page.looks("list --status unnoticed").await;
    let unnoticed = ids(&listed);
    assert!(unnoticed.len() >= 5, "{listed}");
    let first = &listed["batches"][0];
    let batch = first["batchId"].as_str().expect("a text");
    assert_eq!(first["status"], "complete", "{listed}");
    page.set("BATCH", batch);
    let shown = page.looks("show").await;
    let notice = &shown["notices"][0]["id"];
    assert_eq!(*notice, format!("{batch}/complete"), "{shown}");

    page.instead_of_aws("a new queue");
    let attributes = QueueAttributes::default();
    let created = rig.stack.sqs.create_queue(NOTICE_QUEUE, attributes);
    created.expect("there is none of this name");
    let done = page.changes("retry --status unnoticed").await;
    assert_eq!(ids(&done), unnoticed, "{done}");
    let sent = async || waiting(&rig).await == 0;
    rig.until("every notice was sent", sent).await;
    let left = page.looks("list --status unnoticed").await;
    assert_eq!(left["matching"], 0, "{left}");
    page.end_when_ok().await;
    let queue = NoticeHost::Queue(rig.stack.sqs.clone());
    let manifests = queue.manifests().await.expect("notices are JSON");
    let report = NoticeReport::of(&manifests);
    assert_eq!(report.complete, unnoticed.len(), "{report}");
    let delivered = rig.audit(&workload, DuplicateRule::Drop).delivered;
    assert!(report.agrees(delivered), "{report}");
    rig.end().await;
}
