//! The metric lines of the executables are what the specification of CloudWatch's embedded metric format demands, and have the
//! names and units of docs/metrics.md.
//! Source: <https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/CloudWatch_Embedded_Metric_Format_Specification.html>
//! (2026-11).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use loadgen::DuplicateRule;
use local::stack::QUARANTINE_QUEUE;
use serde_json::{Value, json};
use shared::metrics::{DIMENSIONS, NAMESPACE};

use crate::log_lines::{LogOrMetrics, lines_of};
use crate::rig::{Rig, Setup, now_ms, workload};

/// Bytes of a log event, at most.
const LINE_BYTES_MAX: usize = 256 * 1024;
/// Metrics of a directive, at most.
const METRICS_MAX: usize = 100;
const DIMENSION_VALUE_CHARS_MAX: usize = 1_024;
/// Those of CloudWatch's units that metrics here have.
const UNITS: [&str; 4] = ["Bytes", "Count", "Milliseconds", "Percent"];
/// A timestamp is not older than this, and not further ahead than two hours.
const AGE_MAX: Duration = Duration::from_secs(14 * 24 * 3_600);
const AHEAD_MAX: Duration = Duration::from_secs(2 * 3_600);

/// Metrics that a run with duplicates, a bad message and a sweep measures.
const MEASURED: &str = "Received Claimed ClaimedBytes Duplicates Quarantined BatchesOpened \
                        BatchesSealed FlushedFull FlushedWindow PartsDelivered BatchItems \
                        DeliveredBytes DeliverTime SendToDeliverTime Released BatchesCompleted \
                        BatchAge FillRatio BatchesOverdue BatchesProcessing BatchesInError \
                        OldestOverdueAge OldestErrorAge";
/// The metrics that say for which reason a batch was flushed.
const FLUSHED: &str =
    "FlushedFull FlushedBytes FlushedWindow FlushedDrained FlushedUrgent FlushedIdle";

fn metric_lines(rig: &Rig) -> Vec<(String, Value)> {
    let lines = lines_of(rig).into_iter();
    let metrics = lines.filter_map(|(text, line)| match line {
        LogOrMetrics::Metrics(line) => Some((text, line)),
        LogOrMetrics::Log(_) => None,
    });
    metrics.collect()
}

/// Checks every rule of the specification that our lines could break.
fn assert_valid(text: &str, line: &Value) {
    assert!(text.len() <= LINE_BYTES_MAX, "{text}");
    // Nothing is before or after.
    assert!(text.starts_with('{') && text.ends_with('}'), "{text}");
    let at = line["_aws"]["Timestamp"].as_u64();
    let at = at.expect("the timestamp is a whole number");
    let now = Duration::from_millis(now_ms());
    let at = Duration::from_millis(at);
    assert!(at + AGE_MAX > now && at < now + AHEAD_MAX, "{text}");
    let directives = line["_aws"]["CloudWatchMetrics"].as_array();
    let [directive] = &directives.expect("a list")[..] else {
        panic!("one directive: {text}");
    };
    assert_eq!(directive["Namespace"], NAMESPACE, "{text}");
    // At most 30 dimensions are allowed, each with a name of at most 250 characters.
    assert_eq!(directive["Dimensions"], json!([DIMENSIONS]), "{text}");
    for name in DIMENSIONS {
        // A dimension is a text at the root.
        let count = line[name].as_str().map_or(0, |text| text.chars().count());
        assert!((1..=DIMENSION_VALUE_CHARS_MAX).contains(&count), "{text}");
    }
    let metrics = directive["Metrics"].as_array().expect("a list");
    assert!((1..=METRICS_MAX).contains(&metrics.len()), "{text}");
    let names = metrics.iter().filter_map(|metric| metric["Name"].as_str());
    let names: BTreeSet<&str> = names.collect();
    // Each metric is defined once.
    assert_eq!(names.len(), metrics.len(), "{text}");
    for name in names {
        // A metric is at the root. The specification allows lists too; `local` adds numbers up.
        assert!(line[name].is_number(), "{name}: {text}");
    }
}

/// Returns the unit of every metric of docs/metrics.md.
fn documented() -> BTreeMap<String, String> {
    let document = include_str!("../../docs/metrics.md");
    let rows = document.lines().filter_map(|line| line.strip_prefix("| `"));
    let metrics = rows.filter_map(|row| {
        let (name, rest) = row.split_once("` | ")?;
        let (unit, _) = rest.split_once(" | ")?;
        Some((name.to_owned(), unit.to_owned()))
    });
    metrics.collect()
}

/// Returns the metrics in the lines, each with its unit.
fn units(lines: &[(String, Value)]) -> BTreeMap<String, String> {
    let directives = lines.iter();
    let directives = directives.map(|(_, line)| &line["_aws"]["CloudWatchMetrics"][0]);
    let metrics = directives.flat_map(|one| one["Metrics"].as_array().expect("a list"));
    let text = |value: &Value| value.as_str().expect("a text").to_owned();
    let units = metrics.map(|metric| (text(&metric["Name"]), text(&metric["Unit"])));
    units.collect()
}

#[tokio::test]
async fn every_metric_line_is_valid_and_has_documented_names_and_units() {
    let mut setup = Setup::new().window(1).batches_of(200);
    setup.options.batch_size = 500;
    let rig = setup.start().await;
    let workload = workload(3, 1_000, 10.0);
    rig.burst(&workload).await;
    rig.send("not json");
    rig.until_depth(QUARANTINE_QUEUE, 1).await;
    rig.until_drained().await;
    rig.until_logged("sweep done").await;
    rig.audit(&workload, DuplicateRule::Drop);
    rig.end_with_set_aside(1, 0).await;

    let lines = metric_lines(&rig);
    for (text, line) in &lines {
        assert_valid(text, line);
    }
    let (documented, found) = (documented(), units(&lines));
    for (name, unit) in &found {
        assert_eq!(documented.get(name), Some(unit), "{name}");
        assert!(UNITS.contains(&unit.as_str()), "{name} in {unit}");
    }
    for name in MEASURED.split_whitespace() {
        assert!(found.contains_key(name), "{name} was not measured");
    }
    assert_sums_agree(&rig, workload.unique());
}

/// Checks that what went in came out, by the metrics alone.
fn assert_sums_agree(rig: &Rig, unique: u64) {
    let sum = |name| rig.stack.function_logs.sum(name);
    assert_eq!(sum("BatchItems"), unique);
    // On a machine under load, an invocation may run out of time after a claim. Then the message counts as redelivered.
    if sum("Redelivered") == 0 {
        assert_eq!(sum("Claimed"), unique);
        assert_eq!(sum("ClaimedBytes"), sum("DeliveredBytes"));
    }
    // Every batch was flushed for one reason.
    let flushed: u64 = FLUSHED.split(' ').map(sum).sum();
    assert_eq!(flushed, sum("BatchesOpened"));
}
