//! The sink is down, or refuses a batch.

use std::fs;
use std::time::Duration;

use loadgen::DuplicateRule;
use local::stack::{BATCH_QUEUE, QUARANTINE_QUEUE};

use super::alarms::State;
use super::ids;
use super::page::Rehearsal;
use crate::events::claim;
use crate::rig::{Setup, workload};

#[tokio::test]
async fn a_sink_that_is_down_is_found_paused_and_resumed() {
    let setup = Setup::new().quick().batches_of(25);
    let setup = setup.redeliver(BATCH_QUEUE, 100);
    let rig = setup.one_aggregator_environment().start().await;
    let out = &rig.stack.out;
    fs::write(out, "a file, where the directory should be").expect("it can be written");
    let mut page = Rehearsal::of(&rig, "The sink is down");
    let workload = workload(31, 120, 10.0);
    rig.burst(&workload).await;
    rig.until_taken().await;
    page.until_alarm(State::Alarm).await;

    let listed = page.looks("list").await;
    assert!(ids(&listed).len() >= 4, "{listed}");
    let tried = |batch: &serde_json::Value| batch["attempts"].as_u64() > Some(0);
    let batches = listed["batches"].as_array().expect("a list");
    assert!(batches.iter().any(tried), "{listed}");
    let mut errors = batches.iter().map(|batch| &batch["error"]);
    assert!(errors.all(serde_json::Value::is_null), "{listed}");
    let place = out.display().to_string();
    let failed = |batch: &serde_json::Value| {
        let text = batch["lastFailure"]["text"].as_str();
        text.is_some_and(|text| text.contains(&place))
    };
    assert!(batches.iter().any(failed), "{listed}");
    rig.until_complained(&place).await;
    let paused = page.changes("pause").await;
    assert_eq!(paused["pauses"][0]["by"], "on-call", "{paused}");
    rig.until_logged("why=Pause").await;

    fs::remove_file(out).expect("it is there");
    let resumed = page.changes("resume").await;
    assert!(resumed["tickets"].as_u64() >= Some(1), "{resumed}");
    rig.until_drained().await;
    page.sees_no_batch().await;
    page.end();
    rig.audit(&workload, DuplicateRule::Drop);
    rig.end().await;
}

#[tokio::test]
async fn a_batch_that_the_sink_refuses_is_found_discarded_and_redriven() {
    let mut setup = Setup::new().quick().window(2).one_aggregator_environment();
    setup.options.sweep_every = Some(Duration::from_millis(500));
    let rig = setup.start().await;
    let mut page = Rehearsal::of(&rig, "The sink refuses a batch permanently");
    let workload = workload(32, 60, 0.0);
    claim(&rig, &workload, 0..40).await;
    let refused = &rig.only_batch().await;
    let obstacle = rig.put_in_error(refused).await;
    page.until_alarm(State::Alarm).await;
    // Another batch is delivered meanwhile.
    claim(&rig, &workload, 40..60).await;

    let listed = page.looks("list --status error").await;
    assert_eq!(ids(&listed), [refused.clone()].into(), "{listed}");
    page.set("BATCH", refused);
    let shown = page.looks("show").await;
    let error = shown["error"].as_str().unwrap_or_default();
    assert!(error.contains("exists with other content"), "{shown}");
    let would = page.looks("discard").await;
    assert_eq!(would["batches"][0]["outcome"], "would", "{would}");
    let done = page.changes("discard").await;
    let detail = done["batches"][0]["detail"].as_str().unwrap_or_default();
    assert!(detail.starts_with("40 events in "), "{done}");
    rig.until_depth(QUARANTINE_QUEUE, 40).await;
    rig.until_metric("BatchesCompleted", 2).await;
    page.until_alarm(State::Ok).await;

    fs::remove_file(&obstacle).expect("it is there");
    let would = page.looks("redrive --from quarantine").await;
    assert_eq!(would["counts"]["redrive"], 40, "{would}");
    let done = page.changes("redrive --from quarantine").await;
    assert_eq!(done["counts"]["redriven"], 40, "{done}");
    page.end();
    rig.until_drained().await;
    rig.audit(&workload, DuplicateRule::Drop);
    rig.end().await;
}
