//! The command line of `batch-local`: its output and exit codes.

use serde_json::Value;

use crate::executables::{command, executable, run};

pub const EXIT_NOTHING_TO_SAY: i32 = 2;

/// What `burst` says to `SINK_FORMAT=csv`.
const NO_CSV: &str = "got `csv`, expected `envelope` or `body`";

/// Options with which a burst ends in seconds. The last two are for a burst alone.
pub const SHORT: [&str; 9] = [
    "--aggregator-timeout",
    "15",
    "--batch-processor-timeout",
    "15",
    "--env=SEAL_WHEN_DRAINED=on",
    "--env=DEADLINE_MARGIN_MS=6000",
    "--env=VERIFY_DELAY=1",
    "--patience",
    "300",
];

/// Runs `batch-local`; returns its exit code, standard output and standard error.
pub async fn local(arguments: &[&str]) -> (Option<i32>, String, String) {
    let ran = run(command("batch-local").args(arguments)).await;
    (ran.code, ran.out, ran.err)
}

/// Runs a burst with these arguments and [`SHORT`], which must end with this code; returns its summary.
pub async fn summary(code: i32, arguments: &[&str]) -> Value {
    let arguments = [arguments, &["--json"], &SHORT].concat();
    let (ended, out, err) = local(&arguments).await;
    assert_eq!(ended, Some(code), "{out}\n{err}");
    serde_json::from_str(&out).expect("standard output is one JSON object")
}

#[tokio::test]
async fn a_burst_prints_one_json_object_and_succeeds_when_nothing_is_lost() {
    let arguments = ["burst", "--messages", "1000", "--duplicates", "10"];
    let summary = summary(0, &arguments).await;
    for trouble in ["lost", "repeated", "foreign", "corrupt", "mixed"] {
        assert_eq!(summary["audit"][trouble], 0, "{trouble} in {summary}");
    }
    assert_eq!(summary["sent"]["sent"], 1_000, "{summary}");
    assert_eq!(summary["audit"]["delivered"], 900, "{summary}");
    assert_eq!(summary["batches_in_error"], 0, "{summary}");
    assert_eq!(summary["sink"]["kind"], "file", "{summary}");
    let batches = &summary["audit"]["batches"]["count"];
    assert_eq!(summary["latency"]["all"]["batches"], *batches, "{summary}");
    let share = &summary["cost"]["per_unique"];
    for (figure, least) in [
        ("/write_units", 4.0),
        ("/read_units", 1.0),
        ("/sqs_requests", 0.2),
        ("/dollars_per_million/total", 2.5),
    ] {
        let figure = share.pointer(figure).and_then(Value::as_f64);
        assert!(figure > Some(least), "{share}");
    }
    let set_aside = summary["set_aside"].as_object().expect("an object");
    assert!(set_aside.values().all(|count| *count == 0), "{summary}");
}

#[tokio::test]
async fn a_burst_is_the_default_and_begins_with_a_verdict_for_people() {
    let directory = tempfile::tempdir().expect("a temporary directory can be made");
    let out_directory = directory.path().join("out");
    let bootstraps = [executable("aggregator"), executable("batch-processor")];
    let text = |path: &std::path::Path| path.to_str().expect("paths here are text").to_owned();
    let (out_directory, bootstraps) = (text(&out_directory), bootstraps.map(|path| text(&path)));
    let record = text(&directory.path().join("runs").join("one.json"));
    let mut arguments = vec!["--messages", "200", "--out", &out_directory];
    arguments.extend(["--record", &record]);
    arguments.extend(["--aggregator", &bootstraps[0]]);
    arguments.extend(["--batch-processor", &bootstraps[1]]);
    arguments.extend(SHORT);
    let (code, out, err) = local(&arguments).await;
    assert_eq!(code, Some(0), "{out}\n{err}");
    let beginning = "OK: nothing lost, nothing repeated\nsent        200 messages";
    assert!(out.starts_with(beginning), "{out}");
    for bill in ["\nunits ", "\nrequests ", "\nGB-seconds ", "\nprice "] {
        assert!(!out.contains(bill), "{bill} is in {out}");
    }
    // The files stay where they were asked for.
    let delivered = crate::output::delivered(out_directory.as_ref());
    assert_eq!(delivered.len(), 190);
    is_recorded(&out, &record);
}

