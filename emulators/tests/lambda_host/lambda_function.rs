//! Cold and warm starts, deadlines, crashes, logs, accounting.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use bytes::Bytes;
use emulators::lambda::{
    EnvironmentState, InvokeError, InvokeResponse, LogStream, REQUEST_BYTES_MAX, RESPONSE_BYTES_MAX,
};
use futures::FutureExt;
use serde_json::{Value, json};

use crate::support::*;

#[tokio::test]
async fn an_invocation_cold_starts_an_environment_and_the_next_reuses_it() {
    let host = Host::start();
    let (first, second) = (host.answer("").await, host.answer("").await);
    assert_eq!(first["pid"], second["pid"]);
    assert_ne!(first["request_id"], second["request_id"]);
    assert_eq!(
        first["arn"],
        "arn:aws:lambda:us-east-1:000000000000:function:echo"
    );
    let remaining_ms = first["remaining_ms"].as_u64().unwrap();
    assert!((1..=10_000).contains(&remaining_ms), "{remaining_ms}");
    let stats = host.function.stats();
    assert_eq!(
        (stats.cold_starts, stats.invocations, stats.concurrency_max),
        (1, 2, 1)
    );
    assert!(stats.init_time > Duration::ZERO && stats.invoke_time > Duration::ZERO);
    assert_eq!(host.environments()[0].state, EnvironmentState::Idle);
    host.end().await;
}

#[tokio::test]
async fn the_process_has_the_variables_of_lambda_and_the_callers_and_no_others() {
    let variables = BTreeMap::from([
        ("MINE".to_owned(), "1".to_owned()),
        ("AWS_REGION".to_owned(), "x".to_owned()),
    ]);
    let host = Host::with(|config| config.variables = variables);
    let answer = host.answer("").await;
    // Set by `lambda_runtime` itself before each invocation.
    let mut seen = answer["variables"].as_object().unwrap().clone();
    assert!(
        seen.remove("_X_AMZN_TRACE_ID")
            .unwrap()
            .as_str()
            .unwrap()
            .starts_with("Root=1-")
    );
    let runtime_api = seen.remove("AWS_LAMBDA_RUNTIME_API").unwrap();
    assert!(runtime_api.as_str().unwrap().starts_with("127.0.0.1:"));
    assert!(bootstrap().starts_with(seen.remove("LAMBDA_TASK_ROOT").unwrap().as_str().unwrap()));
    let expected = json!({
        "AWS_LAMBDA_FUNCTION_NAME": "echo",
        "AWS_LAMBDA_FUNCTION_VERSION": "$LATEST",
        "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": "256",
        "AWS_LAMBDA_LOG_GROUP_NAME": "/aws/lambda/echo",
        "AWS_LAMBDA_LOG_STREAM_NAME": "local/[$LATEST]1",
        "AWS_LAMBDA_INITIALIZATION_TYPE": "on-demand",
        "AWS_REGION": "x",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": "local.echo.1",
        "AWS_SECRET_ACCESS_KEY": "local",
        "_HANDLER": "bootstrap",
        "TZ": ":UTC",
        "PATH": "/usr/local/bin:/usr/bin/:/bin:/opt/bin",
        "MINE": "1",
    });
    assert_eq!(Value::Object(seen), expected);
    host.end().await;
}

#[tokio::test]
async fn concurrent_invocations_take_an_environment_each_and_a_later_one_the_last_used() {
    let host = Host::start();
    let (slow, fast) = tokio::join!(host.answer("sleep 600"), async {
        host.until("the first is running", || busy(&host) == [1])
            .await;
        host.answer("").await
    });
    assert_ne!(slow["pid"], fast["pid"]);
    assert_eq!(host.function.stats().concurrency_max, 2);
    // The slow one was assigned first, so the fast one's environment is the most recently used.
    assert_eq!(host.answer("").await["pid"], fast["pid"]);
    assert_eq!(host.function.stats().cold_starts, 2);
    host.end().await;
}

#[tokio::test]
async fn several_invocations_run_in_one_environment_when_it_is_configured_so() {
    let host = Host::with(|config| config.concurrency_per_environment = 3);
    let answers = tokio::join!(
        host.answer("sleep 300"),
        host.answer("sleep 300"),
        host.answer("sleep 300")
    );
    assert_eq!(
        (&answers.0["pid"], &answers.0["pid"]),
        (&answers.1["pid"], &answers.2["pid"])
    );
    assert_eq!(answers.0["variables"]["AWS_LAMBDA_MAX_CONCURRENCY"], "3");
    let stats = host.function.stats();
    assert_eq!((stats.cold_starts, stats.concurrency_max), (1, 3));
    host.end().await;
}

