//! What the functions log, as JSON: every line about a batch has its id, every invocation one summary, and no line a body.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::post;
use bytes::Bytes;
use local::stack::{BATCH_DEAD_LETTER_QUEUE, BATCH_QUEUE, INPUT_QUEUE, QUARANTINE_QUEUE};
use protocol::batch::Status;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::events::failures;
use crate::rig::{Rig, Setup};

/// A line of a function.
pub enum LogOrMetrics {
    Log(Value),
    Metrics(Value),
}

/// Returns every line that is JSON, as text and parsed.
pub fn lines_of(rig: &Rig) -> Vec<(String, LogOrMetrics)> {
    let lines = rig.logged("").into_iter();
    let parsed = lines.filter_map(|line| {
        // The rig puts the function and its environment before each line.
        let (_, text) = line.split_once("] ")?;
        let value: Value = serde_json::from_str(text).ok()?;
        let line = match value.get("_aws") {
            Some(_) => LogOrMetrics::Metrics(value),
            None => LogOrMetrics::Log(value),
        };
        Some((text.to_owned(), line))
    });
    parsed.collect()
}

/// Parts of every message that no line may have: of its event id, of its batch key, and of what else is in the body.
const ID: &str = "id-canary";
const KEY: &str = "key-canary";
const BODY: &str = "body-canary";

const TRACE: &str = "1-5759e988-bd862e3fe1be46a994272793";

fn message(number: usize, more: &str) -> String {
    json!({ "id": format!("{ID}-{number}"), "key": KEY, "value": format!("{BODY}-{number}{more}") })
        .to_string()
}

/// A receiver that refuses a part and quotes it, until a test lets it take the part.
struct Receiver {
    url: String,
    takes: Arc<AtomicBool>,
}

impl Receiver {
    async fn start() -> Receiver {
        let takes = Arc::new(AtomicBool::new(false));
        let reply = |State(takes): State<Arc<AtomicBool>>, body: String| async move {
            match takes.load(Ordering::Relaxed) {
                true => (StatusCode::OK, String::new()),
                false => (
                    StatusCode::BAD_REQUEST,
                    format!("» this is no order: {body}"),
                ),
            }
        };
        let router = Router::new()
            .route("/", post(reply))
            .with_state(takes.clone());
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        tokio::spawn(async move { axum::serve(listener, router).await });
        Receiver {
            url: format!("http://{address}/"),
            takes,
        }
    }
}

/// Invokes the aggregator with traced messages.
async fn claim_traced(rig: &Rig, numbers: [usize; 2]) {
    let source = rig.stack.sqs.arn(INPUT_QUEUE);
    let records: Vec<Value> = numbers
        .into_iter()
        .map(|number| {
            json!({
                "messageId": format!("traced-{number}"),
                "body": message(number, ""),
                "attributes": { "SentTimestamp": "1700000000000", "AWSTraceHeader": format!("Root={TRACE};Sampled=1") },
                "eventSourceARN": source,
            })
        })
        .collect();
    let event = Bytes::from(json!({ "Records": records }).to_string());
    assert!(failures(rig, &rig.stack.aggregator, event).await.is_empty());
}

/// Has everything logged that has to do with messages: claims, duplicates, conflicts, bad messages, a malformed ticket, and a
/// part that the sink refuses and then takes. Returns the lines.
async fn log_everything(event_ids: &str) -> Vec<(String, LogOrMetrics)> {
    let receiver = Receiver::start().await;
    let rig = Setup::new()
        .var("LOG_FORMAT", "json")
        .var("LOG_LEVEL", "trace")
        .var("LOG_EVENT_IDS", event_ids)
        .var("BATCH_KEY", "key")
        .var("MAX_BATCH_SIZE", 4)
        .window(600)
        .var("SINK", &receiver.url)
        .redeliver(BATCH_QUEUE, 2)
        .one_aggregator_environment()
        .start()
        .await;
    claim_traced(&rig, [1, 2]).await;
    for number in 1..5 {
        rig.send(message(number, ""));
    }
    rig.send(message(1, " with other content"));
    rig.send(format!("{BODY} is not JSON"));
    rig.send(format!(r#"{{"id":1.5,"key":"{KEY}","value":"{BODY}"}}"#));
    rig.send_to(BATCH_QUEUE, format!("{{\"{BODY}\": \"no ticket\"}}"));
    rig.until_depth(QUARANTINE_QUEUE, 3).await;
    rig.until_depth(BATCH_DEAD_LETTER_QUEUE, 1).await;
    rig.until("the batch is in error", async || {
        rig.statuses().await[&Status::Error] == 1
    })
    .await;
    receiver.takes.store(true, Ordering::Relaxed);
    let batches = rig.batch_ids().await;
    let ticket = json!({ "batchId": batches[0], "reason": "operator" });
    rig.send_to(BATCH_QUEUE, ticket.to_string());
    rig.until("the batch is complete", async || {
        rig.has_logged("batch complete")
    })
    .await;
    rig.until("a sweep", async || rig.has_logged("sweep done"))
        .await;
    rig.stack.stop().await;
    let lines = lines_of(&rig);
    assert_eq!(
        lines.len(),
        rig.logged("").len(),
        "every line is JSON: {:?}",
        rig.logged("")
    );
    lines
}

fn logs(lines: &[(String, LogOrMetrics)]) -> impl Iterator<Item = &Value> {
    lines.iter().filter_map(|(_, line)| match line {
        LogOrMetrics::Log(line) => Some(line),
        LogOrMetrics::Metrics(_) => None,
    })
}

fn with_message<'l>(lines: &'l [(String, LogOrMetrics)], message: &str) -> Vec<&'l Value> {
    logs(lines)
        .filter(|line| line["message"] == message)
        .collect()
}

