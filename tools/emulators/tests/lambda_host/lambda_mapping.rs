//! The event source mapping: batches, and which messages are deleted or returned.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use emulators::lambda::{
    EventSourceMapping, FunctionConfig, MappingProblem, OutcomeReason, REQUEST_BYTES_MAX,
};

use crate::support::*;

#[tokio::test]
async fn a_burst_is_invoked_in_full_batches_and_every_message_is_deleted() {
    let host = Host::start();
    host.send(vec!["x".to_owned(); 2500]);
    let mapping = host.map(1000, Duration::from_secs(1), 2);
    host.until_all_is_processed(&mapping).await;
    let stats = mapping.stats();
    let counts = (stats.records, stats.deleted, stats.returned);
    assert_eq!(counts, (2500, 2500, 0));
    assert_eq!((stats.invocations, stats.batch_records_max), (3, 1000));
    mapping.stop().await;
    host.end().await;
    let lines = host.logged().into_iter();
    let full = lines.filter(|line| line.text == "1000 records");
    assert_eq!(full.count(), 2);
}

#[tokio::test]
async fn concurrency_never_exceeds_its_maximum() {
    let host = Host::start();
    host.send(vec!["sleep 100".to_owned(); 12]);
    let mapping = host.map(1, Duration::ZERO, 3);
    host.until_all_is_processed(&mapping).await;
    let stats = host.function.stats();
    assert_eq!((stats.invocations, stats.concurrency_max), (12, 3));
    mapping.stop().await;
    host.end().await;
}

#[tokio::test]
async fn a_visibility_timeout_that_is_set_during_the_invocation_holds_after_it() {
    // Shorter than the timeout of the queue, and longer.
    for (of_queue, set) in [(30, 2), (2, 5)] {
        let secs = Duration::from_secs;
        let host = Host::with_visibility(secs(of_queue), |config| config.timeout = secs(2));
        host.send(["sleep 700".to_owned(), "fail".to_owned()]);
        let mapping = host.map(2, secs(1), 2);
        let handle = || {
            let lines = host.logged().into_iter();
            let mut handles =
                lines.filter_map(|line| Some(line.text.strip_prefix("handle ")?.to_owned()));
            handles.next()
        };
        let printed = || handle().is_some();
        host.until("the invocation runs", printed).await;
        let handle = handle().unwrap();
        let changed = host.sqs.change_visibility(QUEUE, &handle, secs(set));
        changed.expect("the message is in flight");
        let changed = Instant::now();
        assert_eq!(mapping.stats().invocations, 0, "the invocation still runs");
        let invocations = || mapping.stats().invocations;
        let once = || invocations() == 1;
        host.until("the invocation ends", once).await;
        let stats = mapping.stats();
        assert_eq!((stats.deleted, stats.returned), (1, 1));
        let reported = BTreeMap::from([(OutcomeReason::ItemsReported, 1)]);
        assert_eq!(stats.returned_by, reported);
        let twice = || invocations() == 2;
        host.until("the message returns", twice).await;
        let waited = changed.elapsed();
        let tolerance = Duration::from_millis(20);
        assert!(waited + tolerance >= secs(set), "{waited:?}");
        assert!(waited < secs(30), "{waited:?}");
        mapping.stop().await;
        host.end().await;
    }
}

#[tokio::test]
async fn large_messages_are_cut_at_six_megabytes_and_none_is_lost() {
    let host = Host::start();
    let body = format!("x {}", "\"".repeat(400_000));
    host.send(vec![body; 20]);
    let mapping = host.map(100, Duration::from_secs(1), 2);
    host.until_all_is_processed(&mapping).await;
    let stats = mapping.stats();
    // Each message is over 800 KB when escaped, so seven fit.
    assert_eq!((stats.deleted, stats.invocations), (20, 3));
    assert_eq!(stats.batch_records_max, 7);
    assert!(stats.batch_bytes_max <= REQUEST_BYTES_MAX as u64);
    mapping.stop().await;
    host.end().await;
}

#[tokio::test]
async fn stop_waits_for_invocations_in_flight_and_leaves_other_messages_in_the_queue() {
    let host = Host::start();
    host.send(vec!["sleep 500".to_owned(); 6]);
    let mapping = host.map(1, Duration::ZERO, 2);
    host.until_busy(&[1, 1]).await;
    mapping.stop().await;
    assert!(mapping.idle());
    let (stats, depth) = (mapping.stats(), host.sqs.depth(QUEUE).unwrap());
    assert_eq!((stats.invocations, stats.deleted), (2, 2));
    assert_eq!(depth.visible + depth.in_flight, 4);
    mapping.stop().await;
    host.end().await;
}

#[tokio::test]
async fn a_function_timeout_over_the_visibility_timeout_of_the_queue_is_refused() {
    let (function_timeout, visibility_timeout) = (Duration::from_secs(31), Duration::from_secs(30));
    let longer = |config: &mut FunctionConfig| config.timeout = function_timeout;
    let host = Host::with_visibility(visibility_timeout, longer);
    let config = mapping_config(10, Duration::ZERO, 2);
    let started = EventSourceMapping::start(host.sqs.clone(), host.function.clone(), config);
    let problem = MappingProblem::TimeoutOverVisibility {
        function_timeout,
        visibility_timeout,
    };
    assert_eq!(started.err().unwrap().problems, [problem]);
}
