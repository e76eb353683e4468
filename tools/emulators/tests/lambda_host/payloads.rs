//! Payloads, responses, logs, and callers that disconnect.

use emulators::lambda::{
    InvokeError, InvokeResponse, LogLine, LogStream, REQUEST_BYTES_MAX, RESPONSE_BYTES_MAX,
};

use crate::support::*;

#[tokio::test]
async fn payloads_and_responses_over_six_megabytes_are_refused() {
    let host = Host::start();
    let limit_bytes = REQUEST_BYTES_MAX;
    let size_bytes = limit_bytes + 1;
    let refused = host.function.invoke(vec![b' '; size_bytes].into()).await;
    let too_large = InvokeError::PayloadTooLarge {
        size_bytes,
        limit_bytes,
    };
    assert_eq!(refused, Err(too_large));
    let mut largest = br#"{"do":""}"#.to_vec();
    largest.resize(limit_bytes, b' ');
    let accepted = host.function.invoke(largest.into()).await;
    assert!(matches!(accepted, Ok(InvokeResponse::Ok(_))));

    // The quotes take two bytes.
    let largest = format!("respond {}", RESPONSE_BYTES_MAX - 2);
    match host.invoke(&largest).await {
        Ok(InvokeResponse::Ok(body)) => assert_eq!(body.len(), RESPONSE_BYTES_MAX),
        other => panic!("{:?}", other.map(|_| "another response")),
    }
    let larger = format!("respond {}", RESPONSE_BYTES_MAX - 1);
    match host.invoke(&larger).await {
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
        let printed = |line: &LogLine| line.stream == stream && line.text == "hello there";
        let logged = || host.logged().iter().any(printed);
        host.until("the line is logged", logged).await;
    }
    // A pipe holds 64 KiB, so the process would block for ever if the host did not read it.
    host.response_to("long-line 1000000").await;
    host.end().await;
    let lines = Vec::from_iter(host.logged().iter().map(LogLine::to_string));
    assert!(lines.iter().any(|line| line == "[echo#1] hello there"));
    let texts = lines.iter().map(|line| line.strip_prefix("[echo#1] "));
    let texts = Vec::from_iter(texts.map(|text| text.expect("a prefix")));
    assert_eq!(texts.concat().matches('x').count(), 1_000_000);
    assert!(texts.iter().all(|text| text.len() <= 256 * 1024));
}

#[tokio::test]
async fn an_invocation_continues_when_its_caller_drops_the_future() {
    let host = Host::start();
    let mut abandoned = Box::pin(host.invoke("sleep 300"));
    tokio::select! {
        result = &mut abandoned => panic!("{result:?}"),
        () = host.until_busy(&[1]) => {}
    }
    drop(abandoned);
    let ended = || host.function.stats().invocations == 1;
    host.until("the invocation has ended", ended).await;
    host.response_to("").await;
    assert_eq!(host.function.stats().cold_starts, 1);
    host.end().await;
}