#[tokio::test]
async fn errors_and_panics_are_function_errors_and_the_environment_lives_on() {
    let host = Host::start();
    for (command, expected) in [("error it broke", "it broke"), ("panic", "by request")] {
        match host.invoke(command).await {
            Ok(InvokeResponse::FunctionError {
                error_type,
                message,
            }) => {
                assert!(
                    message.contains(expected) && !error_type.is_empty(),
                    "{error_type}: {message}"
                );
            }
            other => panic!("{other:?}"),
        }
    }
    host.answer("").await;
    let stats = host.function.stats();
    assert_eq!(
        (
            stats.cold_starts,
            stats.invocations,
            stats.function_errors,
            stats.crashes
        ),
        (1, 3, 2, 0)
    );
    host.end().await;
}

#[tokio::test]
async fn an_invocation_at_its_deadline_is_a_timeout_and_the_process_is_killed() {
    let host = Host::with(|config| config.timeout = Duration::from_millis(500));
    let started = Instant::now();
    assert_eq!(
        host.invoke("sleep 60000").await,
        Err(InvokeError::Timeout {
            after: Duration::from_millis(500)
        })
    );
    assert!(started.elapsed() < PATIENCE);
    host.until("the process is reaped", || exit_of(&host, 1).is_some())
        .await;
    assert!(exit_of(&host, 1).unwrap().contains("SIGKILL"));
    // The next one has an environment of its own.
    host.answer("").await;
    let stats = host.function.stats();
    assert_eq!(
        (stats.cold_starts, stats.timeouts, stats.crashes),
        (2, 1, 0)
    );
    assert_eq!(
        host.environments()
            .iter()
            .map(|one| (one.invocations, one.timeouts))
            .collect::<Vec<_>>(),
        [(1, 1), (1, 0)]
    );
    host.end().await;
}

#[tokio::test]
async fn a_process_that_exits_mid_invocation_is_a_crash_with_its_status() {
    let host = Host::start();
    match host.invoke("exit 3").await {
        Err(InvokeError::Crashed {
            environment: 1,
            exit: Some(exit),
        }) => assert_eq!(exit.code(), Some(3)),
        other => panic!("{other:?}"),
    }
    assert_eq!(
        host.answer("").await["variables"]["AWS_LAMBDA_LOG_STREAM_NAME"],
        "local/[$LATEST]2"
    );
    assert_eq!(host.function.stats().crashes, 1);
    host.end().await;
}

#[tokio::test]
async fn a_killed_environment_crashes_its_invocation_and_is_not_used_again() {
    let host = Host::start();
    assert!(!host.function.kill_environment(1));
    let ((), crashed) = tokio::join!(
        async {
            host.until("it is running", || busy(&host) == [1]).await;
            assert!(host.function.kill_environment(1));
            assert!(!host.function.kill_environment(1));
        },
        host.invoke("sleep 60000")
    );
    match crashed {
        Err(error @ InvokeError::Crashed { environment: 1, .. }) => {
            assert!(error.to_string().contains("SIGKILL"), "{error}")
        }
        other => panic!("{other:?}"),
    }
    // Idle ones too: the invocation right after the kill does not meet a dying process.
    for number in 2..8 {
        host.answer("").await;
        assert!(host.function.kill_environment(number));
    }
    assert_eq!(host.function.stats().crashes, 1);
    host.end().await;
}

#[tokio::test]
async fn a_process_that_dies_idle_is_replaced_unnoticed() {
    let host = Host::start();
    host.answer("exit-after 50 5").await;
    host.until("the process is reaped", || exit_of(&host, 1).is_some())
        .await;
    assert_eq!(
        host.answer("").await["variables"]["AWS_LAMBDA_LOG_STREAM_NAME"],
        "local/[$LATEST]2"
    );
    assert_eq!(host.function.stats().crashes, 0);
    host.end().await;
}

#[tokio::test]
async fn a_failed_init_fails_the_invocation_with_its_reason() {
    for (init, error_type, message) in [
        ("exit", "Runtime.ExitError", "exit status: 7"),
        ("error", "Echo.Config", "spoiled by request"),
    ] {
        let host =
            Host::with(|config| drop(config.variables.insert("ECHO_INIT".into(), init.into())));
        match host.invoke("").await {
            Err(InvokeError::InitFailed {
                error_type: seen,
                message: text,
            }) => {
                assert!(
                    seen == error_type && text.contains(message),
                    "{seen}: {text}"
                );
            }
            other => panic!("{other:?}"),
        }
        // Lambda starts one more process for the invocation.
        let stats = host.function.stats();
        assert_eq!((stats.cold_starts, stats.init_failures), (2, 2));
        let failure = host.function.start_fails_again().await;
        assert!(failure.to_string().contains(message), "{failure}");
        host.end().await;
    }
}

