//! `loadgen burst` sends a burst to a stack that it knows from a file of variables only, and audits its sink.

use std::path::Path;
use std::process::{Output, Stdio};

use local::sink::SinkKind;
use serde_json::Value;
use tokio::process::Command;

use crate::executables::executable;
use crate::rig::{CAP, Rig, Setup};

/// Arguments of a short burst that looks often.
const SHORT: [&str; 3] = ["--json", "--every", "1"];

fn burst(directory: &Path, rig: &Rig, arguments: &[&str]) -> Command {
    std::fs::write(directory.join("env"), rig.stack.describe())
        .expect("the directory takes a file");
    let mut command = Command::new(executable("loadgen"));
    command
        .current_dir(directory)
        .env_clear()
        .args(["burst", "--env-file", "env"])
        .args(SHORT)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    command
}

async fn finished(mut command: Command) -> Output {
    let ended = tokio::time::timeout(CAP, command.output()).await;
    let ended = ended.expect("a burst ends");
    ended.expect("the executable starts")
}

fn summary(output: &Output) -> Value {
    let (out, err) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: `{out}`, {err}"))
}

#[tokio::test]
async fn a_burst_is_audited_although_the_sink_has_batches_of_an_earlier_one() {
    let rig = Setup::new().start().await;
    let directory = tempfile::tempdir().expect("a temporary directory can be made");
    for seed in ["5", "6"] {
        let arguments = ["--messages", "1000", "--duplicates", "10", "--seed", seed];
        let output = finished(burst(directory.path(), &rig, &arguments)).await;
        let summary = summary(&output);
        assert_eq!(output.status.code(), Some(0), "{summary}");
        assert_eq!(summary["audit"]["delivered"], 900, "{summary}");
        assert_eq!(summary["delivered_by_records"], 900, "{summary}");
        assert_eq!(summary["delivery_latency"]["count"], 900, "{summary}");
        let record = directory.path().join(format!("loadgen-{seed}.record.json"));
        let record = std::fs::read_to_string(record).expect("every burst writes a record");
        let record = planner::Record::from_json(&record).expect("it is a record");
        assert_eq!(record.outcome.ok, Some(true));
        assert_eq!(
            record.batches.iter().map(|batch| batch.events).sum::<u64>(),
            900
        );
        assert!(
            record
                .samples
                .iter()
                .any(|sample| sample.sent == Some(1_000))
        );
    }
    rig.end().await;
}

#[tokio::test]
async fn objects_of_a_bucket_are_audited() {
    let mut setup = Setup::new();
    setup.options.sink = SinkKind::S3;
    let rig = setup.start().await;
    let directory = tempfile::tempdir().expect("a temporary directory can be made");
    let arguments = ["--messages", "500", "--duplicates", "10"];
    let output = finished(burst(directory.path(), &rig, &arguments)).await;
    let summary = summary(&output);
    assert_eq!(output.status.code(), Some(0), "{summary}");
    assert_eq!(summary["audit"]["delivered"], 450, "{summary}");
    assert_eq!(summary["sink"], "s3://batches/out", "{summary}");
    rig.end().await;
}

#[tokio::test]
async fn rows_of_a_database_are_audited() {
    let mut setup = Setup::new();
    setup.options.sink = SinkKind::Postgres;
    let rig = setup.start().await;
    let directory = tempfile::tempdir().expect("a temporary directory can be made");
    for seed in ["5", "6"] {
        let arguments = ["--messages", "500", "--duplicates", "10", "--seed", seed];
        let output = finished(burst(directory.path(), &rig, &arguments)).await;
        let summary = summary(&output);
        assert_eq!(output.status.code(), Some(0), "{summary}");
        assert_eq!(summary["audit"]["delivered"], 450, "{summary}");
        let sink = summary["sink"].as_str().unwrap_or_default();
        assert!(sink.starts_with("postgres://"), "{summary}");
    }
    rig.end().await;
}

#[tokio::test]
async fn a_burst_whose_messages_are_set_aside_fails_with_their_count() {
    let rig = Setup::new()
        .var("EVENT_ID", "json:no.such.field")
        .start()
        .await;
    let directory = tempfile::tempdir().expect("a temporary directory can be made");
    let output = finished(burst(
        directory.path(),
        &rig,
        &["--messages", "50", "--duplicates", "10", "--quiet", "30"],
    ))
    .await;
    let summary = summary(&output);
    assert_eq!(output.status.code(), Some(1), "{summary}");
    assert_eq!(summary["set_aside"], 50, "{summary}");
    assert_eq!(summary["audit"]["lost"], 45, "{summary}");
    rig.end_with_set_aside(50, 0).await;
}

#[tokio::test]
async fn a_burst_that_was_stopped_is_continued_and_audited_as_one() {
    let rig = Setup::new().start().await;
    let directory = tempfile::tempdir().expect("a temporary directory can be made");
    let slow = ["--messages", "600", "--duplicates", "10", "--rate", "100"];
    let first = burst(directory.path(), &rig, &slow)
        .spawn()
        .expect("the executable starts");
    let pid = first.id().expect("it runs").to_string();
    rig.until("a batch has claims", async || rig.under_way().await > 0)
        .await;
    let killed = Command::new("kill").args(["-TERM", &pid]).status().await;
    assert!(killed.expect("`kill` runs").success());
    let first = first.wait_with_output().await.expect("it ends");
    let sent = summary(&first)["sent"]["sent"].as_u64();
    assert_eq!(first.status.code(), Some(143));
    assert!((1..600).contains(&sent.unwrap_or_default()), "{sent:?}");

    let rest = ["--resume", "loadgen-1.resume.json"];
    let output = finished(burst(directory.path(), &rig, &rest)).await;
    let summary = summary(&output);
    assert_eq!(output.status.code(), Some(0), "{summary}");
    assert_eq!(summary["sent"]["sent_earlier"].as_u64(), sent);
    assert_eq!(summary["audit"]["delivered"], 540, "{summary}");
    rig.end().await;
}
