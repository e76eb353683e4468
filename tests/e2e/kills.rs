//! Environments that are killed while they work: nothing is lost, and nothing is delivered twice.

use std::collections::BTreeMap;

use emulators::lambda::{EnvironmentState, Function};
use loadgen::{DuplicateRule, Sizes, Workload, WorkloadConfig};
use local::bodies::BodiesKind;
use local::faults::KillAt;
use local::stack::INPUT_QUEUE;

use crate::faults::percent;
use crate::rig::{Rig, Setup, cases, workload};

/// Returns the number of an environment that runs an invocation.
fn busy_environment(function: &Function) -> Option<u32> {
    let mut environments = function.environments().into_iter();
    let busy = environments.find(|one| matches!(one.state, EnvironmentState::Busy { .. }));
    busy.map(|one| one.number)
}

/// Returns whether an environment is gone.
fn has_ended(function: &Function, number: u32) -> bool {
    let mut environments = function.environments().into_iter();
    let ended = |state| matches!(state, EnvironmentState::Ended { .. });
    environments.any(|one| one.number == number && ended(one.state))
}

/// Kills the environment that runs an invocation, and waits until it is gone.
pub async fn kill(rig: &Rig, function: &Function) {
    let number = busy_environment(function).expect("an environment is at work");
    assert!(function.kill_environment(number));
    rig.until("the process is gone", async || has_ended(function, number))
        .await;
}

#[tokio::test]
async fn an_aggregator_killed_between_two_claims_loses_and_repeats_nothing() {
    let setup = Setup::new().batches_of(1_000);
    let setup = setup.redeliver(INPUT_QUEUE, 1_000);
    let mut setup = setup.one_aggregator_environment();
    // The claims take longer than an invocation may, until the environment is killed.
    setup.options.faults.table_limit = Some(40);
    let rig = setup.start().await;
    let workload = workload(6, 2_000, 10.0);
    rig.burst(&workload).await;
    rig.until("the first claims", async || rig.lock_items().await >= 20)
        .await;
    kill(&rig, &rig.stack.aggregator).await;
    rig.stack.faults.end();
    rig.until_drained().await;
    rig.audit(&workload, DuplicateRule::Drop);
    // Claims of the dead are recognised.
    assert!(rig.stack.function_logs.sum("Redelivered") > 0);
    rig.end_with_set_aside(0, 1).await;
}

/// The log messages of the functions for a batch, in this order.
const LOG_POINTS: [&str; 10] = [
    "batch opened",
    "batch leased",
    "part frozen",
    "delivering part",
    "part written",
    "part delivered",
    "claims released",
    "verify ticket sent",
    "batch complete",
    "ticket done",
];

/// Log messages that do not occur in the log: it has no claims that are released, and the batch record lists its events, so that nothing
/// needs a second look.
const OF_ITEMS: [&str; 2] = ["claims released", "verify ticket sent"];

fn log_points(bodies: BodiesKind) -> impl Iterator<Item = &'static str> {
    let points = LOG_POINTS.into_iter();
    points.filter(move |point| bodies == BodiesKind::Items || !OF_ITEMS.contains(point))
}

