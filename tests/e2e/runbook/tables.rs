//! Tickets and tables.

use std::time::Duration;

use emulators::lambda::Schedule;
use loadgen::DuplicateRule;
use local::stack::{BATCH_QUEUE, INPUT_QUEUE};
use protocol::batch::Status;

use super::alarms::State;
use super::ids;
use super::page::Rehearsal;
use crate::events::claim;
use crate::rig::{Setup, now_ms, workload};

#[tokio::test]
async fn lost_tickets_are_found_when_the_sweep_has_stopped_and_are_sent_again() {
    let setup = Setup::new().quick().without_sweep().window(3);
    let rig = setup.one_aggregator_environment().start().await;
    let sweep = || {
        let function = rig.stack.batch_processor.clone();
        Schedule::start(function, "sweep", Duration::from_millis(500))
    };
    let mut page = Rehearsal::of(&rig, "Tickets are lost");
    let schedule = sweep();
    page.until_alarm(State::Ok).await;
    // Somebody disables the rule, and purges the queue.
    schedule.stop();
    let workload = workload(35, 50, 0.0);
    claim(&rig, &workload, 0..50).await;
    let purge = rig.stack.sqs_client().purge_queue();
    let purged = purge.queue_url(rig.stack.queue_url(BATCH_QUEUE)).send();
    purged.await.expect("the queue can be purged");
    page.until_alarm(State::InsufficientData).await;
    let batches = rig.batch_ids().await;
    for batch in &batches {
        rig.until_due(batch, now_ms()).await;
    }

    let listed = page.looks("list --status overdue").await;
    assert_eq!(ids(&listed), batches.into_iter().collect(), "{listed}");
    assert_eq!(listed["batches"][0]["attempts"], 0, "{listed}");
    let would = page.looks("retry --status overdue").await;
    assert_eq!(would["batches"][0]["outcome"], "would", "{would}");
    page.changes("retry --status overdue").await;
    page.instead_of_aws("a new schedule for the sweep");
    let schedule = sweep();
    rig.until_drained().await;
    page.sees_no_batch().await;
    page.end_when_ok().await;
    schedule.stop();
    rig.audit(&workload, DuplicateRule::Drop);
    rig.end().await;
}

#[tokio::test]
async fn an_index_that_lags_is_distinguished_from_a_sink_that_is_down_and_waited_for() {
    let setup = Setup::new().quick().batches_of(25);
    let setup = setup.redeliver(BATCH_QUEUE, 1_000);
    let mut setup = setup.one_aggregator_environment();
    setup.options.faults.index_lag = Some(Duration::from_secs(300));
    let rig = setup.start().await;
    let mut page = Rehearsal::of(&rig, "The index lags");
    let workload = workload(36, 120, 10.0);
    rig.burst(&workload).await;
    page.until_alarm(State::Alarm).await;

    let listed = page.looks("list").await;
    let batch = ids(&listed).into_iter().next().expect("a batch waits");
    page.set("BATCH", &batch);
    let shown = page.looks("show").await;
    assert!(shown["counts"]["missing"].as_u64() > Some(0), "{shown}");
    assert!(rig.stack.function_logs.sum("IndexLagRetries") > 0);
    page.instead_of_aws("a look at the metric");
    // No more than two of them are leased at a time.
    rig.until("four batches were tried", async || {
        rig.statuses().await[&Status::Processing] >= 4
    })
    .await;
    let would = page.looks("retry --status processing").await;
    assert_eq!(would["done"], false, "{would}");
    rig.stack.faults.end();
    page.changes("retry --status processing").await;
    rig.until_drained().await;
    page.sees_no_batch().await;
    page.end();
    rig.audit(&workload, DuplicateRule::Drop);
    rig.end().await;
}

#[tokio::test]
async fn a_throttled_table_is_found_and_its_limit_raised() {
    // A message that keeps failing fails in each period of the alarm, as on AWS.
    let mut setup = Setup::new().quick().batches_of(500);
    setup.options.batch_size = 500;
    setup.options.faults.table_limit = Some(10);
    let rig = setup.start().await;
    rig.set_redelivery(INPUT_QUEUE, Duration::from_secs(2), 1_000)
        .await;
    let mut page = Rehearsal::of(&rig, "A table is throttled");
    let workload = workload(37, 200, 10.0);
    rig.burst(&workload).await;
    page.until_alarm(State::Alarm).await;

    let listed = page.looks("list").await;
    assert!(!ids(&listed).is_empty(), "{listed}");
    page.instead_of_aws("a look at the metric");
    assert!(rig.stack.function_logs.sum("Throttles") > 0);
    page.instead_of_aws("an end of the limit");
    rig.stack.faults.end();
    rig.until_drained().await;
    page.sees_no_batch().await;
    page.end();
    rig.audit(&workload, DuplicateRule::Drop);
    rig.end().await;
}
