//! Payloads, responses, logs, and callers that disconnect.

use bytes::Bytes;
use emulators::lambda::{
    InvokeError, InvokeResponse, LogStream, REQUEST_BYTES_MAX, RESPONSE_BYTES_MAX,
};

use crate::support::*;

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

    // The quotes take two bytes.
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
    host.response_to("print hello there").await;
    for stream in [LogStream::Stdout, LogStream::Stderr] {
        host.until("the line is logged", || {
            host.logged()
                .iter()
                .any(|l| l.stream == stream && l.text == "hello there")
        })
        .await;
    }
    // A pipe holds 64 KiB, so the process would block for ever if the host did not read it.
    host.response_to("long-line 1000000").await;
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
async fn an_invocation_continues_when_its_caller_drops_the_future() {
    let host = Host::start();
    let mut abandoned = Box::pin(host.invoke("sleep 300"));
    tokio::select! {
        result = &mut abandoned => panic!("{result:?}"),
        () = host.until("the invocation runs", || busy(&host) == [1]) => {}
    }
    drop(abandoned);
    host.until("the invocation has ended", || {
        host.function.stats().invocations == 1
    })
    .await;
    host.response_to("").await;
    assert_eq!(host.function.stats().cold_starts, 1);
    host.end().await;
}
