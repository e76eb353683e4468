//! Environments: cold and warm starts, variables, redeploys, statistics and shutdown.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use emulators::lambda::{EnvironmentState, InvokeError, InvokeResponse};
use serde_json::{Value, json};

use crate::support::*;

#[tokio::test]
async fn an_invocation_cold_starts_an_environment_and_the_next_reuses_it() {
    let host = Host::start();
    let (first, second) = (host.response_to("").await, host.response_to("").await);
    assert_eq!(first["pid"], second["pid"]);
    assert_ne!(first["request_id"], second["request_id"]);
    let arn = "arn:aws:lambda:us-east-1:000000000000:function:echo";
    assert_eq!(first["arn"], arn);
    let remaining_ms = first["remaining_ms"].as_u64().unwrap();
    assert!((1..=30_000).contains(&remaining_ms), "{remaining_ms}");
    let stats = host.function.stats();
    assert_eq!((stats.cold_starts, stats.invocations), (1, 2));
    assert_eq!(stats.concurrency_max, 1);
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
    let response = host.response_to("").await;
    // Set by `lambda_runtime` itself before each invocation.
    let mut seen = response["variables"].as_object().unwrap().clone();
    let mut taken = |name: &str| String::from(seen.remove(name).unwrap().as_str().unwrap());
    assert!(taken("_X_AMZN_TRACE_ID").starts_with("Root=1-"));
    assert!(taken("AWS_LAMBDA_RUNTIME_API").starts_with("127.0.0.1:"));
    assert!(bootstrap().starts_with(taken("LAMBDA_TASK_ROOT")));
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
    let (slow, fast) = tokio::join!(host.response_to("sleep 600"), async {
        host.until_busy(&[1]).await;
        host.response_to("").await
    });
    assert_ne!(slow["pid"], fast["pid"]);
    assert_eq!(host.function.stats().concurrency_max, 2);
    // The slow invocation was assigned first, so the environment of the fast one is the most recently used.
    assert_eq!(host.response_to("").await["pid"], fast["pid"]);
    assert_eq!(host.function.stats().cold_starts, 2);
    host.end().await;
}

#[tokio::test]
async fn several_invocations_run_in_one_environment_if_it_is_configured_so() {
    let host = Host::with(|config| config.concurrency_per_environment = 3);
    let responses = tokio::join!(
        host.response_to("sleep 300"),
        host.response_to("sleep 300"),
        host.response_to("sleep 300")
    );
    assert_eq!(responses.0["pid"], responses.1["pid"]);
    assert_eq!(responses.0["pid"], responses.2["pid"]);
    assert_eq!(responses.0["variables"]["AWS_LAMBDA_MAX_CONCURRENCY"], "3");
    let stats = host.function.stats();
    assert_eq!((stats.cold_starts, stats.concurrency_max), (1, 3));
    host.end().await;
}

#[tokio::test]
async fn a_redeploy_replaces_idle_environments_at_once_and_busy_ones_after_their_invocation() {
    let host = Host::start();
    let ((), old, idle) = tokio::join!(
        host.until_busy(&[1, 1]),
        host.response_to("sleep 1500"),
        host.response_to("sleep 300")
    );
    assert_ne!(old["pid"], idle["pid"]);
    let changed = BTreeMap::from([("MINE".to_owned(), "new".to_owned())]);
    let one_ended = || (1..3).any(|number| exit_of(&host, number).is_some());
    let (slow, mine) = tokio::join!(host.invoke("sleep 800"), async {
        host.until_busy(&[1]).await;
        assert_eq!(host.function.redeploy(&changed), 2);
        host.until("one environment has ended", one_ended).await;
        assert_eq!(busy(&host), [1], "the other environment is still busy");
        host.response_to("").await["variables"]["MINE"].clone()
    });
    assert!(matches!(slow, Ok(InvokeResponse::Ok(_))), "{slow:?}");
    assert_eq!(mine, "new");
    host.until_ended(1).await;
    host.until_ended(2).await;
    let stats = host.function.stats();
    assert_eq!((stats.cold_starts, stats.crashes), (3, 0));
    host.end().await;
}

#[tokio::test]
async fn cpu_time_and_peak_memory_survive_the_process() {
    let host = Host::start();
    host.response_to("grow 64").await;
    let started = Instant::now();
    // On a busy machine, time spent spinning is not CPU time.
    while host.function.stats().cpu.total() < Duration::from_millis(200) {
        assert!(started.elapsed() < PATIENCE, "{:?}", host.environments());
        host.response_to("spin 50").await;
    }
    host.end().await;
    let stats = host.function.stats();
    let (cpu, peak) = (stats.cpu, stats.peak_rss_bytes_max);
    assert!(cpu.total() >= Duration::from_millis(200), "{cpu:?}");
    assert!(peak >= 64 * 1024 * 1024, "{peak}");
    let environment = &host.environments()[0];
    assert_eq!((environment.cpu, environment.peak_rss_bytes), (cpu, peak));
}

#[tokio::test]
async fn shutdown_kills_running_invocations_reaps_every_process_and_refuses_later_ones() {
    let host = Host::start();
    let ((), interrupted) = tokio::join!(
        async {
            host.until_busy(&[1]).await;
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
    let host = Host::with_init("extension");
    host.response_to("").await;
    host.end().await;
    assert_eq!(exit_of(&host, 1).as_deref(), Some("exit status: 0"));
    assert!(host.logged().iter().any(|line| line.text == "terminated"));
}
