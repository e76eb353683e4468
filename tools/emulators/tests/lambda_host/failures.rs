//! Errors, deadlines, crashes and failed starts.

use std::time::{Duration, Instant};

use emulators::lambda::{InvokeError, InvokeResponse};
use futures::FutureExt;
use serde_json::Value;

use crate::support::*;

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
    host.response_to("").await;
    let stats = host.function.stats();
    assert_eq!((stats.cold_starts, stats.crashes), (1, 0));
    assert_eq!((stats.invocations, stats.function_errors), (3, 2));
    host.end().await;
}

#[tokio::test]
async fn an_invocation_at_its_deadline_is_a_timeout_and_the_process_is_killed() {
    let after = Duration::from_millis(500);
    let host = Host::with(|config| config.timeout = after);
    let started = Instant::now();
    let timeout = Err(InvokeError::Timeout { after });
    assert_eq!(host.invoke("sleep 60000").await, timeout);
    assert!(started.elapsed() < PATIENCE);
    host.until_ended(1).await;
    assert!(exit_of(&host, 1).unwrap().contains("SIGKILL"));
    // The next invocation has an environment of its own.
    host.response_to("").await;
    let stats = host.function.stats();
    let counts = (stats.cold_starts, stats.timeouts, stats.crashes);
    assert_eq!(counts, (2, 1, 0));
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
    assert_eq!(environment_of(&host.response_to("").await), 2);
    assert_eq!(host.function.stats().crashes, 1);
    host.end().await;
}

#[tokio::test]
async fn a_killed_environment_crashes_its_invocation_and_is_not_used_again() {
    let host = Host::start();
    assert!(!host.function.kill_environment(1));
    let ((), crashed) = tokio::join!(
        async {
            host.until_busy(&[1]).await;
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
    // The next invocation does not run in an idle environment that was killed.
    for number in 2..8 {
        host.response_to("").await;
        assert!(host.function.kill_environment(number));
    }
    assert_eq!(host.function.stats().crashes, 1);
    host.end().await;
}

#[tokio::test]
async fn an_idle_process_that_exits_is_replaced_without_a_failed_invocation() {
    let host = Host::start();
    host.response_to("exit-after 50 5").await;
    host.until_ended(1).await;
    assert_eq!(environment_of(&host.response_to("").await), 2);
    assert_eq!(host.function.stats().crashes, 0);
    host.end().await;
}

#[tokio::test]
async fn a_failed_init_fails_the_invocation_with_its_reason() {
    for (init, error_type, message) in [
        ("exit", "Runtime.ExitError", "exit status: 7"),
        ("error", "Echo.Config", "spoiled by request"),
    ] {
        let host = Host::with_init(init);
        assert_init_failed(host.invoke("").await, error_type, message);
        // Lambda starts a second environment for the invocation.
        let stats = host.function.stats();
        assert_eq!((stats.cold_starts, stats.init_failures), (2, 2));
        let failure = host.function.repeated_start_failure().await;
        assert!(failure.to_string().contains(message), "{failure}");
        host.end().await;
    }
}

#[tokio::test]
async fn processes_killed_by_the_host_before_they_poll_do_not_count_as_failed_starts() {
    let host = Host::with_init("hang");
    for number in 1..=3 {
        let started = || host.environments().len() == number;
        let ((), killed) = tokio::join!(
            async {
                host.until("the environment starts", started).await;
                assert!(host.function.kill_environment(number as u32));
            },
            host.invoke("")
        );
        assert_init_failed(killed, "Runtime.ExitError", "");
    }
    let failure = host.function.repeated_start_failure().now_or_never();
    assert!(failure.is_none(), "{failure:?}");
    host.end().await;
}

#[tokio::test]
async fn a_process_that_does_not_poll_within_the_init_time_is_killed() {
    let host = Host::with_init("hang");
    assert_init_failed(host.invoke("").await, "Sandbox.Timedout", "");
    host.until_ended(1).await;
    host.end().await;
}

#[tokio::test]
async fn a_missing_executable_fails_the_invocation() {
    let host = Host::with(|config| config.bootstrap.program = "no/such/bootstrap".into());
    let failed = host.invoke("").await;
    assert_init_failed(failed, "Runtime.InvalidEntrypoint", "no/such/bootstrap");
    host.end().await;
}

/// Asserts that no environment was initialised, with this type of error, and this text in its message.
fn assert_init_failed(result: Result<InvokeResponse, InvokeError>, kind: &str, text: &str) {
    match result {
        Err(InvokeError::InitFailed {
            error_type,
            message,
        }) if error_type == kind && message.contains(text) => {}
        other => panic!("{other:?}"),
    }
}

fn environment_of(response: &Value) -> u32 {
    let name = response["variables"]["AWS_LAMBDA_LOG_STREAM_NAME"].as_str();
    let number = name.and_then(|name| name.strip_prefix("local/[$LATEST]")?.parse().ok());
    number.expect("the stream is named by the environment")
}