/// Which of the environments that reach a log message are killed there.
#[derive(Clone, Copy, Debug)]
enum Killed {
    /// This number, before any other environment gets past it.
    First(u64),
    /// This percentage.
    Share(&'static str),
}

/// Checks that every attempt at a part had the same content. Returns how many attempts followed a first one.
fn attempts_with_the_same_content(rig: &Rig) -> usize {
    let field = |line: &str, name: &str| {
        let (_, rest) = line.split_once(name).expect("the line has the field");
        let value = rest.split_whitespace().next();
        let value = value.expect("the field has a value");
        value.trim_matches('"').to_owned()
    };
    let lines = rig.logged("part written");
    let mut content = BTreeMap::new();
    for line in &lines {
        let (key, hash) = (field(line, "part_key="), field(line, "content_hash="));
        let first = content.entry(key).or_insert_with(|| hash.clone());
        assert_eq!(*first, hash, "content changed: {line}");
    }
    lines.len() - content.len()
}

/// Kills environments at each log message, and checks the output: every event once, and the same content at every attempt
/// at a part. Returns how many environments were killed at each log message, and how many attempts followed a first one.
/// There may be none, because a process runs on until the host has read its log.
async fn environments_are_killed_at_every_log_point(
    bodies: BodiesKind,
    events: u64,
    batch_size: usize,
    killed: Killed,
) -> (BTreeMap<String, u64>, usize) {
    let mut setup = Setup::new().mortal().bodies(bodies);
    setup = setup.batches_of(batch_size);
    let kill_at = log_points(bodies).map(|text| {
        let (percent, kills_max) = match killed {
            Killed::First(kills_max) => ("100", Some(kills_max)),
            // Few batches reach this message: only those that were not proven at once.
            Killed::Share(_) if text == "verify ticket sent" => ("70", None),
            Killed::Share(percent) => (percent, None),
        };
        KillAt {
            text: text.to_owned(),
            percent: percent.parse().expect("the value is a percentage"),
            kills_max,
        }
    });
    setup.options.faults.kill_at = kill_at.collect();
    let rig = setup.start().await;
    // The load of a hundred such bodies is too large for the table if there is a bucket.
    let config = WorkloadConfig {
        sizes: Sizes::Fixed(1_000),
        ..*workload(9, events, 0.0).config()
    };
    let workload = Workload::new(config).expect("the workload is sound");
    rig.burst(&workload).await;
    rig.until_drained().await;
    let report = rig.audit(&workload, DuplicateRule::Drop);
    assert_eq!(report.delivered, workload.unique());
    let again = attempts_with_the_same_content(&rig);
    rig.assert_bodies_are_in(bodies).await;
    for text in OF_ITEMS.iter().filter(|_| bodies != BodiesKind::Items) {
        assert!(!rig.has_logged(text), "{text}");
    }
    let faults = rig.stack.faults.report().expect("faults are on");
    eprintln!("{again} attempts more than parts\n{faults}");
    rig.stack.stop().await;
    let killed = faults.kill_at.into_iter().map(|at| (at.text, at.killed));
    (killed.collect(), again)
}

#[tokio::test]
async fn environments_killed_at_any_log_point_lose_nothing_and_deliver_the_same_parts_again() {
    for bodies in cases(&[BodiesKind::Items, BodiesKind::LogTable, BodiesKind::LogS3]) {
        let killed = Killed::First(2);
        let (killed, _) = environments_are_killed_at_every_log_point(bodies, 600, 60, killed).await;
        // The number of batches that must be verified depends on the machine, and may be 0.
        let missed = |(text, count): (&String, &u64)| *count < 2 && text != "verify ticket sent";
        assert!(!killed.iter().any(missed), "{killed:?}");
        assert_eq!(killed.len(), log_points(bodies).count(), "{killed:?}");
    }
}

#[tokio::test]
#[ignore = "takes minutes: `cargo xtask test --all`"]
async fn two_hundred_killed_environments_deliver_the_same_parts_again() {
    let share = Killed::Share("25");
    let (killed, again) =
        environments_are_killed_at_every_log_point(BodiesKind::Items, 6_000, 60, share).await;
    assert!(again > 0, "no part was delivered again");
    assert!(killed.values().all(|count| *count >= 5), "{killed:?}");
    assert!(killed.values().sum::<u64>() >= 200, "{killed:?}");
}

#[tokio::test]
#[ignore = "takes minutes: `cargo xtask test --all`"]
async fn environments_killed_at_random_lose_and_repeat_nothing() {
    for bodies in cases(&[BodiesKind::Items, BodiesKind::LogTable, BodiesKind::LogS3]) {
        let mut setup = Setup::new().mortal().bodies(bodies).batches_of(500);
        setup.options.batch_size = 200;
        setup.options.faults.kills = percent(25);
        let rig = setup.start().await;
        let workload = workload(11, 3_000, 10.0);
        rig.burst(&workload).await;
        rig.until_drained().await;
        rig.audit(&workload, DuplicateRule::Drop);
        rig.stack.stop().await;
    }
}
