//! Functions that fail as a whole.

use loadgen::DuplicateRule;
use local::faults::{KillAt, Percent};
use local::stack::{BATCH_QUEUE, INPUT_DEAD_LETTER_QUEUE, INPUT_QUEUE};
use protocol::limits::CLOCK_SKEW_MAX;

use super::alarms::State;
use super::ids;
use super::page::Rehearsal;
use crate::events::body;
use crate::output::sorted;
use crate::rig::{Setup, now_ms, workload};

#[tokio::test]
async fn a_batch_processor_that_is_killed_again_and_again_is_found_paused_and_repaired() {
    let setup = Setup::new().quick().batches_of(50);
    let mut setup = setup.redeliver(BATCH_QUEUE, 100);
    setup.options.faults.kill_at = vec![KillAt {
        text: "delivering part".to_owned(),
        percent: Percent::ALL,
        kills_max: None,
    }];
    let rig = setup.start().await;
    let mut page = Rehearsal::of(&rig, "The batch-processor is killed again and again");
    let workload = workload(34, 120, 10.0);
    rig.burst(&workload).await;
    page.until_alarm(State::Alarm).await;
    rig.until_logged("attempt=2").await;

    let listed = page.looks("list --status processing").await;
    assert!(!ids(&listed).is_empty(), "{listed}");
    let batches = listed["batches"].as_array().expect("a list").iter();
    let tried_most = batches.max_by_key(|batch| batch["attempts"].as_u64());
    let tried_most = tried_most.expect("one batch");
    page.set("BATCH", tried_most["batchId"].as_str().expect("a text"));
    let shown = page.looks("show").await;
    assert!(shown["attempts"].as_u64() >= Some(2), "{shown}");
    // The kill may come after the part is at the sink: the process runs on until the host has read its log.
    let part = &shown["partList"][0]["state"];
    assert!(part == "frozen" || part == "delivered", "{shown}");
    assert!(shown["error"].is_null(), "{shown}");
    let killed = rig.stack.batch_processor.stats().crashes;
    assert!(killed >= 2, "{killed}");
    let paused = page.changes("pause").await;
    let under_way = paused["underWay"].as_array().expect("a list").iter();
    let until = under_way.filter_map(|batch| batch["lease"]["until"].as_u64());
    let until_ms = until.max().unwrap_or_default() + CLOCK_SKEW_MAX.as_millis() as u64;
    let what = "the leases of the killed have ended";
    rig.until(what, async || now_ms() > until_ms).await;

    page.instead_of_aws("an end of the kills, and a redeploy");
    rig.stack.faults.end();
    page.deploy(&[]);
    page.changes("resume").await;
    rig.until_drained().await;
    page.sees_no_batch().await;
    page.end_when_ok().await;
    rig.audit(&workload, DuplicateRule::Drop);
    rig.end_with_set_aside(0, killed).await;
}

#[tokio::test]
async fn expired_credentials_are_found_and_the_functions_get_new_ones() {
    let setup = Setup::new().quick().batches_of(20);
    let setup = setup.redeliver(INPUT_QUEUE, 1_000);
    let mut setup = setup.redeliver(BATCH_QUEUE, 1_000);
    setup.options.faults.expired_credentials = Percent::ALL;
    let rig = setup.start().await;
    let mut page = Rehearsal::of(&rig, "Credentials have expired");
    let sent = std::cell::Cell::new(0);
    let errors = || rig.stack.aggregator.stats().crashes;
    rig.until("an invocation of the aggregator fails", async || {
        // There is still work to do when the credentials expire.
        rig.send(body(&format!("e{}", sent.get())));
        sent.set(sent.get() + 1);
        errors() > 0
    })
    .await;
    page.until_alarm(State::Alarm).await;
    rig.until_complained("ExpiredToken").await;
    rig.until("an environment ends itself", async || {
        let report = rig.stack.faults.report().expect("the fault is on");
        let expired = report.expired_credentials.expect("the fault is on");
        expired.ended_themselves > 0
    })
    .await;

    page.instead_of_aws("a look at the log of the functions");
    page.instead_of_aws("an end of the expiries, and a redeploy");
    rig.stack.faults.end();
    page.deploy(&[]);
    rig.until_drained().await;
    page.sees_no_batch().await;
    page.end_when_ok().await;
    let all = (0..sent.get()).map(|number| format!("e{number}"));
    assert_eq!(rig.delivered_ids(), sorted(all));
    rig.end_with_set_aside(0, errors()).await;
}

#[tokio::test]
async fn a_bad_configuration_is_found_and_rolled_back_and_its_dead_letters_are_redriven() {
    let rig = Setup::new().quick().redeliver(INPUT_QUEUE, 2).start().await;
    let mut page = Rehearsal::of(&rig, "A bad configuration was deployed");
    let workload = workload(40, 60, 10.0);
    let half = workload.len() / 2;
    (0..half).for_each(|index| rig.send(workload.message(index).body));
    rig.until_taken().await;
    page.deploy(&[("MAX_BATCH_SIZE", "many")]);
    (half..workload.len()).for_each(|index| rig.send(workload.message(index).body));
    page.until_alarm(State::Alarm).await;
    page.instead_of_aws("a look at the log of the functions");
    let problem = "`MAX_BATCH_SIZE`: wrong value: got `many`";
    rig.until_logged(problem).await;
    let dead = (workload.len() - half) as usize;
    rig.until_depth(INPUT_DEAD_LETTER_QUEUE, dead).await;

    page.instead_of_aws("a redeploy with the former value");
    page.deploy(&[("MAX_BATCH_SIZE", "50000")]);
    let would = page.looks("redrive --from dead-letters").await;
    let done = page.changes("redrive --from dead-letters").await;
    let (expected, redriven) = (&would["counts"]["redrive"], &done["counts"]["redriven"]);
    assert_eq!(redriven, expected, "{would}\n{done}");
    rig.until_drained().await;
    page.sees_no_batch().await;
    page.end_when_ok().await;
    rig.audit(&workload, DuplicateRule::Drop);
    rig.stack.stop().await;
}