#[tokio::test]
async fn a_redeploy_replaces_idle_environments_at_once_and_busy_ones_after_their_invocation() {
    let host = Host::start();
    let ((), (old, idle)) = tokio::join!(
        async {
            host.until("both are running", || busy(&host) == [1, 1])
                .await;
        },
        async { tokio::join!(host.answer("sleep 1500"), host.answer("sleep 300")) }
    );
    assert_ne!(old["pid"], idle["pid"]);
    let changed = |value: &str| BTreeMap::from([("MINE".to_owned(), value.to_owned())]);
    let ((), (slow, mine)) = tokio::join!(
        async {
            host.until("one is running", || busy(&host) == [1]).await;
            assert_eq!(host.function.redeploy(&changed("new")), 2);
            host.until("the idle one is gone", || {
                exit_of(&host, 1).is_some() || exit_of(&host, 2).is_some()
            })
            .await;
            assert_eq!(busy(&host), [1], "the other goes on");
        },
        async {
            let slow = host.invoke("sleep 800");
            let later = async {
                host.until("the idle one is gone", || {
                    exit_of(&host, 1).is_some() || exit_of(&host, 2).is_some()
                })
                .await;
                host.answer("").await["variables"]["MINE"].clone()
            };
            tokio::join!(slow, later)
        }
    );
    assert!(matches!(slow, Ok(InvokeResponse::Ok(_))), "{slow:?}");
    assert_eq!(mine, "new");
    host.until("the busy one is gone too", || {
        exit_of(&host, 1).is_some() && exit_of(&host, 2).is_some()
    })
    .await;
    let stats = host.function.stats();
    assert_eq!((stats.cold_starts, stats.crashes), (3, 0));
    host.end().await;
}

#[tokio::test]
async fn processes_that_are_killed_before_they_poll_are_no_failing_starts() {
    let host =
        Host::with(|config| drop(config.variables.insert("ECHO_INIT".into(), "hang".into())));
    for number in 1..=3 {
        let ((), killed) = tokio::join!(
            async {
                host.until("it is starting", || host.environments().len() == number)
                    .await;
                assert!(host.function.kill_environment(number as u32));
            },
            host.invoke("")
        );
        assert!(
            matches!(killed, Err(InvokeError::InitFailed { .. })),
            "{killed:?}"
        );
    }
    let failing = host.function.start_fails_again().now_or_never();
    assert!(failing.is_none(), "{failing:?}");
    host.end().await;
}

#[tokio::test]
async fn a_process_that_does_not_poll_within_the_init_time_is_killed() {
    let host =
        Host::with(|config| drop(config.variables.insert("ECHO_INIT".into(), "hang".into())));
    match host.invoke("").await {
        Err(InvokeError::InitFailed { error_type, .. }) => {
            assert_eq!(error_type, "Sandbox.Timedout")
        }
        other => panic!("{other:?}"),
    }
    host.until("the process is reaped", || exit_of(&host, 1).is_some())
        .await;
    host.end().await;
}

#[tokio::test]
async fn a_program_that_is_not_there_fails_the_invocation() {
    let host = Host::with(|config| config.bootstrap.program = "no/such/bootstrap".into());
    match host.invoke("").await {
        Err(InvokeError::InitFailed {
            error_type,
            message,
        }) => {
            assert!(
                error_type == "Runtime.InvalidEntrypoint" && message.contains("no/such/bootstrap"),
                "{message}"
            );
        }
        other => panic!("{other:?}"),
    }
    host.end().await;
}

