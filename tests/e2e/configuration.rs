//! A wrong configuration is refused at the cold start, with all problems at once.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::process::Stdio;
use std::time::Duration;

use tokio::process::Command;
use tokio::time::timeout;

use crate::events::init_failure;
use crate::executables::executable;
use crate::rig::Setup;

/// An executable, its wrong variables, and the error for each.
type Case = (
    &'static str,
    &'static [(&'static str, &'static str, &'static str)],
);

const CASES: [Case; 2] = [
    (
        "aggregator",
        &[
            ("DDB_LOCK_TABLE", "", "`DDB_LOCK_TABLE`: not set"),
            (
                "DDB_BATCH_TABLE",
                "x",
                "`DDB_BATCH_TABLE`: wrong value: got `x`",
            ),
            (
                "BATCH_QUEUE_URL",
                "queue",
                "`BATCH_QUEUE_URL`: wrong value: got `queue`",
            ),
            (
                "MAX_BATCH_SIZE",
                "many",
                "`MAX_BATCH_SIZE`: wrong value: got `many`",
            ),
            ("INDEX_SHARDS", "0", "`INDEX_SHARDS`: wrong value: got `0`"),
            (
                "EVENT_ID",
                "json:a[",
                "`EVENT_ID`: wrong value: got `json:a[`",
            ),
            (
                "ON_DUPLICATE",
                "ignore",
                "`ON_DUPLICATE`: wrong value: got `ignore`",
            ),
            (
                "SEAL_WHEN_DRAINED",
                "1",
                "`SEAL_WHEN_DRAINED`: wrong value: got `1`",
            ),
            (
                "WRITE_MODE",
                "fast",
                "`WRITE_MODE`: wrong value: got `fast`",
            ),
            (
                "DEADLINE_MARGIN_MS",
                "0",
                "`DEADLINE_MARGIN_MS`: wrong value: got `0`",
            ),
            (
                "MAX_BATCH_BYTE",
                "1000000",
                "`MAX_BATCH_BYTE`: unknown variable: expected `MAX_BATCH_BYTES`",
            ),
            (
                "DEDUP_WINDOW",
                "-1",
                "`DEDUP_WINDOW`: wrong value: got `-1`",
            ),
            (
                "QUARANTINE_SQS_URL",
                "q",
                "`QUARANTINE_SQS_URL`: wrong value: got `q`",
            ),
        ],
    ),
    (
        "batch-processor",
        &[
            ("DDB_LOCK_TABLE", "", "`DDB_LOCK_TABLE`: not set"),
            (
                "DDB_BATCH_INDEX",
                "!",
                "`DDB_BATCH_INDEX`: wrong value: got `!`",
            ),
            (
                "BATCH_QUEUE_URL",
                "queue",
                "`BATCH_QUEUE_URL`: wrong value: got `queue`",
            ),
            ("VERIFY_DELAY", "0", "`VERIFY_DELAY`: wrong value: got `0`"),
            (
                "SINK",
                "ftp://host",
                "`SINK`: wrong value: got `ftp://host`",
            ),
            (
                "SINK_FORMAT",
                "xml",
                "`SINK_FORMAT`: wrong value: got `xml`",
            ),
            ("SNIK", "log:", "`SNIK`: unknown variable: expected `SINK`"),
            (
                "SINK_COLUMNS",
                "file:///nonexistent",
                "`SINK_COLUMNS`: wrong value: got `file:///nonexistent`: No such file",
            ),
            (
                "WRITE_CONCURRENCY",
                "901",
                "`WRITE_CONCURRENCY`: wrong value: got `901`",
            ),
        ],
    ),
];

#[tokio::test]
async fn wrong_variables_end_the_process_before_it_polls_and_are_all_named_in_one_message() {
    for (name, variables) in CASES {
        let runtime_api = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let address = runtime_api
            .local_addr()
            .expect("the listener has an address");
        // The first request is the only one: the process does not poll.
        let told = std::thread::spawn(move || first_request(&runtime_api));
        let child = Command::new(executable(name))
            .env_clear()
            .env("AWS_LAMBDA_RUNTIME_API", address.to_string())
            .env("AWS_LAMBDA_FUNCTION_NAME", name)
            .env("AWS_LAMBDA_FUNCTION_VERSION", "$LATEST")
            .env("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", "128")
            .env("DDB_LOCK_TABLE", "lock-table")
            .env("DDB_BATCH_TABLE", "batch-table")
            .envs(variables.iter().map(|(name, value, _)| (name, value)))
            .stdin(Stdio::null())
            .kill_on_drop(true)
            .output();
        let output = timeout(Duration::from_secs(30), child).await;
        let output = output
            .unwrap_or_else(|_| panic!("{name} goes on with a wrong configuration"))
            .expect("it starts");
        let (out, err) = (
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr),
        );
        let text = format!("{name}: {}\n{out}{err}", output.status);
        assert!(output.status.code().is_some_and(|code| code != 0), "{text}");
        let message = err
            .lines()
            .chain(out.lines())
            .find(|line| line.contains(variables[0].2));
        let message = message.unwrap_or_else(|| panic!("no message in {text}"));
        for (_, _, words) in variables {
            assert!(
                message.contains(words),
                "{words} is not in the one message of {text}"
            );
        }
        let told = told.join().expect("the Runtime API works");
        assert!(
            told.starts_with("POST /2018-06-01/runtime/init/error "),
            "{told}"
        );
        for (_, _, words) in variables {
            let words = serde_json::to_string(words).expect("it is a text");
            assert!(told.contains(words.trim_matches('"')), "{words} in {told}");
        }
    }
}

/// Returns the first request that comes, and replies to it.
fn first_request(listener: &TcpListener) -> String {
    let (mut stream, _) = listener.accept().expect("the process connects");
    let mut request = Vec::new();
    let mut byte = [0];
    let length = |head: &str| {
        let mut lines = head.lines().map(str::to_lowercase);
        let length = lines.find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
        length.unwrap_or_default()
    };
    loop {
        stream.read_exact(&mut byte).expect("the request is whole");
        request.extend(byte);
        if request.ends_with(b"\r\n\r\n") {
            break;
        }
    }
    let mut text = String::from_utf8(request).expect("the head is ASCII");
    let mut body = vec![0; length(&text)];
    stream.read_exact(&mut body).expect("the request is whole");
    text += &String::from_utf8_lossy(&body);
    stream
        .write_all(b"HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n")
        .expect("the process reads the response");
    text
}

#[tokio::test]
async fn a_function_with_wrong_variables_fails_its_init_and_the_log_says_why() {
    for (name, variables) in CASES {
        let mut setup = Setup::new();
        for (variable, value, _) in variables {
            setup = setup.var(variable, value);
        }
        let rig = setup.start().await;
        let function = match name {
            "aggregator" => &rig.stack.aggregator,
            _ => &rig.stack.batch_processor,
        };
        let (error_type, message) = init_failure(function).await;
        assert_eq!(error_type, "Configuration", "{message}");
        for (_, _, words) in variables {
            assert!(message.contains(words), "{words} in {message}");
            rig.until(words, async || rig.has_logged(words)).await;
        }
        // Lambda starts one more process for the invocation, and the sweep may start others.
        assert!(function.stats().init_failures >= 2);
        rig.stack.stop().await;
    }
}
