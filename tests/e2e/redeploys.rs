//! Updates of the functions' configuration during a run.

use std::collections::BTreeMap;
use std::ops::Range;

use emulators::lambda::EnvironmentState;
use loadgen::DuplicateRule;
use local::bodies::BodiesKind;
use local::stack::INPUT_QUEUE;

use crate::batchctl::Batchctl;
use crate::command_line::summary;
use crate::events::body;
use crate::output::sorted;
use crate::rig::{Setup, owned, workload};

#[tokio::test]
async fn old_environments_end_and_new_ones_have_the_changed_variables() {
    let ids = |range: Range<usize>| Vec::from_iter(range.map(|number| format!("e{number}")));
    let (before, after) = (ids(0..100), ids(100..200));
    let setup = Setup::new().batches_of(before.len());
    let rig = setup.one_aggregator_environment().start().await;
    before.iter().for_each(|id| rig.send(body(id)));
    rig.until_metric("Claimed", before.len() as u64).await;
    let smaller = owned(&[("MAX_BATCH_SIZE", "10")]);
    rig.stack.aggregator.redeploy(&smaller);
    after.iter().for_each(|id| rig.send(body(id)));
    rig.until_drained().await;
    let all = sorted(before.iter().chain(&after));
    assert_eq!(rig.delivered_ids(), all);

    let environments = rig.stack.aggregator.environments();
    let states = environments.iter().map(|environment| environment.state);
    let ended = states.map(|state| matches!(state, EnvironmentState::Ended { .. }));
    let ended = Vec::from_iter(ended);
    assert_eq!(ended, [true, false], "{environments:?}");
    let mut sizes: BTreeMap<String, usize> = BTreeMap::new();
    for line in rig.delivered() {
        if after.contains(&line.event_id) {
            *sizes.entry(line.batch_id).or_default() += 1;
        }
    }
    assert!(sizes.values().all(|size| *size <= 10), "{sizes:?}");
    rig.end().await;
}

#[tokio::test]
async fn a_switch_to_the_log_and_back_in_the_middle_of_a_burst_loses_and_repeats_nothing() {
    let mut setup = Setup::new().batches_of(300);
    setup = setup.redeliver(INPUT_QUEUE, 1_000);
    setup.options.batch_size = 200;
    let rig = setup.start().await;
    let batchctl = Batchctl::of(&rig);
    let workload = workload(13, 1_800, 10.0);
    let third = workload.len() / 3;
    let send = |messages: Range<u64>| {
        messages.for_each(|index| rig.send(workload.message(index).body));
    };
    send(0..third);
    rig.until_metric("Claimed", 1).await;
    rig.stop_and_complete().await;
    let prime = ["prime", "--lock-table", "--bodies", "log:table"];
    let primed = batchctl.change(&prime).await;
    assert_ne!(primed["events"], 0, "{primed}");
    rig.redeploy_with(&[("BODIES", "log:table")]);

    let before = rig.delivered_ids().len();
    rig.stack.input_mapping.resume();
    send(third..2 * third);
    send(0..third);
    let delivered = async || rig.delivered_ids().len() > before;
    rig.until("the log has delivered an event", delivered).await;
    rig.stop_and_complete().await;
    let remembered = batchctl.change(&["tombstones"]).await;
    assert_ne!(remembered["events"], 0, "{remembered}");
    rig.redeploy_with(&[("BODIES", "items")]);

    rig.stack.input_mapping.resume();
    send(0..workload.len());
    rig.until_drained().await;
    rig.audit(&workload, DuplicateRule::Drop);
    let batches = rig.batches_by_bodies().await;
    let of = |bodies: BodiesKind| batches.get(bodies.value()).copied().unwrap_or_default();
    assert!(of(BodiesKind::Items) >= 2, "{batches:?}");
    assert!(of(BodiesKind::LogTable) >= 1, "{batches:?}");
    rig.end().await;
}

#[tokio::test]
async fn redeploys_in_the_middle_of_a_burst_lose_and_repeat_nothing() {
    let mut arguments = vec!["burst", "--messages", "3000", "--duplicates", "10"];
    arguments.extend(["--rate", "800", "--env", "MAX_BATCH_SIZE=300"]);
    arguments.extend(["--batch-size", "200"]);
    arguments.extend(["--redeploy-at", "1:INDEX_SHARDS=3,MAX_BATCH_SIZE=150"]);
    arguments.extend(["--redeploy-at", "2", "--redeploy-at", "3:WRITE_MODE=put"]);
    let summary = summary(0, &arguments).await;
    let redeploys = summary["faults"]["redeploys"].as_array();
    assert_eq!(redeploys.map(Vec::len), Some(3), "{summary}");
    let killed = &summary["aggregator"]["killed"];
    assert_eq!(*killed, 0, "an update kills nothing: {summary}");
}
