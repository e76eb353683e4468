//! One configuration file: read by both functions at their cold start, by `batch-local --config`, and by `batchctl config`.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use local::config_file::LocalConfig;
use local::sink::SinkKind;
use local::stack::QUARANTINE_QUEUE;
use serde_json::json;
use tempfile::TempDir;
use tests::files_below;

use crate::command_line::{SHORT, local};
use crate::executables::{Ran, command, run};
use crate::rig::{Setup, owned};

const EXAMPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/examples/service.toml");

/// A file with one problem in each line but the first and the third.
const WRONG: &str = "\
[events]
id = \"json:a[\"
[batches]
max_size = 0
windows = \"5m\"
";
const PROBLEMS: [&str; 3] = [
    ":2:6: `events.id`: wrong value: got `\"json:a[\"`: ",
    ":4:12: `batches.max_size`: wrong value: got `0`, expected a whole number of items from 1 to 500000",
    ":5:1: `batches.windows`: unknown key: expected `batches.window`",
];

fn file(text: &str) -> (TempDir, PathBuf) {
    let directory = tempfile::tempdir().expect("a temporary directory can be made");
    let path = directory.path().join("service.toml");
    fs::write(&path, text).expect("it can be written");
    (directory, path)
}

async fn batchctl_config(arguments: &[&str]) -> Ran {
    run(command("batchctl").arg("config").args(arguments)).await
}

#[tokio::test]
async fn batchctl_reports_every_problem_of_a_file_and_needs_no_stack() {
    let checked = batchctl_config(&["check", EXAMPLE]).await;
    assert_eq!(checked.code, Some(0), "{checked:?}");
    let (_directory, path) = file(WRONG);
    let name = path.display().to_string();
    let checked = batchctl_config(&["check", &name]).await;
    assert_eq!(checked.code, Some(1), "{checked:?}");
    for words in PROBLEMS {
        let line = format!("{name}{words}");
        let is_there = checked.out.lines().any(|each| each.starts_with(&line));
        assert!(is_there, "{line} in {checked:?}");
    }
    // One more: the file names no sink.
    assert!(checked.err.contains("4 problems"), "{checked:?}");
}

#[tokio::test]
async fn batchctl_prints_the_schema_and_explains_a_setting() {
    let schema = batchctl_config(&["schema"]).await;
    let stored = include_str!("../../docs/service.schema.json");
    assert_eq!(schema.out, stored);
    let explained = batchctl_config(&["explain", "batches.window"]).await.out;
    for words in [
        "variable  MAX_SECONDARY_BATCHING_WINDOW\n",
        "read by   the aggregator\n",
        "default   300\n",
        "a duration from `\"1s\"` to `\"897s\"`",
    ] {
        assert!(explained.contains(words), "{words} in {explained}");
    }
}

#[tokio::test]
async fn the_functions_report_the_problems_of_the_file_that_config_names() {
    let (_directory, path) = file(WRONG);
    let name = path.display().to_string();
    let uri = format!("file://{name}");
    for function in ["aggregator", "batch-processor"] {
        let start = async |config: &str| {
            let mut command = command(function);
            command
                .env("AWS_LAMBDA_RUNTIME_API", "127.0.0.1:9")
                .env("AWS_LAMBDA_FUNCTION_NAME", function)
                .env("AWS_LAMBDA_FUNCTION_VERSION", "$LATEST")
                .env("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", "128")
                .env("CONFIG", config)
                .env("DDB_LOCK_TABLE", "lock-table")
                .env("DDB_BATCH_TABLE", "batch-table")
                .env("BATCH_QUEUE_URL", "https://sqs.invalid/batch-queue");
            let ran = run(&mut command).await;
            assert_ne!(ran.code, Some(0), "{ran:?}");
            ran.out + &ran.err
        };
        let said = start(&uri).await.replace("\\\"", "\"");
        // Each function knows the keys of the other, and classifies the values that it reads.
        let classified = &PROBLEMS[if function == "aggregator" { 0 } else { 1 }..];
        for words in classified {
            let line = format!("{name}{words}");
            assert!(said.contains(&line), "{function}: {line} in {said}");
        }
        let said = start("file:///nonexistent/service.toml").await;
        let words = "`CONFIG`: cannot be read: got `file:///nonexistent/service.toml`: No such file or directory";
        assert!(said.contains(words), "{function}: {words} in {said}");
    }
}

#[tokio::test]
async fn both_functions_take_from_the_file_what_no_variable_sets() {
    let (_directory, path) = file(
        "\
[events]
id = \"json:no.such.field\"
id_prefix = \"orders-\"
[sink]
uri = \"log:\"
[sink.layout]
path = \"from-the-file/{batch}_{part}.jsonl\"
",
    );
    let setup = Setup::new().var("CONFIG", format!("file://{}", path.display()));
    let rig = setup.start().await;
    rig.send(json!({"id": "a"}).to_string());
    rig.until_drained().await;
    let parts = files_below(&rig.stack.out.join("from-the-file"), ".jsonl");
    let part = fs::read_to_string(&parts[0]).expect("it is text");
    assert!(part.contains("\"orders-a\""), "{part}");
    rig.end().await;
}