#[tokio::test]
async fn payloads_and_responses_over_six_megabytes_are_refused() {
    let host = Host::start();
    let limit_bytes = REQUEST_BYTES_MAX;
    let refused = host
        .function
        .invoke(Bytes::from(vec![b' '; limit_bytes + 1]))
        .await;
    assert_eq!(
        refused,
        Err(InvokeError::PayloadTooLarge {
            size_bytes: limit_bytes + 1,
            limit_bytes
        })
    );
    let mut largest = br#"{"do":""}"#.to_vec();
    largest.resize(limit_bytes, b' ');
    assert!(matches!(
        host.function.invoke(largest.into()).await,
        Ok(InvokeResponse::Ok(_))
    ));

    // Two bytes are the quotes.
    match host
        .invoke(&format!("respond {}", RESPONSE_BYTES_MAX - 2))
        .await
    {
        Ok(InvokeResponse::Ok(body)) => assert_eq!(body.len(), RESPONSE_BYTES_MAX),
        other => panic!("{:?}", other.map(|_| "another response")),
    }
    match host
        .invoke(&format!("respond {}", RESPONSE_BYTES_MAX - 1))
        .await
    {
        Ok(InvokeResponse::FunctionError { error_type, .. }) => {
            assert_eq!(error_type, "Function.ResponseSizeTooLarge")
        }
        other => panic!("{:?}", other.map(|_| "another response")),
    }
    host.end().await;
}

#[tokio::test]
async fn both_pipes_reach_the_log_sink_with_the_environments_number() {
    let host = Host::start();
    host.answer("print hello there").await;
    for stream in [LogStream::Stdout, LogStream::Stderr] {
        host.until("the line is logged", || {
            host.logged()
                .iter()
                .any(|l| l.stream == stream && l.text == "hello there")
        })
        .await;
    }
    // A pipe holds 64 KiB: this would block for ever if nobody read it.
    host.answer("long-line 1000000").await;
    host.end().await;
    let lines = host.logged();
    assert!(
        lines
            .iter()
            .all(|line| (&*line.function, line.environment) == ("echo", 1))
    );
    assert!(
        lines
            .iter()
            .any(|line| line.to_string() == "[echo#1] hello there")
    );
    assert_eq!(
        lines
            .iter()
            .map(|line| line.text.bytes().filter(|byte| *byte == b'x').count())
            .sum::<usize>(),
        1_000_000
    );
    assert!(lines.iter().all(|line| line.text.len() <= 256 * 1024));
}

#[tokio::test]
async fn cpu_time_and_peak_memory_survive_the_process() {
    let host = Host::start();
    host.answer("grow 64").await;
    let started = Instant::now();
    // On a busy machine, time spent spinning is not CPU time.
    while host.function.stats().cpu.total() < Duration::from_millis(200) {
        assert!(started.elapsed() < PATIENCE, "{:?}", host.environments());
        host.answer("spin 50").await;
    }
    host.end().await;
    let stats = host.function.stats();
    assert!(
        stats.cpu.total() >= Duration::from_millis(200),
        "{:?}",
        stats.cpu
    );
    assert!(
        stats.peak_rss_bytes_max >= 64 * 1024 * 1024,
        "{}",
        stats.peak_rss_bytes_max
    );
    let environment = &host.environments()[0];
    assert_eq!(
        (environment.cpu, environment.peak_rss_bytes),
        (stats.cpu, stats.peak_rss_bytes_max)
    );
}

#[tokio::test]
async fn shutdown_ends_what_runs_reaps_every_process_and_refuses_what_comes_later() {
    let host = Host::start();
    let ((), interrupted) = tokio::join!(
        async {
            host.until("it is running", || busy(&host) == [1]).await;
            host.function.shutdown().await;
        },
        host.invoke("sleep 60000")
    );
    assert_eq!(interrupted, Err(InvokeError::ShutDown));
    assert!(exit_of(&host, 1).unwrap().contains("SIGKILL"));
    assert_eq!(host.invoke("").await, Err(InvokeError::ShutDown));
    host.end().await;
    let stats = host.function.stats();
    assert_eq!((stats.cold_starts, stats.crashes), (1, 0));
}

#[tokio::test]
async fn a_process_with_an_extension_is_asked_to_end_by_sigterm() {
    let host = Host::with(|config| {
        drop(
            config
                .variables
                .insert("ECHO_INIT".into(), "extension".into()),
        )
    });
    host.answer("").await;
    host.end().await;
    assert_eq!(exit_of(&host, 1).as_deref(), Some("exit status: 0"));
    assert!(host.logged().iter().any(|line| line.text == "terminated"));
}

#[tokio::test]
async fn an_invocation_goes_on_when_its_caller_goes_away() {
    let host = Host::start();
    let mut abandoned = Box::pin(host.invoke("sleep 300"));
    tokio::select! {
        result = &mut abandoned => panic!("{result:?}"),
        () = host.until("it is running", || busy(&host) == [1]) => {}
    }
    drop(abandoned);
    host.until("it has ended", || host.function.stats().invocations == 1)
        .await;
    host.answer("").await;
    assert_eq!(host.function.stats().cold_starts, 1);
    host.end().await;
}
