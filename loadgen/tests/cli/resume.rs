//! Tests of bursts that end early, and that another run continues.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;

use super::fake_queue::{FakeQueue, Fault, counts, planned};
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
        let url = format!("--queue-url=http://{address}/000000000000/input");
        let burst = ["--messages=995", "--duplicates=10", "--concurrency=4"];
        let args = [&["send", &url], &burst[..]].concat();
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
    let file = file.to_str().unwrap();
    loadgen(&["send", "--resume", file, "--concurrency=4"])
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
    assert_eq!(report["sent"], 240, "{report}");
    assert_eq!(report["unsure"], 0, "{report}");
    assert_eq!(report["resume_file"], "loadgen-1.resume.json");
    assert_eq!(queue.bodies().len(), 240);

    let continued = resume(&file);
    assert_eq!(continued.status.code(), Some(0), "{}", stderr(&continued));
    let report = json(&continued);
    assert_eq!(report["complete"], true);
    assert_eq!(report["sent"], 995, "{report}");
    assert_eq!(report["sent_earlier"], 240, "{report}");
    assert_eq!(report["bytes"], 995 * 300);
    let planned = planned(1, "10", "300", 1);
    assert_eq!(counts(queue.bodies()), planned);

    // The file now says that nothing is left.
    let report = json(&resume(&file));
    assert_eq!(report["complete"], true, "{report}");
    assert_eq!(report["requests"], 0, "{report}");
    assert_eq!(counts(queue.bodies()), planned);
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
    assert_eq!(report["sent"], 200, "{report}");
    assert_eq!(report["unsure"], 40, "{report}");

    queue.release();
    let report = json(&resume(&file));
    assert_eq!(report["sent"], 995, "{report}");
    assert_eq!(report["unsure"], 0, "{report}");
    assert_eq!(report["resent_unsure"], 40);
    let surplus: u64 = counts(queue.bodies()).values().sum::<u64>() - 995;
    assert_eq!(surplus, 40, "the queue had taken what was unsure");
    drop(dir);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_burst_that_fails_can_be_continued_too() {
    let (queue, address) = FakeQueue::start(Fault::Refusal).await;
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("mine.json");
    let url = format!("--queue-url=http://{address}/000000000000/input");
    let name = file.display().to_string();
    let burst = ["--messages=100", "--concurrency=1"];
    let args = [&["send", &url, "--resume-file", &name], &burst[..]].concat();
    let failed = loadgen(&args);
    assert_eq!(failed.status.code(), Some(1));
    let errors = stderr(&failed);
    let how = format!("to continue: loadgen send --resume {name}");
    assert!(errors.contains(&how), "{errors}");
    let state: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    assert_eq!(state["state"]["next"], 60);
    assert_eq!(state["state"]["unsent"], serde_json::json!([57]));
    assert_eq!(queue.bodies().len(), 59);
    let again = resume(&file);
    let errors = stderr(&again);
    assert!(errors.contains("event `1-57`"), "{errors}");
}
