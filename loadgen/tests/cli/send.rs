//! Tests of `loadgen send` with a queue without TLS.

use std::collections::BTreeMap;
use std::process::Output;

use loadgen::{Duplicates, Workload, WorkloadConfig};

use super::fake_queue::{FakeQueue, Fault};
use super::{json, loadgen, stderr};

#[tokio::test(flavor = "multi_thread")]
async fn a_burst_puts_exactly_the_planned_messages_into_the_queue() {
    let (queue, output) = send(Fault::None, &["--duplicates", "25", "--seed", "9"]).await;
    assert!(output.status.success(), "{}", stderr(&output));
    let report = json(&output);
    assert_eq!(report["sent"], 995);
    assert_eq!(report["duplicates"], 249);
    assert_eq!(report["unique"], 746);
    assert_eq!(report["bytes"], 995 * 300);
    assert_eq!(report["retries"], 0);
    assert_eq!(counts(queue.bodies()), counts(planned(25.0, 9)));
    assert_eq!(queue.requests(), 100);
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_failed_entries_of_a_request_are_retried() {
    let (queue, output) = send(Fault::SomeEntries, &[]).await;
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(counts(queue.bodies()), counts(planned(0.0, 1)));
    let report = json(&output);
    assert_eq!(report["resent_unsure"], 0);
    assert!(report["retries"].as_u64() >= Some(100), "{report}");
}

#[tokio::test(flavor = "multi_thread")]
async fn after_lost_replies_all_messages_arrive_and_surplus_ones_are_counted() {
    let (queue, output) = send(Fault::LostReplies, &[]).await;
    assert!(output.status.success(), "{}", stderr(&output));
    let counts = counts(queue.bodies());
    assert_eq!(counts.len(), 995);
    let surplus: u64 = counts.values().sum::<u64>() - 995;
    assert_eq!(json(&output)["resent_unsure"], surplus);
    assert!(surplus > 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_message_fails_the_burst_and_is_in_the_error() {
    let (_, output) = send(Fault::Refusal, &["--concurrency", "1"]).await;
    assert_eq!(output.status.code(), Some(1));
    assert!(output.stdout.is_empty());
    let text = stderr(&output);
    assert!(
        text.contains("failed to send `936` of `995` messages"),
        "{text}"
    );
    assert!(text.contains("event `1-57`"), "{text}");
    assert!(
        text.contains("`InvalidMessageContents`: not today"),
        "{text}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_queue_is_not_retried() {
    let (queue, output) = send(Fault::NoQueue, &["--concurrency", "1"]).await;
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(queue.requests(), 1);
    let text = stderr(&output);
    assert!(
        text.contains("`995` of `995`") && text.contains("QueueDoesNotExist"),
        "{text}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rate_is_kept() {
    let (_, output) = send(Fault::None, &["--rate", "1000"]).await;
    let seconds = json(&output)["seconds"].as_f64().unwrap();
    assert!((0.98..5.0).contains(&seconds), "{seconds}");
}

#[test]
fn wrong_options_are_usage_errors_with_the_allowed_range() {
    for (options, expected) in [
        (
            ["--duplicates", "100"],
            "share of duplicates: got `100` %, expected 0 to below 100",
        ),
        (["--size", "12"], "got `12` bytes, expected 76 to 1048576"),
        (["--concurrency", "0"], "expected 1 to 1000"),
    ] {
        let output = loadgen(
            &[
                &["send", "--queue-url", "http://127.0.0.1:9/q"],
                &options[..],
            ]
            .concat(),
        );
        assert_eq!(output.status.code(), Some(2), "{options:?}");
        assert!(stderr(&output).contains(expected), "{}", stderr(&output));
    }
}

async fn send(fault: Fault, options: &[&str]) -> (FakeQueue, Output) {
    let (queue, address) = FakeQueue::start(fault).await;
    let url = format!("http://{address}/000000000000/input");
    let options: Vec<String> = ["send", "--messages", "995", "--queue-url", &url]
        .iter()
        .chain(options)
        .map(|option| (*option).to_owned())
        .collect();
    let output = tokio::task::spawn_blocking(move || {
        loadgen(&options.iter().map(String::as_str).collect::<Vec<_>>())
    });
    (queue, output.await.unwrap())
}

fn planned(duplicates_percent: f64, seed: u64) -> Vec<String> {
    let config = WorkloadConfig {
        seed,
        messages: 995,
        duplicates: Duplicates::any(duplicates_percent),
        ..WorkloadConfig::default()
    };
    let workload = Workload::new(config).unwrap();
    (0..workload.len())
        .map(|index| workload.message(index).body)
        .collect()
}

fn counts(bodies: Vec<String>) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    for body in bodies {
        *counts.entry(body).or_default() += 1;
    }
    counts
}
