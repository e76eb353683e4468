//! SIGINT and SIGTERM during a command of `batch-local`, and the file of variables that a command removes at its end.

use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};
use tokio::process::Child;
use tokio::time::{sleep, timeout};

use crate::command_line::SHORT;
use crate::executables::{self, CAP, command, end, run};

/// Starts `batch-local`, whose temporary files go into a directory.
fn started(arguments: &[&str], temporary: &Path) -> Child {
    let mut command = command("batch-local");
    executables::started(command.args(arguments).env("TMPDIR", temporary))
}

/// Reads lines up to one that begins with `beginning`; returns them.
pub async fn lines_until(output: &mut (impl AsyncRead + Unpin), beginning: &str) -> String {
    // Bytes that are read ahead would be missing from the rest of the output.
    let mut output = BufReader::with_capacity(1, output);
    let mut text = String::new();
    let found = async {
        loop {
            let from = text.len();
            let read = output.read_line(&mut text).await.expect("it can be read");
            assert!(read > 0, "no line begins with `{beginning}`: {text}");
            if text[from..].starts_with(beginning) {
                break;
            }
        }
    };
    let found = timeout(CAP, found).await;
    found.unwrap_or_else(|_| panic!("no line begins with `{beginning}`"));
    text
}

/// Returns the running processes that a process has started, at least one.
async fn children(pid: u32) -> Vec<String> {
    let found = async {
        loop {
            let threads = fs::read_dir(format!("/proc/{pid}/task")).expect("it runs");
            let lists = threads.flatten().map(|one| one.path().join("children"));
            let lists = lists.filter_map(|list| fs::read_to_string(list).ok());
            let lists = Vec::from_iter(lists).join(" ");
            let children = Vec::from_iter(lists.split_whitespace().map(str::to_owned));
            if !children.is_empty() {
                return children;
            }
            sleep(Duration::from_millis(50)).await;
        }
    };
    timeout(CAP, found).await.expect("a function starts")
}

/// Sends a signal, and waits for the end; returns the exit code, and what was printed since.
async fn ended_by(signal: &str, child: Child) -> (Option<i32>, String, String) {
    executables::signal(signal, &child).await;
    let ran = end(child).await;
    (ran.code, ran.out, ran.err)
}

fn is_empty(directory: &Path) -> bool {
    let entries = fs::read_dir(directory).expect("it is there");
    entries.count() == 0
}

/// Returns a port that is free, like the two after it.
fn free_port() -> u16 {
    let bound = |port| TcpListener::bind(("127.0.0.1", port));
    let ports = (20_000..30_000_u16)
        .step_by(7)
        .skip(std::process::id() as usize % 700);
    let mut free = ports.filter(|port| (*port..port + 3).all(|port| bound(port).is_ok()));
    free.next().expect("some ports are free")
}

#[tokio::test]
async fn a_burst_that_is_interrupted_says_what_was_done_and_removes_what_it_made() {
    for (signal, name, code, json) in [
        ("-INT", "SIGINT", 130, false),
        ("-TERM", "SIGTERM", 143, true),
    ] {
        let temporary = tempfile::tempdir().expect("a temporary directory can be made");
        let env_file = tempfile::tempdir().expect("a temporary directory can be made");
        let file = env_file.path().join("stack.env");
        let path = file.to_str().expect("paths here are text");
        let mut arguments = vec!["burst", "--messages", "9000", "--rate", "100"];
        arguments.extend(["--env-file", path]);
        arguments.extend(json.then_some("--json"));
        arguments.extend(SHORT);
        let mut child = started(&arguments, temporary.path());
        let errors = child.stderr.as_mut().expect("it is a pipe");
        lines_until(errors, "sent: ").await;
        assert!(file.exists() && !is_empty(temporary.path()));
        let functions = children(child.id().expect("it runs")).await;

        let (ended, out, err) = ended_by(signal, child).await;
        assert_eq!(ended, Some(code), "{out}\n{err}");
        if json {
            let so_far: Value = serde_json::from_str(&out).expect("it is one JSON object");
            assert_eq!(so_far["interrupted"], name, "{so_far}");
            let sent = so_far["sent"].as_u64().unwrap_or_default();
            assert!((1..9_000).contains(&sent), "{so_far}");
        } else {
            let decision = format!("INTERRUPTED by {name}: deliveries are not audited\nsent ");
            assert!(out.starts_with(&decision), "{out}");
            assert!(out.contains(" of 9000 messages\n"), "{out}");
            assert!(out.contains("\nsink        file, parts removed"), "{out}");
        }
        assert!(is_empty(temporary.path()) && is_empty(env_file.path()));
        for function in functions {
            let there = Path::new("/proc").join(&function).exists();
            assert!(!there, "process {function} still runs");
        }
    }
}

#[tokio::test]
async fn other_clients_reach_a_stack_by_its_file_of_variables_until_a_signal_ends_it() {
    let temporary = tempfile::tempdir().expect("a temporary directory can be made");
    let directory = tempfile::tempdir().expect("a temporary directory can be made");
    let file = directory.path().join("stack.env");
    let path = file.to_str().expect("paths here are text");
    let port = free_port();
    let port_text = port.to_string();
    let arguments = ["serve", "--port", &port_text, "--env-file", path];
    let arguments = [&arguments[..], &SHORT[..SHORT.len() - 2]].concat();
    let mut child = started(&arguments, temporary.path());
    let output = child.stdout.as_mut().expect("it is a pipe");
    let printed = lines_until(output, "# Delivered batches").await;
    assert_eq!(fs::read_to_string(&file).expect("it is there"), printed);
    let [sqs, dynamodb] = [port, port + 1].map(|port| format!("http://127.0.0.1:{port}"));
    for line in [
        format!("INPUT_QUEUE_URL='{sqs}/000000000000/input-queue'"),
        format!("BATCH_QUEUE_URL='{sqs}/000000000000/batch-queue'"),
        format!("AWS_ENDPOINT_URL_SQS='{sqs}'"),
        format!("AWS_ENDPOINT_URL_DYNAMODB='{dynamodb}'"),
    ] {
        let line = format!("\nexport {line}\n");
        assert!(printed.contains(&line), "{line} is not in {printed}");
    }
    let mut burst = vec!["burst", "--messages", "100", "--duplicates", "5"];
    burst.extend(["--every", "1", "--record", "record.json"]);
    for (client, arguments) in [("loadgen", &burst[..]), ("batchctl", &["list"][..])] {
        let mut command = command(client);
        let command = command.current_dir(directory.path()).args(arguments);
        let ran = run(command.args(["--env-file", path])).await;
        assert_eq!(ran.code, Some(0), "{client}: {ran:?}");
    }
    let (code, _, errors) = ended_by("-TERM", child).await;
    assert_eq!(code, Some(143), "{errors}");
    let words = "INTERRUPTED by SIGTERM: deliveries are not audited\n\
                 taken       100 messages off the input queue\n\
                 delivered   95 events in ";
    assert!(errors.contains(words), "{errors}");
    assert!(!file.exists() && is_empty(temporary.path()));
}
