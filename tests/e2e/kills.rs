//! SIGKILL in the middle of the work: nothing is lost, nothing comes twice.

use std::time::Duration;

use loadgen::DuplicateRule;
use local::lambda::Function;
use local::stack::{BATCH_QUEUE, INPUT_QUEUE};
use shared::protocol::batch::Status;

use crate::rig::{Rig, Setup, busy_environment, has_ended, plan};

/// Kills the environment that is at work, and waits until it is gone.
async fn kill(rig: &Rig, function: &Function) {
    let number = busy_environment(function).expect("an environment is at work");
    assert!(function.kill_environment(number));
    rig.until("the process is gone", async || has_ended(function, number))
        .await;
}

#[tokio::test]
async fn an_aggregator_killed_between_two_claims_loses_and_repeats_nothing() {
    let rig = Setup::new()
        .var("MAX_BATCH_SIZE", 1_000)
        .redeliver(INPUT_QUEUE, Duration::from_secs(5), 10)
        .one_aggregator_environment()
        .start()
        .await;
    let plan = plan(6, 5_000, 10.0);
    rig.burst(&plan).await;
    rig.until("the first claims", async || rig.lock_items().await >= 100)
        .await;
    kill(&rig, &rig.stack.aggregator).await;
    let claims = rig.lock_items().await;
    assert!(
        claims < plan.unique(),
        "the kill came after the last claim: {claims}"
    );
    rig.until_drained().await;
    rig.audit(&plan, DuplicateRule::Drop);
    assert!(
        rig.stack.taps.sum("Redelivered") > 0,
        "claims of the dead are recognised"
    );
    rig.end_with_set_aside(0, 1).await;
}

/// What to wait for before the kill.
#[derive(Clone, Copy, Debug)]
enum Stage {
    /// The batch is leased, its items are being collected.
    Leased,
    /// The sink has the part, its claims are being released.
    Delivered,
}

async fn a_processor_is_killed(stage: Stage) {
    let plan = plan(7, 3_000, 0.0);
    let rig = Setup::new()
        .var("MAX_BATCH_SIZE", plan.unique())
        .redeliver(BATCH_QUEUE, Duration::from_secs(3), 10)
        .one_aggregator_environment()
        .start()
        .await;
    rig.burst(&plan).await;
    rig.until("the stage of the kill", async || match stage {
        Stage::Leased => rig.statuses().await[&Status::Processing] >= 1,
        Stage::Delivered => rig.has_parts(),
    })
    .await;
    kill(&rig, &rig.stack.batch_processor).await;
    let statuses = rig.statuses().await;
    assert!(
        statuses[&Status::Processing] >= 1,
        "{stage:?}: the kill came too late: {statuses:?}"
    );
    rig.until_drained().await;
    rig.audit(&plan, DuplicateRule::Drop);
    rig.end_with_set_aside(0, 1).await;
}

#[tokio::test]
async fn a_processor_killed_while_it_collects_loses_and_repeats_nothing() {
    a_processor_is_killed(Stage::Leased).await;
}

#[tokio::test]
async fn a_processor_killed_while_it_releases_loses_and_repeats_nothing() {
    a_processor_is_killed(Stage::Delivered).await;
}
