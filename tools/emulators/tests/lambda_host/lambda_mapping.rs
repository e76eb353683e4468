//! The event source mapping: batches, and which messages are deleted or returned.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use emulators::lambda::{
    EventSourceMapping, MappingConfig, MappingProblem, OutcomeReason, REQUEST_BYTES_MAX,
};

use crate::support::*;

#[tokio::test]
async fn a_burst_is_invoked_in_full_batches_and_every_message_is_deleted() {
    let host = Host::start();
    host.send(vec!["x".to_owned(); 2500]);
    let mapping = host.map(1000, Duration::from_secs(1), 2);
    host.until_all_is_processed(&mapping).await;
    let stats = mapping.stats();
    assert_eq!(
        (
            stats.records,
            stats.deleted,
            stats.returned,
            stats.delete_failures
        ),
        (2500, 2500, 0, 0)
    );
    assert_eq!((stats.invocations, stats.batch_records_max), (3, 1000));
    assert!((stats.batch_records_mean() - 2500.0 / 3.0).abs() < 1e-6);
    assert!(stats.function_time > Duration::ZERO);
    mapping.stop().await;
    host.end().await;
    let printed: Vec<String> = host
        .logged()
        .into_iter()
        .map(|line| line.text)
        .filter(|text| text.ends_with(" records"))
        .collect();
    assert_eq!(
        printed
            .iter()
            .filter(|text| *text == "1000 records")
            .count(),
        2,
        "{printed:?}"
    );
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
async fn a_reported_message_returns_after_the_visibility_timeout_and_the_others_are_deleted() {
    let host = Host::with_visibility(Duration::from_secs(2), |config| {
        config.timeout = Duration::from_secs(2)
    });
    host.send(["x".to_owned(), "fail".to_owned(), "x".to_owned()]);
    let mapping = host.map(3, Duration::from_secs(1), 2);
    host.until("the first invocation ends", || {
        mapping.stats().invocations == 1
    })
    .await;
    let first = mapping.stats();
    assert_eq!(
        (first.deleted, first.returned, &first.returned_by),
        (2, 1, &BTreeMap::from([(OutcomeReason::ItemsReported, 1)]))
    );
    let ended = Instant::now();
    host.until("the message returns", || mapping.stats().invocations == 2)
        .await;
    // The visibility timeout began with the receive, at most a window and an invocation before the invocation ended.
    assert!(
        ended.elapsed() > Duration::from_millis(300),
        "{:?}",
        ended.elapsed()
    );
    assert_eq!(mapping.stats().returned, 2);
    mapping.stop().await;
    assert_eq!(host.sqs.depth(QUEUE).unwrap().in_flight, 1);
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
        host.until("the invocation runs", || handle().is_some())
            .await;
        host.sqs
            .change_visibility(QUEUE, &handle().unwrap(), secs(set))
            .expect("the message is in flight");
        let changed = Instant::now();
        assert_eq!(mapping.stats().invocations, 0, "the invocation still runs");
        host.until("the invocation ends", || mapping.stats().invocations == 1)
            .await;
        let stats = mapping.stats();
        assert_eq!(
            (stats.deleted, stats.returned_by),
            (1, BTreeMap::from([(OutcomeReason::ItemsReported, 1)]))
        );
        host.until("the message returns", || mapping.stats().invocations == 2)
            .await;
        let waited = changed.elapsed();
        assert!(
            waited + Duration::from_millis(20) >= secs(set),
            "{waited:?}"
        );
        assert!(waited < secs(30), "{waited:?}");
        mapping.stop().await;
        host.end().await;
    }
}

#[tokio::test]
async fn a_batch_whose_invocation_fails_returns_completely() {
    for (command, reason) in [
        ("error no", OutcomeReason::FunctionError),
        ("panic", OutcomeReason::FunctionError),
        ("exit 9", OutcomeReason::Crashed),
        ("sleep 60000", OutcomeReason::TimedOut),
        ("report ", OutcomeReason::IdentifierMissing),
        ("report stranger", OutcomeReason::IdentifierUnknown),
    ] {
        let host = Host::with(|config| config.timeout = Duration::from_millis(700));
        host.send(["x".to_owned(), command.to_owned()]);
        let mapping = host.map(2, Duration::from_secs(1), 2);
        host.until("the invocation ends", || mapping.stats().invocations == 1)
            .await;
        let stats = mapping.stats();
        assert_eq!(
            (stats.deleted, stats.returned_by),
            (0, BTreeMap::from([(reason, 2)])),
            "{command}"
        );
        mapping.stop().await;
        assert_eq!(host.sqs.depth(QUEUE).unwrap().in_flight, 2, "{command}");
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
    assert_eq!(
        (stats.deleted, stats.batch_records_max, stats.invocations),
        (20, 7, 3)
    );
    assert!(stats.batch_bytes_max <= REQUEST_BYTES_MAX as u64);
    mapping.stop().await;
    host.end().await;
}

#[tokio::test]
async fn stop_waits_for_invocations_in_flight_and_leaves_other_messages_in_the_queue() {
    let host = Host::start();
    host.send(vec!["sleep 500".to_owned(); 6]);
    let mapping = host.map(1, Duration::ZERO, 2);
    host.until("two invocations run", || busy(&host) == [1, 1])
        .await;
    mapping.stop().await;
    assert!(mapping.idle());
    let (stats, depth) = (mapping.stats(), host.sqs.depth(QUEUE).unwrap());
    assert_eq!((stats.invocations, stats.deleted), (2, 2));
    assert_eq!(depth.visible + depth.in_flight, 4);
    mapping.stop().await;
    host.end().await;
}

#[tokio::test]
async fn a_mapping_that_lambda_would_refuse_is_refused() {
    let host = Host::with(|config| config.timeout = Duration::from_secs(31));
    let config = MappingConfig {
        concurrency_max: 1,
        ..mapping_config(10, Duration::ZERO, 2)
    };
    let error = EventSourceMapping::start(host.sqs.clone(), host.function.clone(), config)
        .err()
        .unwrap();
    let (function_timeout, visibility_timeout) = (Duration::from_secs(31), Duration::from_secs(30));
    assert_eq!(
        error.problems,
        [
            MappingProblem::ConcurrencyOutOfRange(1),
            MappingProblem::TimeoutOverVisibility {
                function_timeout,
                visibility_timeout
            }
        ]
    );
    let config = MappingConfig {
        queue: "nowhere".into(),
        ..mapping_config(10, Duration::ZERO, 2)
    };
    let error = EventSourceMapping::start(host.sqs.clone(), host.function.clone(), config)
        .err()
        .unwrap();
    assert!(
        matches!(
            error.problems[..],
            [MappingProblem::QueueUnavailable { .. }]
        ),
        "{error}"
    );
}
