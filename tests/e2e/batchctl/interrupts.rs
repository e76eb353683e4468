//! Commands that a signal ends, and commands that show their progress.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use local::bodies::BodiesKind;
use local::stack::{INPUT_QUEUE, QUARANTINE_QUEUE};
use serde_json::Value;
use tests::files_below;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::net::TcpListener;
use tokio::process::{Child, ChildStderr};

use super::listing::write_batches;
use super::rejects::in_latin_1;
use super::{Batchctl, YES};
use crate::executables::{end, signal, started};
use crate::rig::{Rig, Setup};

/// Batches that `batchctl` works on at once.
const AT_ONCE: usize = 8;

/// A command that runs, and the lines that it wrote to standard error.
struct Running {
    child: Child,
    errors: BufReader<ChildStderr>,
}

impl Running {
    fn start(batchctl: &Batchctl, arguments: &[&str]) -> Running {
        let arguments = [&["--json"], arguments].concat();
        let mut child = started(&mut batchctl.command(&arguments));
        let errors = BufReader::new(child.stderr.take().expect("it is piped"));
        Running { child, errors }
    }

    async fn signal(&self, name: &str) {
        signal(name, &self.child).await;
    }

    /// Reads standard error up to a line that begins so.
    async fn until_line(&mut self, beginning: &str) {
        let mut line = String::new();
        while !line.starts_with(beginning) {
            line.clear();
            let read = self.errors.read_line(&mut line).await;
            assert!(read.is_ok_and(|bytes| bytes > 0), "no line `{beginning}`");
        }
    }

    async fn end(mut self) -> (Option<i32>, Value) {
        let mut errors = String::new();
        let read = self.errors.read_to_string(&mut errors).await;
        read.expect("it is text");
        let ran = end(self.child).await;
        let value = serde_json::from_str(&ran.out);
        let value = value.unwrap_or_else(|error| panic!("{error}: {ran:?}, {errors}"));
        (ran.code, value)
    }

    /// Terminates a redrive of `all` messages; returns how many it redrove before that, which are some and not all.
    async fn end_redrive(self, all: usize) -> u64 {
        self.signal("-TERM").await;
        let (code, report) = self.end().await;
        assert_eq!(code, Some(143), "{report}");
        assert_eq!(report["stopped"], true, "{report}");
        let redriven = report["counts"]["redriven"].as_u64().unwrap_or_default();
        assert!((1..all as u64).contains(&redriven), "{report}");
        redriven
    }
}

/// Adds an SQS to the variables of the stack that takes connections and never replies. Returns how many it took.
async fn with_silent_sqs(batchctl: &Batchctl) -> Arc<AtomicUsize> {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("it is bound");
    let path = batchctl.directory.path().join("env");
    let variables = std::fs::read_to_string(&path).expect("it can be read");
    // The last value of a variable counts.
    let changed = format!("{variables}\nexport AWS_ENDPOINT_URL_SQS=http://{address}");
    std::fs::write(path, changed).expect("it can be written");
    let taken = Arc::new(AtomicUsize::new(0));
    let count = taken.clone();
    tokio::spawn(async move {
        let mut connections = Vec::new();
        while let Ok((connection, _)) = listener.accept().await {
            connections.push(connection);
            count.fetch_add(1, Ordering::Relaxed);
        }
    });
    taken
}

async fn hanging(rig: &Rig, batchctl: &Batchctl, arguments: &[&str]) -> Running {
    let taken = with_silent_sqs(batchctl).await;
    let running = Running::start(batchctl, &[arguments, &YES[..]].concat());
    let waiting = async || taken.load(Ordering::Relaxed) >= AT_ONCE;
    rig.until("every batch waits for SQS", waiting).await;
    running
}

#[tokio::test]
async fn a_retry_or_discard_that_is_ended_says_what_it_reached_and_leaves_no_unfinished_file() {
    let rig = Setup::new().without_sweep().start().await;
    // Every fourth is in error.
    write_batches(&rig, 80).await;
    let batchctl = Batchctl::of(&rig);
    let mut running = hanging(&rig, &batchctl, &["retry", "--status", "error"]).await;
    running.signal("-INT").await;
    running.until_line("stopping: ").await;
    running.signal("-INT").await;
    let (code, report) = running.end().await;
    assert_eq!(code, Some(130), "{report}");
    assert_eq!(report["notReached"], 12, "{report}");

    let discard = ["discard", "--status", "error", "--dir", "made/here"];
    let mut running = hanging(&rig, &batchctl, &discard).await;
    running.signal("-TERM").await;
    running.until_line("stopping: ").await;
    running.signal("-TERM").await;
    let (code, report) = running.end().await;
    assert_eq!(code, Some(143), "{report}");
    let mut batches = report["batches"].as_array().expect("a list").iter();
    assert_eq!(batches.len(), AT_ONCE, "{report}");
    let failed = batches.all(|batch| batch["outcome"] == "failed");
    assert!(failed, "{report}");
    assert_eq!(report["notReached"], 12, "{report}");
    let directory = batchctl.directory.path().join("made/here");
    let files = std::fs::read_dir(&directory).expect("it was made").count();
    // Their tickets may be sent.
    assert_eq!(files_below(&directory, ".jsonl").len(), AT_ONCE);
    assert_eq!(files, AT_ONCE);
    rig.stack.stop().await;
}

#[tokio::test]
async fn a_redrive_shows_its_progress_and_gives_back_what_it_received_when_it_is_terminated() {
    const MESSAGES: usize = 20;
    let rig = Setup::new().start().await;
    let batchctl = Batchctl::of(&rig);
    (0..MESSAGES).for_each(|number| rig.send(format!("not JSON {number}")));
    rig.until_depth(QUARANTINE_QUEUE, MESSAGES).await;
    let redrive = ["redrive", "--from", "quarantine", "--all"];
    let slow = [&redrive[..], &["--yes", "--rate", "1"]].concat();
    let mut running = Running::start(&batchctl, &slow);
    running.until_line("redrive: ").await;
    running.end_redrive(MESSAGES).await;
    // What was redriven is no better than before, and is back.
    rig.until_depth(QUARANTINE_QUEUE, MESSAGES).await;
    let would = batchctl.json(4, &redrive).await;
    // None is hidden.
    assert_eq!(would["counts"]["redrive"], MESSAGES, "{would}");
    rig.stack.stop().await;
}

#[tokio::test]
async fn a_redrive_of_rejects_that_is_terminated_leaves_the_others_for_the_next() {
    const REJECTS: usize = 40;
    let rig = in_latin_1(BodiesKind::Items).await;
    (0..REJECTS).for_each(|number| rig.send(format!(r#"{{"id":"r{number}","amount":"京"}}"#)));
    rig.until_metric("Claimed", REJECTS as u64).await;
    rig.until_drained().await;
    // What is redriven now is claimed, and not rejected again before the command ends.
    let source = rig.stack.sqs.arn(INPUT_QUEUE);
    let batchctl = Batchctl::of(&rig);
    let pause = ["pause", "--for", "1h", "--source", &source];
    batchctl.change(&pause).await;
    let redrive = [&["rejects", "--redrive", "--rate", "1"], &YES[..]].concat();
    let mut running = Running::start(&batchctl, &redrive);
    running.until_line("rejects: ").await;
    let redriven = running.end_redrive(REJECTS).await;
    rig.until_taken().await;
    let would = batchctl.json(4, &["rejects", "--redrive"]).await;
    let others = REJECTS as u64 - redriven;
    assert_eq!(would["counts"]["redrive"], others, "{would}");
    rig.stack.stop().await;
}
