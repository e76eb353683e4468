//! A sink that is down for a while: nothing is lost or repeated, and the summary says how soon deliveries resume.

use loadgen::DuplicateRule;
use local::sink::SinkKind;
use serde_json::Value;

use crate::command_line::summary;
use crate::rig::{Setup, cases, workload};

/// Sends a burst whose batches start while the sink is down, and ends the outage once the sink has refused a part.
async fn everything_is_delivered_once_after_an_outage_of(kind: SinkKind) {
    let mut setup = Setup::new().mortal().batches_of(100);
    setup.options.sink = kind;
    let outage = |text: &str| text.parse().expect("the value is an outage");
    setup.options.faults.sink_outages = ["0:86400", "90000:1"].map(outage).into();
    let rig = setup.start().await;
    let workload = workload(21, 600, 10.0);
    rig.burst(&workload).await;
    rig.until("the sink refuses a part", async || {
        let report = rig.stack.faults.report().expect("the fault is on");
        let refused = rig.stack.faults.outages()[0].1;
        // Attempts at a file cannot be counted.
        report.tickets_refused_by_sink > Some(0) && (kind == SinkKind::File || refused > 0)
    })
    .await;
    assert!(!rig.has_parts(), "{kind}: the sink is down");
    rig.stack.faults.end();
    rig.until_drained().await;
    rig.audit(&workload, DuplicateRule::Drop);
    let outages = rig.stack.outages().await.expect("the table can be read");
    rig.end().await;
    let [outage] = &outages[..] else {
        panic!("{kind}: one has begun: {outages:?}");
    };
    eprint!("{outage}");
    assert!(outage.batches_due > 0, "{kind}: {outage:?}");
    let (first, all) = (outage.first_delivery_secs, outage.all_delivered_secs);
    assert!(all >= first && first >= Some(0.0), "{kind}: {outage:?}");
}

#[tokio::test]
async fn everything_is_delivered_once_when_the_sink_is_back() {
    for kind in cases(&[SinkKind::S3, SinkKind::File, SinkKind::Http, SinkKind::Sftp]) {
        everything_is_delivered_once_after_an_outage_of(kind).await;
    }
}

#[tokio::test]
async fn the_summary_lists_each_outage_and_the_tickets_that_were_given_back() {
    let mut arguments = vec!["burst", "--messages", "600", "--sink", "http"];
    arguments.extend(["--sink-outage", "0:2", "--sink-outage", "3600:1"]);
    arguments.extend(["--env", "MAX_BATCH_SIZE=100"]);
    let summary = summary(0, &arguments).await;
    let outages = summary["sink_outages"].as_array().expect("a list");
    assert_eq!(outages.len(), 1, "{summary}");
    assert!(outages[0]["batches_due"].is_number(), "{summary}");
    let tickets = &summary["tickets_given_back"];
    let by_reason = tickets["by_reason"].as_object().expect("an object");
    let counted: Option<u64> = by_reason.values().map(Value::as_u64).sum();
    assert_eq!(tickets["count"].as_u64(), counted, "{summary}");
}