/// Checks that every line with the id of a batch has it in its field.
fn assert_lines_have_batch_ids(lines: &[(String, LogOrMetrics)]) {
    let opened = with_message(lines, "batch opened");
    let batches: BTreeSet<&str> = opened
        .iter()
        .filter_map(|line| line["batch_id"].as_str())
        .collect();
    assert_eq!(batches.len(), 1, "one batch, with four events of one key");
    for line in logs(lines) {
        let text = line.to_string();
        for batch in &batches {
            let is_about_it = text.contains(batch);
            assert!(!is_about_it || line["batch_id"] == *batch, "{line}");
        }
    }
    // In both functions, and also where only a component far below knows what happens.
    for message in [
        "batch opened",
        "events claimed",
        "batch sealed",
        "batch leased",
        "part frozen",
        "delivering part",
        "sink refused a part permanently",
        "part not delivered",
        "part posted",
        "part delivered",
        "claims released",
        "batch complete",
    ] {
        let found = with_message(lines, message);
        assert!(!found.is_empty(), "no line `{message}`");
        for line in found {
            assert!(line["batch_id"].is_string(), "{line}");
        }
    }
    let tickets = with_message(lines, "ticket done");
    assert!(!tickets.is_empty() && tickets.iter().all(|line| line["batch_id"].is_string()));
}

/// Checks that each invocation has a request id and exactly one summary.
fn assert_invocations_have_a_summary(lines: &[(String, LogOrMetrics)]) {
    let mut summaries: BTreeMap<&str, usize> = BTreeMap::new();
    for line in logs(lines) {
        let Some(request) = line["requestId"].as_str() else {
            continue;
        };
        let is_summary = ["invocation done", "sweep done"]
            .iter()
            .any(|done| line["message"] == *done);
        *summaries.entry(request).or_default() += usize::from(is_summary);
    }
    assert!(summaries.len() > 4, "{summaries:?}");
    assert!(summaries.values().all(|count| *count <= 1), "{summaries:?}");
    let unfinished = summaries.values().filter(|count| **count == 0).count();
    assert!(
        unfinished <= 1,
        "more than the invocation that the end of the test cut off: {summaries:?}"
    );
}

#[tokio::test]
async fn log_lines_name_their_batch_and_hold_no_body_and_no_event_id() {
    let lines = log_everything("off").await;
    for (text, _) in &lines {
        for canary in [ID, KEY, BODY] {
            assert!(!text.contains(canary), "`{canary}` in {text}");
        }
    }
    for line in logs(&lines) {
        assert!(
            line["level"].is_string() && line["message"].is_string(),
            "{line}"
        );
    }
    assert_lines_have_batch_ids(&lines);
    assert_invocations_have_a_summary(&lines);
    let refused = with_message(&lines, "sink refused a part permanently");
    assert_eq!(refused[0]["reason"], "HTTP status 400: «…»");
    let reasons: BTreeSet<&str> = with_message(&lines, "message cannot be processed")
        .iter()
        .filter_map(|line| line["reason"].as_str())
        .collect();
    assert_eq!(reasons.len(), 3, "{reasons:?}");
    let traced: Vec<&Value> = with_message(&lines, "events claimed")
        .into_iter()
        .filter(|line| line["level"] == "INFO")
        .collect();
    assert_eq!(traced.len(), 1, "{traced:?}");
    assert_eq!(
        (&traced[0]["trace_ids"], &traced[0]["items_count"]),
        (&json!(TRACE), &json!(2))
    );
}

#[tokio::test]
async fn a_variable_allows_event_ids_in_log_lines_and_still_no_body() {
    let lines = log_everything("on").await;
    assert!(
        lines.iter().any(|(text, _)| text.contains(ID)),
        "the conflict names its event"
    );
    for (text, _) in &lines {
        assert!(!text.contains(BODY), "{text}");
    }
}
