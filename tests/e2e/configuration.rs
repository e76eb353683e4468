//! A wrong configuration is refused at the cold start, with all problems at once.

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
        runtime_api
            .set_nonblocking(true)
            .expect("a socket can be non-blocking");
        let address = runtime_api
            .local_addr()
            .expect("the listener has an address");
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
        let polled = runtime_api.accept().expect_err("the process polled");
        assert_eq!(polled.kind(), std::io::ErrorKind::WouldBlock);
    }
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
        assert_eq!(error_type, "Runtime.ExitError", "{message}");
        for (_, _, words) in variables {
            rig.until(words, async || rig.has_logged(words)).await;
        }
        // Lambda starts one more process for the invocation, and the sweep may start others.
        assert!(function.stats().init_failures >= 2);
        rig.stack.stop().await;
    }
}
