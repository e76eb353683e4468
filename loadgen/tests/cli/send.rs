//! Tests of `loadgen send` with a queue without TLS.

use std::process::Output;

use super::fake_queue::{FakeQueue, Fault, counts, planned};
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
    assert_eq!(counts(queue.bodies()), planned(9, "25", "300", 1));
    assert_eq!(queue.requests(), 100);
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_failed_entries_of_a_request_are_retried() {
    let (queue, output) = send(Fault::SomeEntries, &[]).await;
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(counts(queue.bodies()), planned(1, "0", "300", 1));
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
    for part in [
        "failed to send `936` of `995` messages",
        "event `1-57`",
        "`InvalidMessageContents`: not today",
    ] {
        assert!(text.contains(part), "{text}");
    }
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
    for options in [["--rate", "1000"], ["--shape", "constant:1000"]] {
        let (_, output) = send(Fault::None, &options).await;
        let report = json(&output);
        // The last message is due after 0.994 s. How late it was depends on the machine.
        assert!(report["seconds"].as_f64() >= Some(0.99), "{report}");
        let scheduled = report["rate"]["scheduled_per_second"].as_f64().unwrap();
        assert!((999.0..1_001.0).contains(&scheduled), "{report}");
        let latencies = report["latencies"].as_array().unwrap();
        let [corrected, raw] = latencies.as_slice() else {
            panic!("{report}")
        };
        assert_eq!(corrected["name"], "scheduled send to acknowledgement");
        assert_eq!(raw["name"], "request to acknowledgement");
        for latency in latencies {
            assert_eq!(latency["count"], 995);
        }
        assert!(
            corrected["p50_secs"].as_f64() >= raw["p50_secs"].as_f64(),
            "{report}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_rate_there_is_no_schedule_to_compare_with() {
    let (_, output) = send(Fault::None, &[]).await;
    let report = json(&output);
    assert_eq!(report.get("rate"), None);
    assert_eq!(report["latencies"].as_array().unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replay_sends_as_many_messages_as_its_file_has_arrivals() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("arrivals");
    std::fs::write(&file, "1764000000,30\n1764000000.1\n1764000000.2,3").unwrap();
    let shape = format!("replay:{}", file.display());
    let (queue, address) = FakeQueue::start(Fault::None).await;
    let url = format!("http://{address}/000000000000/input");
    let run = |more: &[&str]| {
        let args = [&["send", "--queue-url", &url, "--shape", &shape], more].concat();
        let args: Vec<String> = args.into_iter().map(str::to_owned).collect();
        tokio::task::spawn_blocking(move || {
            loadgen(&args.iter().map(String::as_str).collect::<Vec<_>>())
        })
    };
    let output = run(&[]).await.unwrap();
    assert_eq!(json(&output)["sent"], 34, "{}", stderr(&output));
    assert_eq!(queue.bodies().len(), 34);
    let output = run(&["--messages", "35"]).await.unwrap();
    assert_eq!(output.status.code(), Some(2));
    let text = stderr(&output);
    let why = "too few recorded arrivals: got `34` for `35` messages";
    assert!(text.contains(why), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn sizes_and_kinds_of_duplicates_are_sent_as_planned() {
    let (duplicates, sizes) = ("immediate=10,changed=5", "200:9,3000:1");
    let options = ["--duplicates", duplicates, "--size", sizes];
    let options = [&options[..], &["--batch-keys=3"]].concat();
    let (queue, output) = send(Fault::None, &options).await;
    let report = json(&output);
    assert_eq!(report["duplicates"], 150, "{}", stderr(&output));
    assert_eq!(counts(queue.bodies()), planned(1, duplicates, sizes, 3));
    let bytes: usize = queue.bodies().iter().map(String::len).sum();
    assert_eq!(report["bytes"], bytes);
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
        (["--rate", "0"], "0 is not in 1..=100000"),
        (
            ["--size", "300..x"],
            "the body size: not understood: got `300..x`, expected",
        ),
        (
            ["--duplicates", "late=5"],
            "the share of duplicates: not understood: got `late=5`, expected",
        ),
        (
            ["--shape", "ramp:1..2"],
            "the shape: not understood: got `ramp:1..2`, expected `max`",
        ),
        (
            ["--shape", "replay:/nonexistent"],
            "the arrivals: read `/nonexistent`",
        ),
        (["--resume", "burst.json"], "cannot be used with"),
    ] {
        let args = [&["send", "--queue-url=http://127.0.0.1:9/q"], &options[..]].concat();
        let output = loadgen(&args);
        assert_eq!(output.status.code(), Some(2), "{options:?}");
        assert!(stderr(&output).contains(expected), "{}", stderr(&output));
    }
}

async fn send(fault: Fault, options: &[&str]) -> (FakeQueue, Output) {
    let (queue, address) = FakeQueue::start(fault).await;
    let url = format!("http://{address}/000000000000/input");
    let dir = tempfile::tempdir().unwrap();
    let resume = dir.path().join("resume.json").display().to_string();
    let fixed = ["send", "--messages=995", "--queue-url", &url];
    let options = [&fixed[..], &["--resume-file", &resume], options].concat();
    let options: Vec<String> = options.into_iter().map(str::to_owned).collect();
    let output = tokio::task::spawn_blocking(move || {
        loadgen(&options.iter().map(String::as_str).collect::<Vec<_>>())
    });
    (queue, output.await.unwrap())
}