/// Checks the record of a burst of 200 messages, 10 of them duplicates, and that the output names it and its report.
fn is_recorded(out: &str, file: &str) {
    let report = file.replace(".json", ".html");
    let end = format!("\nrecord      {file}\nreport      {report}\n");
    assert!(out.ends_with(&end), "{out}");
    let html = std::fs::read_to_string(report).expect("there is a report");
    assert!(html.starts_with("<!doctype html>"));
    let text = std::fs::read_to_string(file).expect("there is a record");
    let record = planner::Record::from_json(&text).expect("it is a record");
    let outcome = &record.outcome;
    assert_eq!(outcome.ok, Some(true), "{text}");
    assert_eq!([outcome.delivered, outcome.lost], [Some(190), Some(0)]);
    let last = record.samples.last().expect("there are samples");
    let totals = [last.sent, last.taken, last.claimed, last.delivered];
    assert_eq!(totals, [200, 200, 190, 190].map(Some), "{text}");
    let events: u64 = record.batches.iter().map(|batch| batch.events).sum();
    assert_eq!(events, 190, "{text}");
    for batch in &record.batches {
        // When it was leased is read from a log, perhaps late.
        assert!(batch.leased_secs.is_some(), "{batch:?}");
        let times = [batch.sealed_secs, batch.delivered_secs];
        let [sealed, delivered] = times.map(|time| time.expect("each time is known"));
        let times = [batch.opened_secs, sealed, delivered];
        assert!(times.is_sorted() && times[0] > 0.0, "{batch:?}");
    }
    let latencies = record.latencies.iter();
    let latencies = latencies.map(|each| (&*each.name, each.count));
    let expected = [
        ("acknowledged send to delivery", 190),
        ("request to acknowledgement", 200),
    ];
    assert_eq!(Vec::from_iter(latencies), expected);
    let costs = record.costs.iter();
    let dollars: f64 = costs.map(|cost| cost.dollars_per_million_unique).sum();
    assert!(dollars > 2.5, "{text}");
}

#[tokio::test]
async fn a_burst_without_any_delivery_ends_with_a_summary_too() {
    let mut arguments = vec!["burst", "--messages", "50", "--duplicates", "0"];
    arguments.extend(["--env", "EVENT_ID=json:no.such.field"]);
    let summary = summary(1, &arguments).await;
    assert_eq!(summary["audit"]["lost"], 50, "{summary}");
    assert_eq!(summary["set_aside"]["quarantined"], 50, "{summary}");
    assert_eq!(summary["ok"], false, "{summary}");
    let reasons = ["50 lost", "50 messages in quarantine"];
    assert_eq!(summary["reasons"], serde_json::json!(reasons), "{summary}");
}

#[tokio::test]
async fn a_failed_burst_says_why_and_where_to_look_in_its_text_and_in_its_record() {
    let directory = tempfile::tempdir().expect("a temporary directory can be made");
    let record = directory.path().join("one.json");
    let record = record.to_str().expect("paths here are text");
    let mut arguments = vec!["--messages", "50", "--duplicates", "0", "--cost"];
    arguments.extend(["--record", record, "--env", "EVENT_ID=json:no.such.field"]);
    arguments.extend(SHORT);
    let (code, out, err) = local(&arguments).await;
    assert_eq!(code, Some(1), "{out}\n{err}");
    let mut lines = out.lines();
    let failed = "FAILED: 50 lost; 50 messages in quarantine";
    assert_eq!(lines.next(), Some(failed));
    let next = lines.next().unwrap_or_default();
    assert!(next.starts_with("look at     message "), "{out}");
    assert!(next.contains(" is in the quarantine: "), "{out}");
    assert!(out.contains("\nprice       $"), "{out}");
    assert!(out.contains("\nsink        file, parts removed"), "{out}");
    let text = std::fs::read_to_string(record).expect("there is a record");
    let record = planner::Record::from_json(&text).expect("it is a record");
    let outcome = record.outcome;
    assert_eq!(outcome.ok, Some(false));
    assert_eq!(outcome.reasons, ["50 lost", "50 messages in quarantine"]);
}

#[tokio::test]
async fn a_custom_template_defines_the_queues_and_the_variables_of_the_functions() {
    let deployed = include_str!("../../infra/sam/template.yaml");
    let variable = "          EVENT_ID: !Ref EventId\n";
    let more = format!("{variable}          MAX_BATCH_SIZE: 50\n");
    let changed = deployed.replace(variable, &more);
    assert_ne!(changed, deployed, "the template does not set EVENT_ID");
    let directory = tempfile::tempdir().expect("a temporary directory can be made");
    let template = directory.path().join("template.yaml");
    std::fs::write(&template, changed).expect("it can be written");
    let template = template.to_str().expect("paths here are text");
    let mut arguments = vec!["--messages", "200", "--duplicates", "0"];
    arguments.extend(["--template", template]);
    let summary = summary(0, &arguments).await;
    let batches = summary["audit"]["batches"]["count"].as_u64();
    assert!(batches.is_some_and(|batches| batches >= 4), "{summary}");
}

