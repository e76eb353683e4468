//! Bursts through the sinks other than `file:`, with failing deliveries.

use std::collections::BTreeSet;
use std::fs;

use loadgen::{DuplicateRule, Duplicates, Sizes, Workload, WorkloadConfig};
use local::faults::FaultReport;
use local::sink::{SinkKind, SinkReport};
use protocol::batch::Status;
use serde_json::Value;

use crate::command_line::summary;
use crate::faults::percent;
use crate::rig::{Setup, cases, workload};

const BATCH_SIZE: usize = 50;
const MESSAGES: u64 = 800;

/// Sends a burst through a sink of this kind. Audits the output, and returns the attempts and the faults.
async fn burst_through(
    kind: SinkKind,
    change: impl FnOnce(&mut Setup),
) -> (SinkReport, FaultReport) {
    let mut setup = Setup::new().mortal().batches_of(BATCH_SIZE);
    setup.options.sink = kind;
    change(&mut setup);
    let rig = setup.start().await;
    let workload = workload(12, MESSAGES, 10.0);
    rig.burst(&workload).await;
    rig.until_drained().await;
    // The sink refused no batch permanently.
    assert_eq!(rig.statuses().await[&Status::Error], 0);
    let exported = rig.stack.export_parts().await;
    exported.expect("the sink is in order");
    let audited = rig.audit(&workload, DuplicateRule::Drop);
    let sink = rig.stack.sink_report();
    let faults = rig.stack.faults.report().expect("faults are on");
    eprintln!("{sink}{faults}");
    if let Some(deliveries) = &sink.deliveries {
        assert_eq!(deliveries.parts, audited.batches.parts, "{sink}");
    }
    assert!(sink.ok(), "content changed between attempts\n{sink}");
    rig.end().await;
    (sink, faults)
}

/// Sends a burst through a sink that fails one delivery in three, half of them after it has stored the part, while the
/// functions lose replies of their services. The first deliveries of these seeds include each kind of failure.
async fn failing_deliveries_lose_and_repeat_nothing(kind: SinkKind) {
    let (sink, faults) = burst_through(kind, |setup| {
        setup.options.faults.sink_error_rate = percent(30);
        setup.options.faults.lost_replies = percent(3);
        if kind == SinkKind::States {
            // Compressed parts are stored as objects, of which executions get a reference. Functions get
            // parts in their payloads.
            let zstd = ("SINK_COMPRESSION".to_owned(), "zstd".to_owned());
            setup.options.variables.extend([zstd]);
        }
    })
    .await;
    let errors = faults.sink_errors.expect("the faults are on");
    assert!(errors.before > 0 && errors.after > 0, "{faults}");
    if kind == SinkKind::Postgres {
        return;
    }
    let deliveries = sink.deliveries.expect("attempts are counted");
    assert!(deliveries.attempted_again > 0, "{deliveries}");
    let attempts_min = deliveries.keys + errors.before;
    assert!(deliveries.attempts >= attempts_min, "{deliveries}{faults}");
}

#[tokio::test]
async fn a_sink_with_failing_deliveries_gets_everything_once() {
    for kind in [
        SinkKind::S3,
        SinkKind::Http,
        SinkKind::Postgres,
        SinkKind::Lambda,
        SinkKind::States,
    ] {
        failing_deliveries_lose_and_repeat_nothing(kind).await;
    }
}

#[tokio::test]
async fn a_server_whose_connections_break_gets_everything_once_and_shows_no_half_file() {
    let cut = |setup: &mut Setup| setup.options.faults.cut_connections = percent(20);
    let (sink, faults) = burst_through(SinkKind::Sftp, cut).await;
    let was_cut = faults.sink_cuts.as_ref().is_some_and(|cuts| cuts.cut > 0);
    assert!(was_cut, "{faults}");
    let watched = sink.watched.expect("the sink is watched");
    // Each batch has a part and a manifest. A tenth of the messages are duplicates.
    assert!(watched.files >= MESSAGES / BATCH_SIZE as u64, "{watched}");
}

#[tokio::test]
async fn batch_keys_make_directories_without_mixed_keys() {
    const KEYS: u32 = 60;
    for kind in cases(&[SinkKind::S3, SinkKind::File]) {
        let mut setup = Setup::new().var("BATCH_KEY", "source");
        setup.options.sink = kind;
        let rig = setup.start().await;
        let workload = Workload::new(WorkloadConfig {
            seed: 13,
            messages: 1_200,
            duplicates: Duplicates::any(5.0),
            sizes: Sizes::Fixed(200),
            sources: KEYS,
            skew: 0,
        })
        .expect("the workload is valid");
        rig.burst(&workload).await;
        rig.until_drained().await;
        rig.audit(&workload, DuplicateRule::Drop);
        let directories = fs::read_dir(&rig.stack.out).expect("the output can be read");
        let mut keys = BTreeSet::new();
        for directory in directories {
            let directory = directory.expect("the output can be read");
            let key = directory.file_name().to_string_lossy().into_owned();
            for line in crate::output::delivered(&directory.path()) {
                let body: Value = serde_json::from_str(&line.body).expect("bodies are JSON");
                assert_eq!(body["source"], *key);
            }
            keys.insert(key);
        }
        let expected = (0..KEYS).map(|number| format!("s{number}"));
        assert_eq!(keys, expected.collect(), "{kind}");
        rig.end().await;
    }
}

#[tokio::test]
async fn the_summary_of_a_burst_has_the_place_of_the_parts_and_the_attempts() {
    for kind in cases(&["http", "s3"]) {
        let directory = tempfile::tempdir().expect("a temporary directory can be made");
        let out = directory.path().to_str().expect("paths here are text");
        let mut arguments = vec!["--sink", kind, "--out", out, "--messages", "500"];
        arguments.extend(["--env=MAX_BATCH_SIZE=50", "--sink-error-rate", "10"]);
        let summary = summary(0, &arguments).await;
        let sink = &summary["sink"];
        assert_eq!(sink["kind"], kind, "{summary}");
        let parts = &summary["audit"]["batches"]["parts"];
        assert_eq!(sink["deliveries"]["parts"], *parts, "{summary}");
        assert_eq!(sink["deliveries"]["differing"], 0, "{summary}");
        assert!(summary["faults"]["sink_errors"].is_object(), "{summary}");
        let place = sink["out"].as_str().expect("the value is a path");
        let delivered = crate::output::delivered(place.as_ref());
        assert_eq!(delivered.len(), 475, "{summary}");
    }
}
