//! Tests of bursts that end early, and that another run continues.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;

use super::fake_queue::{FakeQueue, Fault};
use super::{command, json, loadgen, stderr};

const CONCURRENCY: u64 = 4;

/// A burst of 995 messages, stopped while the queue holds the replies to four requests.
struct Stopped {
    queue: FakeQueue,
    child: Child,
    errors: Box<dyn BufRead + Send>,
    dir: tempfile::TempDir,
}

impl Stopped {
    async fn start(signal: &str) -> Self {
        let (queue, address) = FakeQueue::start(Fault::Held).await;
        let dir = tempfile::tempdir().unwrap();
        let url = format!("http://{address}/000000000000/input");
        let args = [
            "send",
            "--messages",
            "995",
            "--duplicates",
            "10",
            "--concurrency",
            "4",
            "--queue-url",
            &url,
        ];
        let mut child = command(&args)
            .current_dir(dir.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let errors = Box::new(BufReader::new(child.stderr.take().unwrap()));
        queue.holds(CONCURRENCY).await;
        let mut stopped = Self {
            queue,
            child,
            errors,
            dir,
        };
        stopped.signal(signal);
        stopped.read_until("stopping: waiting for the replies");
        stopped
    }

    fn signal(&self, signal: &str) {
        let pid = self.child.id().to_string();
        assert!(
            Command::new("kill")
                .args([signal, &pid])
                .status()
                .unwrap()
                .success()
        );
    }

    /// Reads standard error up to a line that begins with a text.
    fn read_until(&mut self, beginning: &str) {
        let mut line = String::new();
        while !line.starts_with(beginning) {
            line.clear();
            assert!(
                self.errors.read_line(&mut line).unwrap() > 0,
                "no line `{beginning}`"
            );
        }
    }

    fn resume_file(&self) -> PathBuf {
        self.dir.path().join("loadgen-1.resume.json")
    }

    /// Waits for the end; returns the exit code, and what was printed.
    fn end(self) -> (FakeQueue, tempfile::TempDir, Output) {
        let output = self.child.wait_with_output().unwrap();
        (self.queue, self.dir, output)
    }
}

fn resume(file: &Path) -> Output {
    loadgen(&[
        "send",
        "--resume",
        file.to_str().unwrap(),
        "--concurrency",
        "4",
    ])
}

/// Returns how often the queue got each body.
fn counts(queue: &FakeQueue) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    for body in queue.bodies() {
        *counts.entry(body).or_default() += 1;
    }
    counts
}

/// Returns how often each body of the burst is planned.
fn planned() -> BTreeMap<String, u64> {
    let config = loadgen::WorkloadConfig {
        messages: 995,
        duplicates: loadgen::Duplicates::any(10.0),
        ..loadgen::WorkloadConfig::default()
    };
    let workload = loadgen::Workload::new(config).unwrap();
    let mut counts = BTreeMap::new();
    for index in 0..workload.len() {
        *counts.entry(workload.message(index).body).or_default() += 1;
    }
    counts
}

#[tokio::test(flavor = "multi_thread")]
async fn a_burst_that_is_stopped_waits_for_its_replies_and_is_continued_without_repeats() {
    let stopped = Stopped::start("-TERM").await;
    stopped.queue.release();
    let file = stopped.resume_file();
    let (queue, dir, output) = stopped.end();
    assert_eq!(output.status.code(), Some(143));
    let report = json(&output);
    assert_eq!(report["complete"], false);
    assert_eq!(
        (&report["sent"], &report["unsure"]),
        (&240.into(), &0.into()),
        "{report}"
    );
    assert_eq!(report["resume_file"], "loadgen-1.resume.json");
    assert_eq!(queue.bodies().len(), 240);

    let continued = resume(&file);
    assert_eq!(continued.status.code(), Some(0), "{}", stderr(&continued));
    let report = json(&continued);
    assert_eq!(report["complete"], true);
    assert_eq!(
        (&report["sent"], &report["sent_earlier"]),
        (&995.into(), &240.into()),
        "{report}"
    );
    assert_eq!(report["bytes"], 995 * 300);
    assert_eq!(counts(&queue), planned());

    // The file now says that nothing is left.
    let report = json(&resume(&file));
    assert_eq!(
        (&report["complete"], &report["requests"]),
        (&true.into(), &0.into()),
        "{report}"
    );
    assert_eq!(counts(&queue), planned());
    drop(dir);
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_whose_replies_are_given_up_are_unsure_and_sent_again() {
    let mut stopped = Stopped::start("-INT").await;
    stopped.signal("-TERM");
    stopped.read_until("send: ended");
    let file = stopped.resume_file();
    let (queue, dir, output) = stopped.end();
    assert_eq!(output.status.code(), Some(130));
    let report = json(&output);
    assert_eq!(
        (&report["sent"], &report["unsure"]),
        (&200.into(), &40.into()),
        "{report}"
    );

    queue.release();
    let report = json(&resume(&file));
    assert_eq!(
        (&report["sent"], &report["unsure"]),
        (&995.into(), &0.into()),
        "{report}"
    );
    assert_eq!(report["resent_unsure"], 40);
    let surplus: u64 = counts(&queue).values().sum::<u64>() - 995;
    assert_eq!(surplus, 40, "the queue had taken what was unsure");
    drop(dir);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_burst_that_fails_can_be_continued_too() {
    let (queue, address) = FakeQueue::start(Fault::Refusal).await;
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("mine.json");
    let url = format!("http://{address}/000000000000/input");
    let (name, url) = (file.display().to_string(), url.as_str());
    let failed = loadgen(&[
        "send",
        "--messages",
        "100",
        "--queue-url",
        url,
        "--resume-file",
        &name,
        "--concurrency",
        "1",
    ]);
    assert_eq!(failed.status.code(), Some(1));
    assert!(
        stderr(&failed).contains(&format!("to continue: loadgen send --resume {name}")),
        "{}",
        stderr(&failed)
    );
    let state: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    assert_eq!(
        (&state["state"]["next"], &state["state"]["unsent"]),
        (&60.into(), &serde_json::json!([57]))
    );
    assert_eq!(queue.bodies().len(), 59);
    let again = resume(&file);
    assert!(
        stderr(&again).contains("event `1-57`"),
        "{}",
        stderr(&again)
    );
}
