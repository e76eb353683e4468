//! `loadgen burst` sends a burst to a stack that it knows from a file of variables only, and audits its sink.

use std::path::Path;

use local::sink::SinkKind;
use serde_json::Value;
use tokio::process::Command;

use crate::executables::{Ran, command, end, run, signal, started};
use crate::rig::{Rig, Setup};

/// Arguments of a short burst that looks often.
const SHORT: [&str; 3] = ["--json", "--every", "1"];

fn burst(directory: &Path, rig: &Rig, arguments: &[&str]) -> Command {
    std::fs::write(directory.join("env"), rig.stack.describe())
        .expect("the directory takes a file");
    let mut command = command("loadgen");
    let with_stack = ["burst", "--env-file", "env"];
    command.current_dir(directory);
    command.args(with_stack).args(SHORT).args(arguments);
    command
}

/// Returns the summary that a burst printed, which ended with this code.
fn summary(code: i32, ran: &Ran) -> Value {
    assert_eq!(ran.code, Some(code), "{ran:?}");
    serde_json::from_str(&ran.out).unwrap_or_else(|error| panic!("{error}: {ran:?}"))
}

/// Sends two bursts with duplicates, each of which must deliver this number of events; returns their summaries.
async fn two_bursts(directory: &Path, rig: &Rig, messages: &str, delivered: u64) -> [Value; 2] {
    let mut summaries = [Value::Null, Value::Null];
    for (place, seed) in summaries.iter_mut().zip(["5", "6"]) {
        let arguments = ["--messages", messages, "--duplicates", "10", "--seed", seed];
        let ran = run(&mut burst(directory, rig, &arguments)).await;
        let summary = summary(0, &ran);
        assert_eq!(summary["audit"]["delivered"], delivered, "{summary}");
        *place = summary;
    }
    summaries
}

#[tokio::test]
async fn a_burst_is_audited_although_the_sink_has_batches_of_an_earlier_one() {
    let rig = Setup::new().start().await;
    let directory = tempfile::tempdir().expect("a temporary directory can be made");
    for summary in two_bursts(directory.path(), &rig, "1000", 900).await {
        assert_eq!(summary["delivered_by_records"], 900, "{summary}");
        assert_eq!(summary["delivery_latency"]["count"], 900, "{summary}");
    }
    for seed in ["5", "6"] {
        let record = directory.path().join(format!("loadgen-{seed}.record.json"));
        let record = std::fs::read_to_string(record).expect("every burst writes a record");
        let record = planner::Record::from_json(&record).expect("it is a record");
        assert_eq!(record.outcome.ok, Some(true));
        let events: u64 = record.batches.iter().map(|batch| batch.events).sum();
        assert_eq!(events, 900);
        let mut samples = record.samples.iter();
        assert!(samples.any(|sample| sample.sent == Some(1_000)));
    }
    rig.end().await;
}

#[tokio::test]
async fn objects_of_a_bucket_and_rows_of_a_database_are_audited() {
    for (kind, place) in [
        (SinkKind::S3, "s3://batches/out"),
        (SinkKind::Postgres, "postgres://"),
    ] {
        let mut setup = Setup::new();
        setup.options.sink = kind;
        let rig = setup.start().await;
        let directory = tempfile::tempdir().expect("a temporary directory can be made");
        for summary in two_bursts(directory.path(), &rig, "500", 450).await {
            let sink = summary["sink"].as_str().unwrap_or_default();
            // The address of a database differs from run to run.
            let is_database = kind == SinkKind::Postgres && sink.starts_with(place);
            assert!(sink == place || is_database, "{summary}");
        }
        rig.end().await;
    }
}

#[tokio::test]
async fn a_burst_whose_messages_are_set_aside_fails_with_their_count() {
    let setup = Setup::new().var("EVENT_ID", "json:no.such.field");
    let rig = setup.start().await;
    let directory = tempfile::tempdir().expect("a temporary directory can be made");
    let arguments = ["--messages", "50", "--duplicates", "10", "--quiet", "30"];
    let ran = run(&mut burst(directory.path(), &rig, &arguments)).await;
    let summary = summary(1, &ran);
    assert_eq!(summary["set_aside"], 50, "{summary}");
    assert_eq!(summary["audit"]["lost"], 45, "{summary}");
    rig.end_with_set_aside(50, 0).await;
}

#[tokio::test]
async fn a_burst_that_was_stopped_is_continued_and_audited_as_one() {
    let rig = Setup::new().start().await;
    let directory = tempfile::tempdir().expect("a temporary directory can be made");
    let slow = ["--messages", "600", "--duplicates", "10", "--rate", "100"];
    let first = started(&mut burst(directory.path(), &rig, &slow));
    rig.until("a batch has claims", async || rig.under_way().await > 0)
        .await;
    signal("-TERM", &first).await;
    let sent = summary(143, &end(first).await)["sent"]["sent"].as_u64();
    assert!((1..600).contains(&sent.unwrap_or_default()), "{sent:?}");

    let rest = ["--resume", "loadgen-1.resume.json"];
    let ran = run(&mut burst(directory.path(), &rig, &rest)).await;
    let summary = summary(0, &ran);
    assert_eq!(summary["sent"]["sent_earlier"].as_u64(), sent);
    assert_eq!(summary["audit"]["delivered"], 540, "{summary}");
    rig.end().await;
}
