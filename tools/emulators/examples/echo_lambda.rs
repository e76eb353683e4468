//! A Lambda function for the tests of the Lambda host. It runs the commands in its payload.
//!
//! A direct payload is `{"do": "<command>"}`. An SQS event has one command in the body of each record. The commands:
//!
//! | command | effect |
//! |---|---|
//! | `sleep <ms>` | waits asynchronously |
//! | `spin <ms>` | uses CPU for that time |
//! | `grow <MiB>` | allocates and touches memory |
//! | `exit <code>` | ends the process at once |
//! | `exit-after <ms> <code>` | responds, and ends the process after that time |
//! | `panic`, `error <text>` | panics, or returns an error |
//! | `print <text>` | prints a line on standard output and on standard error |
//! | `long-line <bytes>` | prints one line of this length |
//! | `respond <bytes>` | returns a string of this length (direct payloads only) |
//! | `fail` | prints the receipt handle of its record before any command runs, and reports the record as failed (SQS only) |
//! | `fail-receives <n>`, `error-receives <n>` | reports the record as failed, or returns an error, at its first `n` receives (SQS only) |
//! | any other text | does nothing |
//!
//! With `ECHO_EVENTS`, the function prints each SQS event. With `ECHO_RESPONSE`, it returns that JSON for SQS events instead of
//! the records that failed.
//!
//! With `ECHO_INIT` set to `hang`, `exit` or `error`, the init phase fails in that way. With `extension`, the process registers
//! an extension, and prints `terminated` on SIGTERM before it exits.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant, SystemTime};

use aws_lambda_events::sqs::{SqsBatchResponse, SqsEvent, SqsMessage};
use lambda_runtime::{Error, LambdaEvent, service_fn};
use serde_json::{Value, json};
use tokio::signal::unix::{SignalKind, signal};

#[tokio::main]
async fn main() -> Result<(), Error> {
    match std::env::var("ECHO_INIT").as_deref() {
        Ok("hang") => tokio::time::sleep(Duration::from_secs(3600)).await,
        Ok("exit") => std::process::exit(7),
        Ok("error") => {
            let body = r#"{"errorType":"Echo.Config","errorMessage":"spoiled by request"}"#;
            call("/2018-06-01/runtime/init/error", "", body)?;
            tokio::time::sleep(Duration::from_secs(3600)).await;
        }
        Ok("extension") => {
            let head = call(
                "/2020-01-01/extension/register",
                "lambda-extension-name: echo\r\n",
                r#"{"events":[]}"#,
            )?;
            assert!(head.contains("lambda-extension-identifier: "), "{head}");
            let mut terminated = signal(SignalKind::terminate())?;
            tokio::spawn(async move {
                terminated.recv().await;
                println!("terminated");
                std::process::exit(0);
            });
        }
        _ => {}
    }
    lambda_runtime::run_concurrent(service_fn(handle)).await
}

async fn handle(event: LambdaEvent<Value>) -> Result<Value, Error> {
    if event.payload.get("Records").is_none() {
        let command = event.payload["do"].as_str().unwrap_or_default().to_owned();
        if let Some(bytes) = command.strip_prefix("respond ") {
            return Ok(Value::String("x".repeat(bytes.parse()?)));
        }
        run(&command).await?;
        let now_ms = SystemTime::UNIX_EPOCH.elapsed()?.as_millis();
        return Ok(json!({
            "pid": std::process::id(),
            "request_id": event.context.request_id,
            "arn": event.context.invoked_function_arn,
            "remaining_ms": u128::from(event.context.deadline).saturating_sub(now_ms),
            "variables": std::env::vars().collect::<std::collections::BTreeMap<_, _>>(),
        }));
    }
    if std::env::var_os("ECHO_EVENTS").is_some() {
        println!("event {}", event.payload);
    }
    let response = handle_records(serde_json::from_value(event.payload)?).await?;
    match std::env::var("ECHO_RESPONSE") {
        Ok(json) => Ok(serde_json::from_str(&json)?),
        Err(_) => Ok(serde_json::to_value(response)?),
    }
}

/// Runs the commands of an SQS event; returns the records that failed.
async fn handle_records(event: SqsEvent) -> Result<SqsBatchResponse, Error> {
    println!("{} records", event.records.len());
    let records = event.records.iter();
    for record in records.filter(|record| record.body.as_deref() == Some("fail")) {
        let handle = record.receipt_handle.as_deref().unwrap_or_default();
        println!("handle {handle}");
    }
    let mut response = SqsBatchResponse::default();
    for record in event.records {
        let receives = receives(&record)?;
        let id = record.message_id.unwrap_or_default();
        let body = record.body.unwrap_or_default();
        match body.split_once(' ') {
            None if body == "fail" => response.add_failure(id),
            Some(("fail-receives", n)) if receives <= n.parse()? => response.add_failure(id),
            Some(("error-receives", n)) if receives <= n.parse()? => {
                return Err("by request".into());
            }
            _ => run(&body).await?,
        }
    }
    Ok(response)
}

/// Returns the number of times that the message of a record was received.
fn receives(record: &SqsMessage) -> Result<u32, Error> {
    let count = record.attributes.get("ApproximateReceiveCount");
    Ok(count.ok_or("a record has a receive count")?.parse()?)
}

async fn run(command: &str) -> Result<(), Error> {
    let (verb, rest) = command.split_once(' ').unwrap_or((command, ""));
    match verb {
        "sleep" => tokio::time::sleep(Duration::from_millis(rest.parse()?)).await,
        "spin" => {
            let (started, time) = (Instant::now(), Duration::from_millis(rest.parse()?));
            while started.elapsed() < time {
                std::hint::spin_loop();
            }
        }
        "grow" => {
            let memory = vec![1_u8; rest.parse::<usize>()? * 1024 * 1024];
            assert!(!std::hint::black_box(&memory).contains(&0));
        }
        "exit" => std::process::exit(rest.parse()?),
        "exit-after" => {
            let both = rest.split_once(' ');
            let (ms, code) = both.ok_or("exit-after: expected `<ms> <code>`")?;
            let (time, code) = (Duration::from_millis(ms.parse()?), code.parse()?);
            tokio::spawn(async move {
                tokio::time::sleep(time).await;
                std::process::exit(code);
            });
        }
        "panic" => panic!("by request"),
        "error" => return Err(rest.into()),
        "print" => {
            println!("{rest}");
            eprintln!("{rest}");
        }
        "long-line" => println!("{}", "x".repeat(rest.parse()?)),
        _ => {}
    }
    Ok(())
}

/// Sends one POST request to the Runtime API; returns the whole response.
fn call(path: &str, headers: &str, body: &str) -> Result<String, Error> {
    let address = std::env::var("AWS_LAMBDA_RUNTIME_API")?;
    let mut stream = TcpStream::connect(&address)?;
    let length = body.len();
    write!(
        stream,
        "POST {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n{headers}content-length: {length}\r\n\r\n{body}"
    )?;
    let mut response = String::new();
    stream.read_to_string(&mut response)?;
    Ok(response)
}
