//! Tests of `loadgen audit` with bursts whose events have two bodies, and bodies of different lengths.

use std::collections::BTreeMap;
use std::fs;

use loadgen::{Workload, WorkloadConfig};
use serde_json::Value;

use super::{json, loadgen, problems};

const PLAN: [&str; 3] = [
    "--messages=500",
    "--duplicates=any=10,changed=10",
    "--size=160..400",
];

fn workload() -> Workload {
    let config = WorkloadConfig {
        messages: 500,
        duplicates: "any=10,changed=10".parse().unwrap(),
        sizes: "160..400".parse().unwrap(),
        ..WorkloadConfig::default()
    };
    Workload::new(config).unwrap()
}

/// Audits bodies, each of which is in the batch with its number.
fn audit(bodies: &[(usize, String)], options: &[&str]) -> Value {
    let dir = tempfile::tempdir().unwrap();
    let mut batches: BTreeMap<usize, String> = BTreeMap::new();
    for (batch, body) in bodies {
        let batch = batches.entry(*batch).or_default();
        batch.push_str(body);
        batch.push('\n');
    }
    for (batch, text) in batches {
        let batch = dir.path().join(format!("batch-{batch:03}"));
        fs::create_dir(&batch).unwrap();
        fs::write(batch.join("0.txt"), text).unwrap();
    }
    let dir = dir.path().to_str().unwrap();
    let args = [&["audit", "--dir", dir], &PLAN[..], options].concat();
    json(&loadgen(&args))
}

/// Returns one body for each event: of its last message, so that some have the changed body.
fn last_bodies(workload: &Workload) -> BTreeMap<u64, String> {
    let bodies = (0..workload.len())
        .map(|index| (workload.event_number(index), workload.message(index).body));
    bodies.collect()
}

#[test]
fn with_the_drop_rule_either_body_of_an_event_may_be_delivered() {
    let workload = workload();
    let delivered: Vec<_> = last_bodies(&workload)
        .into_values()
        .map(|body| (0, body))
        .collect();
    let changed = delivered
        .iter()
        .filter(|(_, body)| body.contains(r#""revision":1"#))
        .count();
    assert!(changed > 20, "{changed}");
    let report = audit(&delivered, &[]);
    assert_eq!(report["ok"], true, "{report}");

    // Each message whose body is not the delivered one of its event is a conflict.
    let bodies = last_bodies(&workload);
    let conflicts = (0..500)
        .filter(|index| bodies[&workload.event_number(*index)] != workload.message(*index).body);
    assert_eq!(report["conflicts"], conflicts.count());
}

#[test]
fn a_third_body_is_corrupt_and_so_is_a_changed_body_that_is_not_planned() {
    let workload = workload();
    let mut bodies = last_bodies(&workload);
    let is_changed = |body: &str| body.contains(r#""revision":1"#);
    let (number, body) = bodies
        .iter()
        .find(|(_, body)| is_changed(body))
        .map(|(n, b)| (*n, b.clone()))
        .unwrap();
    bodies.insert(number, body.replace(".\"}", "!\"}"));
    let delivered: Vec<_> = bodies.values().map(|body| (0, body.clone())).collect();
    let report = audit(&delivered, &[]);
    assert_eq!(problems(&report), [0, 0, 0, 1, 0], "{report}");
    let why = format!(
        "the body differs from the workload at byte {}",
        body.len() - 3
    );
    assert_eq!(report["examples"]["corrupt"][0]["why"], why);

    // An event that is never sent with a changed body.
    let without = (0..500)
        .find(|index| {
            !(0..500)
                .any(|other| workload.is_changed(other) && workload.event_number(other) == *index)
        })
        .unwrap();
    bodies.insert(number, last_bodies(&workload)[&number].clone());
    let changed = with_changed_body(&workload, without);
    bodies.insert(without, changed);
    let delivered: Vec<_> = bodies.into_values().map(|body| (0, body)).collect();
    let report = audit(&delivered, &[]);
    assert_eq!(problems(&report), [0, 0, 0, 1, 0]);
    let why = "the body is a changed one, expected the only one of the event";
    assert_eq!(report["examples"]["corrupt"][0]["why"], why);
}

/// Returns the changed body of an event, also of one that is never sent with it: that of the same event in a burst with
/// changed duplicates alone.
fn with_changed_body(workload: &Workload, number: u64) -> String {
    let duplicates = "changed=70".parse().unwrap();
    let other = |messages| {
        Workload::new(WorkloadConfig {
            duplicates,
            messages,
            ..workload.config().clone()
        })
        .unwrap()
    };
    let found = (1_000..1_100).find_map(|messages| {
        let other = other(messages);
        let index =
            (0..messages).find(|at| other.is_changed(*at) && other.event_number(*at) == number)?;
        Some(other.message(index).body)
    });
    found.expect("one of the bursts repeats the event")
}

#[test]
fn with_the_requeue_rule_each_body_must_be_delivered_as_often_as_it_was_sent() {
    let workload = workload();
    let all: Vec<_> = (0..500)
        .map(|index| (index as usize, workload.message(index).body))
        .collect();
    let report = audit(&all, &["--on-duplicate", "requeue"]);
    assert_eq!(problems(&report), [0; 5], "{report}");
    assert_eq!(report["ok"], true, "{report}");
    assert_eq!(report["conflicts"], 0);

    let mut wrong = all.clone();
    let changed = (0..500).find(|index| workload.is_changed(*index)).unwrap();
    let original = (0..500)
        .find(|index| workload.event_number(*index) == workload.event_number(changed))
        .unwrap();
    wrong[changed as usize].1 = all[original as usize].1.clone();
    let report = audit(&wrong, &["--on-duplicate", "requeue"]);
    assert_eq!(problems(&report), [1, 1, 0, 0, 0], "{report}");
    let why = "delivered with this body more often than expected";
    assert_eq!(report["examples"]["repeated"][0]["why"], why);
}