/// Runs a command that must end before it starts anything; returns its standard error.
pub async fn refused(arguments: &[&str]) -> String {
    let (code, out, err) = local(arguments).await;
    assert_eq!(code, Some(EXIT_NOTHING_TO_SAY), "{arguments:?}: {err}");
    assert_eq!(out, "", "{arguments:?}");
    err
}

#[tokio::test]
async fn a_wrong_command_line_is_refused_with_a_reason() {
    let directory = tempfile::tempdir().expect("a temporary directory can be made");
    std::fs::write(directory.path().join("file"), "of another burst").expect("it can be written");
    let taken = directory.path().to_str().expect("paths here are text");
    let template = directory.path().join("template.yaml");
    std::fs::write(&template, "Description: nothing").expect("it can be written");
    let template = template.to_str().expect("paths here are text");
    let below = directory.path().join("file").join("out");
    let below = below.to_str().expect("paths here are text");
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).expect("a port is free");
    let port = listener.local_addr().expect("it is bound").port();
    let port = port.to_string();
    let in_use = format!("`--port`: SQS cannot listen: got port {port}");
    let cases: [(&[&str], &str); 35] = [
        (&["--no-such-flag"], "--no-such-flag"),
        (&["no-such-command"], "no-such-command"),
        (&["--messages", "some"], "some"),
        (&["--messages", "0"], "0"),
        (&["--duplicates", "100"], "100"),
        (&["--env", "NAME"], "NAME=VALUE"),
        (&["--aggregator", "/no/such/file"], "/no/such/file"),
        (
            &["--aggregators", "1"],
            "invalid value '1' for '--aggregators <N>': expected 2 to 1000",
        ),
        (&["--out", taken], "`--out`: not empty"),
        (&["--out", below], "`--out`: cannot be written"),
        (&["--record", below], "`--record`: cannot be written"),
        (
            &["--env", "MAX_BATCH_SIZ=5"],
            "`MAX_BATCH_SIZ`: unknown variable: expected `MAX_BATCH_SIZE`",
        ),
        (
            &["--env", "QUOTA_PER_DAY=5"],
            "`QUOTA_PER_DAY`: unknown variable: expected",
        ),
        (
            &["--env", "DEADLINE_MARGIN_MS=10000"],
            "`DEADLINE_MARGIN_MS`: as long as the timeout, or longer: got `10000`, expected less than 10000, which \
             `--aggregator-timeout` is",
        ),
        (&["--port", "65534"], "1..=65533"),
        (&["--port", port.as_str()], in_use.as_str()),
        (&["--env-file", template], "`--env-file`: exists already"),
        (
            &["--env-file", "/no/such/directory/env"],
            "`--env-file`: cannot be written",
        ),
        (&["--template", "/no/such/file"], "--template /no/such/file"),
        (&["--template", template], "`Resources`: missing"),
        (&["--sink", "tape"], "tape"),
        (&["--bodies", "tape"], "tape"),
        (
            &["--bodies", "items", "--env", "BODIES=log:table"],
            "`--bodies`: not with `BODIES`: got `BODIES=log:table` too",
        ),
        (&["--sink-error-rate", "10"], "--sink file"),
        (&["--sink", "http", "--sink-error-rate", "101"], "101"),
        (
            &["--sink-error-rate", "5", "--sink", "sftp"],
            "--cut-connections",
        ),
        (&["--cut-connections", "5", "--sink", "http"], "http"),
        (&["--sink-outage", "5"], "AT:FOR"),
        (&["--sink-outage", "5:0"], "AT:FOR"),
        (&["--sink-outage", "1:5", "--sink-outage", "4:1"], "overlap"),
        (&["--sink-outage", "1:5", "--sink", "postgres"], "postgres"),
        (
            &["--table-limit", "0"],
            "`--table-limit`: too small: got `0`",
        ),
        (
            &["--partition-limit", "0"],
            "`--partition-limit`: too small: got `0`",
        ),
        (&["--redeploy-at", "soon"], "SECONDS[:NAME=VALUE,...]"),
        (&["--expired-credentials", "101"], "101"),
    ];
    for (arguments, words) in cases {
        let err = refused(arguments).await;
        assert!(err.contains(words), "{arguments:?}: {words} in {err}");
    }
    for (variable, words) in [
        ("SINK=log:", "`SINK`: not with `burst`"),
        ("QUOTA=source", "`QUOTA`: not with `burst`"),
        ("SINK_FORMAT=csv", NO_CSV),
    ] {
        let err = refused(&["--env", variable]).await;
        assert!(err.contains(words), "{variable}: {err}");
    }
    let err = refused(&["serve", "--sink", "s3", "--env", "SINK=log:"]).await;
    assert!(err.contains("`--sink s3` and `SINK=log:`"), "{err}");
}
