//! A sink that is down for a while: nothing is lost or repeated, and the summary says how soon deliveries resume.

use std::time::Duration;

use loadgen::DuplicateRule;
use local::recovery::OutageReport;
use local::sink::SinkKind;
use local::stack::{BATCH_QUEUE, INPUT_QUEUE};
use serde_json::Value;

use crate::command_line::{SHORT, local};
use crate::rig::{Setup, workload};

/// Sends a burst whose batches start while the sink is down; returns the report of the outage.
async fn outage_of(kind: SinkKind) -> OutageReport {
    let mut setup = Setup::new()
        .var("MAX_BATCH_SIZE", 100)
        .redeliver(INPUT_QUEUE, Duration::from_secs(6), 1_000)
        .redeliver(BATCH_QUEUE, Duration::from_secs(3), 1_000);
    setup.options.sink = kind;
    setup.options.faults.sink_outages = ["0:4", "3600:1"]
        .map(|outage| outage.parse().expect("the value is an outage"))
        .into();
    let rig = setup.start().await;
    let workload = workload(21, 600, 10.0);
    rig.burst(&workload).await;
    rig.until_drained().await;
    rig.audit(&workload, DuplicateRule::Drop);
    let outages = rig.stack.outages().await.expect("the table can be read");
    rig.end().await;
    let [outage] = &outages[..] else {
        panic!("one has begun: {outages:?}");
    };
    eprint!("{outage}");
    assert_eq!((outage.at_secs, outage.for_secs), (0.0, 4.0));
    assert!(outage.batches_due > 0, "{outage:?}");
    let (first, all) = (outage.first_delivery_secs, outage.all_delivered_secs);
    // One second more than tickets take to come back on a busy machine.
    assert!(first >= Some(0.0) && first <= Some(20.0), "{outage:?}");
    assert!(all >= first && all <= Some(40.0), "{outage:?}");
    outage.clone()
}

#[tokio::test]
async fn files_are_written_once_when_their_directory_is_back() {
    outage_of(SinkKind::File).await;
}

#[tokio::test]
async fn objects_are_put_once_when_the_bucket_is_back() {
    let outage = outage_of(SinkKind::S3).await;
    assert!(outage.requests_refused > 0, "{outage:?}");
}

#[tokio::test]
async fn requests_are_made_once_when_the_receiver_is_back() {
    let outage = outage_of(SinkKind::Http).await;
    assert!(outage.requests_refused > 0, "{outage:?}");
}

#[tokio::test]
async fn files_are_uploaded_once_when_the_server_is_back() {
    let outage = outage_of(SinkKind::Sftp).await;
    assert!(outage.requests_refused > 0, "{outage:?}");
}

#[tokio::test]
async fn the_summary_lists_each_outage_and_the_tickets_that_were_given_back() {
    let mut arguments = vec!["burst", "--messages", "600", "--json", "--sink", "http"];
    arguments.extend(["--sink-outage", "0:2", "--sink-outage", "3600:1"]);
    arguments.extend(["--env", "MAX_BATCH_SIZE=100"]);
    arguments.extend(SHORT);
    let (code, out, err) = local(&arguments).await;
    assert_eq!(code, Some(0), "{out}\n{err}");
    let summary: Value = serde_json::from_str(&out).expect("standard output is one JSON object");
    let outages = summary["sink_outages"]
        .as_array()
        .expect("the value is a list");
    assert_eq!(outages.len(), 1, "{summary}");
    assert!(outages[0]["batches_due"].as_u64() > Some(0), "{summary}");
    assert!(outages[0]["all_delivered_secs"].is_number(), "{summary}");
    let tickets = &summary["tickets_given_back"];
    let by_reason = tickets["by_reason"]
        .as_object()
        .expect("the value is an object");
    let counted: Option<u64> = by_reason.values().map(Value::as_u64).sum();
    assert_eq!(tickets["count"].as_u64(), counted, "{summary}");
}

#[tokio::test]
async fn wrong_options_of_a_sinks_faults_are_refused() {
    for (arguments, words) in [
        (&["--sink-outage", "5"][..], "AT:FOR"),
        (&["--sink-outage", "5:0"], "AT:FOR"),
        (&["--sink-outage", "1:5", "--sink-outage", "4:1"], "overlap"),
        (&["--sink-outage", "1:5", "--sink", "postgres"], "postgres"),
        (&["--cut-connections", "5", "--sink", "http"], "http"),
        (
            &["--sink-error-rate", "5", "--sink", "sftp"],
            "--cut-connections",
        ),
    ] {
        let (code, out, err) = local(arguments).await;
        assert_eq!(code, Some(2), "{arguments:?}\n{out}\n{err}");
        assert!(
            err.contains(words),
            "{arguments:?}: {words} is not in {err}"
        );
    }
}
