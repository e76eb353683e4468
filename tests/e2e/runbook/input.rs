//! Messages that cannot be processed.

use emulators::sqs::Message;
use loadgen::{DuplicateRule, Workload};
use local::stack::{INPUT_QUEUE, QUARANTINE_QUEUE};
use serde_json::Value;

use super::alarms::State;
use super::page::Rehearsal;
use crate::events::body;
use crate::output::sorted;
use crate::rig::{Rig, Setup, workload};

/// Returns how many of the listed messages have a reason that contains `words`.
fn with_reason(listed: &Value, words: &str) -> usize {
    let messages = listed["messages"].as_array().expect("a list").iter();
    let reasons = messages.filter_map(|message| message["reason"].as_str());
    reasons.filter(|reason| reason.contains(words)).count()
}

/// Removes `count` messages from the quarantine, and returns them.
async fn remove(rig: &Rig, count: usize) -> Vec<Message> {
    let messages = rig.take(QUARANTINE_QUEUE, count).await;
    for message in &messages {
        let queue = &rig.stack.sqs;
        let deleted = queue.delete(QUARANTINE_QUEUE, &message.receipt_handle);
        deleted.expect("the queue takes its own handle");
    }
    messages
}

#[tokio::test]
async fn poison_messages_are_found_in_the_quarantine_repaired_and_sent_again() {
    let rig = Setup::new().quick().start().await;
    let mut page = Rehearsal::of(&rig, "Poison messages");
    let good: Vec<String> = (0..20).map(|number| format!("e{number}")).collect();
    good.iter().for_each(|id| rig.send(body(id)));
    rig.send("p1, not as JSON");
    rig.send(r#"{"value":"p2, without an id"}"#);
    rig.until_depth(QUARANTINE_QUEUE, 2).await;
    page.until_alarm(State::Alarm).await;

    let listed = page.looks("redrive --from quarantine --all").await;
    assert_eq!(with_reason(&listed, "not JSON"), 1, "{listed}");
    assert_eq!(with_reason(&listed, "found nothing"), 1, "{listed}");
    page.instead_of_aws("the same requests by the SDK");
    for message in remove(&rig, 2).await {
        let is_first = message.body.contains("p1");
        rig.send(body(if is_first { "p1" } else { "p2" }));
    }
    page.end_when_ok().await;
    rig.until_drained().await;
    let all = good.into_iter().chain(["p1".to_owned(), "p2".to_owned()]);
    assert_eq!(rig.delivered_ids(), sorted(all));
    rig.end().await;
}

/// Waits until the aggregator has decided about `messages` messages in all.
async fn until_decided(rig: &Rig, messages: u64) {
    let what = format!("{messages} messages are claimed, duplicates or in the quarantine");
    let outcomes = ["Claimed", "Duplicates", "Redelivered", "Quarantined"];
    rig.until(&what, async || {
        let sums = outcomes.map(|name| rig.stack.function_logs.sum(name));
        rig.all_taken() && sums.iter().sum::<u64>() >= messages
    })
    .await;
}

/// Checks that every event was delivered once, one of them under the wrong id.
fn assert_delivered_once(rig: &Rig, workload: &Workload) {
    let manifests = rig.stack.sink_report().kind.manifests();
    let report = loadgen::audit(&rig.stack.out, workload, DuplicateRule::Drop, manifests);
    let report = report.expect("the output can be read");
    assert_eq!((report.lost, report.repeated), (0, 0), "{report:#?}");
    assert_eq!(report.delivered, workload.unique(), "{report:#?}");
    assert_eq!(report.corrupt, 1, "{report:#?}");
    let why = &report.examples.corrupt[0].why;
    assert!(why.contains("event id of the envelope is `s0`"), "{why}");
}

#[tokio::test]
async fn a_wrong_event_id_is_found_in_the_quarantine_and_its_events_are_redriven_after_a_rollback()
{
    let setup = Setup::new().quick().redeliver(INPUT_QUEUE, 100);
    let rig = setup.start().await;
    let mut page = Rehearsal::of(&rig, "A wrong event id was deployed");
    let workload = workload(38, 120, 10.0);
    let half = workload.len() / 2;
    (0..half).for_each(|index| rig.send(workload.message(index).body));
    until_decided(&rig, half).await;
    // Every event of this workload has the same source.
    page.deploy(&[("EVENT_ID", "json:source")]);
    (half..workload.len()).for_each(|index| rig.send(workload.message(index).body));
    until_decided(&rig, workload.len()).await;
    page.until_alarm(State::Alarm).await;

    let listed = page.looks("redrive --from quarantine --all").await;
    let conflicts = with_reason(&listed, "conflict");
    assert!(conflicts > 40, "{listed}");
    assert_eq!(listed["messages"][0]["eventId"], "s0", "{listed}");
    page.set("EVENT_ID", "s0");
    let found = page.looks("find").await;
    assert!(found["batchId"].is_string(), "{found}");

    page.instead_of_aws("a redeploy with the former value");
    page.deploy(&[("EVENT_ID", "json:id")]);
    let would = page.looks("redrive --from quarantine").await;
    let redriven = would["counts"]["redrive"].as_u64();
    assert!(redriven > Some(40), "{would}");
    let done = page.changes("redrive --from quarantine").await;
    assert_eq!(done["counts"]["redriven"].as_u64(), redriven, "{done}");
    rig.until_drained().await;
    assert_delivered_once(&rig, &workload);
    // What is left are duplicates of events that were delivered.
    let listed = page.looks("redrive --from quarantine --all").await;
    let left = listed["messages"].as_array().map_or(0, Vec::len);
    assert_eq!(redriven, Some((conflicts - left) as u64), "{listed}");
    page.instead_of_aws("the same request to the emulated queue");
    remove(&rig, left).await;
    page.end_when_ok().await;
    rig.end().await;
}