#[tokio::test]
async fn a_file_of_production_runs_on_one_machine() {
    // The orders are of a day that has passed: its file is due.
    let set = [
        ("QUOTA_MAX", "2"),
        ("QUOTA_TIME", "sent"),
        ("CLOSE_TIME", "at"),
    ];
    let set = owned(&set);
    let config = LocalConfig::read(Path::new(EXAMPLE), &set);
    let config = config.expect("the example is right");
    assert_eq!(config.sink, SinkKind::Sftp);
    let not_used = config.not_used().expect("the file is of another place");
    for name in ["SINK", "SINK_HOST_KEY", "SINK_SECRET", "DELIVERY_HOURS"] {
        assert!(not_used.contains(&format!("`{name}`")), "{not_used}");
    }
    let mut setup = Setup::new();
    for (name, value) in config.variables.into_iter().chain(set) {
        setup = setup.var(&name, value);
    }
    setup.options.sink = config.sink;
    let rig = setup.start().await;
    let orders = [
        ("A1", "a", "1250"),
        ("A2", "a", "725"),
        ("A3", "a", "1"),
        ("B1", "b", "10000"),
    ];
    // One time for all orders, so that the quota has one period even at midnight.
    let sent = UNIX_EPOCH.elapsed().expect("the clock is right").as_secs();
    for (order, customer, amount) in orders {
        let at = "2026-03-27T12:00:00+01:00";
        let body =
            json!({"order": order, "customer": customer, "amount": amount, "at": at, "sent": sent});
        rig.send(body.to_string());
    }
    rig.until_drained().await;
    let mut delivered = BTreeSet::new();
    let mut days = BTreeSet::new();
    for path in files_below(&rig.stack.out, ".txt") {
        let name = path.file_name().expect("it has a name");
        let name = name.to_string_lossy();
        let file = fs::read_to_string(&path).expect("it is text");
        let mut lines = Vec::from_iter(file.lines());
        let trailer = lines.pop().expect("there is a trailer");
        assert_eq!(trailer, format!("{:06}", lines.len() - 1), "{file}");
        let header = lines.remove(0).strip_prefix("ORDERS ");
        let day = header.expect("there is a header");
        let beginning = format!("ORDERS_{}_", day.replace('-', ""));
        assert!(name.starts_with(&beginning), "{name}");
        days.insert(day.to_owned());
        for line in lines {
            assert!(delivered.insert(line.to_owned()), "{line} is there twice");
        }
    }
    let records = orders.map(|(order, _, amount)| format!("{order:<10}{amount:0>8}"));
    let are_sent = delivered.iter().all(|record| records.contains(record));
    assert!(are_sent, "{delivered:?}");
    let beyond = rig.depth(QUARANTINE_QUEUE);
    assert_eq!(delivered.len() + beyond, orders.len());
    assert_eq!(beyond, 1, "customer `a` sent one order too many");
    assert_eq!(Vec::from_iter(days), ["2026-03-27"]);
    rig.end_with_set_aside(beyond, 0).await;
}

#[tokio::test]
async fn a_burst_runs_with_a_file_and_tells_what_it_does_not_use() {
    let (_directory, path) = file(
        "\
[events]
id = \"json:id\"
[batches]
max_size = 400
[sink]
uri = \"https://example.com/batches\"
secret = \"ssm:/token\"
format = \"body\"
compression = \"gzip\"
rejects = \"file:///nowhere/rejects\"
",
    );
    let config = path.display().to_string();
    let arguments = ["burst", "--messages", "1000", "--json", "--config", &config];
    let arguments = [&arguments[..], &SHORT].concat();
    let (code, out, err) = local(&arguments).await;
    assert_eq!(code, Some(0), "{out}\n{err}");
    let line =
        format!("{config}: this run has its own `SINK`, `SINK_SECRET`, whatever the file says");
    assert!(err.contains(&line), "{line} in {err}");
    let summary: serde_json::Value = serde_json::from_str(&out).expect("it is JSON");
    assert_eq!(summary["sink"]["kind"], "http", "{summary:#}");

    let (_directory, path) = file(WRONG);
    let name = path.display().to_string();
    let (code, out, err) = local(&["burst", "--config", &name]).await;
    assert_eq!(code, Some(2), "{out}\n{err}");
    for words in PROBLEMS {
        assert!(err.contains(&format!("{name}{words}")), "{words} in {err}");
    }
}
