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
use serde_json::{Value, json};

use crate::events::{failures, order};
use crate::rig::{Rig, Setup, served};

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

/// A receiver that refuses a part and quotes it, until `takes` is true. Returns its URL.
async fn receiver(takes: Arc<AtomicBool>) -> String {
    let reply = |State(takes): State<Arc<AtomicBool>>, body: String| async move {
        let refusal = format!("» this is no order: {body}");
        match takes.load(Ordering::Relaxed) {
            true => (StatusCode::OK, String::new()),
            false => (StatusCode::BAD_REQUEST, refusal),
        }
    };
    let router = Router::new().route("/", post(reply)).with_state(takes);
    served(router).await + "/"
}

/// Invokes the aggregator with traced messages.
async fn claim_traced(rig: &Rig, numbers: [usize; 2]) {
    let source = rig.stack.sqs.arn(INPUT_QUEUE);
    let records = numbers.map(|number| {
        json!({
            "messageId": format!("traced-{number}"),
            "body": message(number, ""),
            "attributes": { "SentTimestamp": "1700000000000", "AWSTraceHeader": format!("Root={TRACE};Sampled=1") },
            "eventSourceARN": source,
        })
    });
    let event = Bytes::from(json!({ "Records": records }).to_string());
    assert!(failures(rig, &rig.stack.aggregator, event).await.is_empty());
}

/// Has everything logged that has to do with messages: claims, duplicates, conflicts, bad messages, a malformed ticket, and a
/// part that the sink refuses and then takes. Returns the lines.
async fn log_everything(event_ids: &str) -> Vec<(String, LogOrMetrics)> {
    let takes = Arc::new(AtomicBool::new(false));
    let rig = Setup::new()
        .var("LOG_FORMAT", "json")
        .var("LOG_LEVEL", "trace")
        .var("LOG_EVENT_IDS", event_ids)
        .var("BATCH_KEY", "key")
        .batches_of(4)
        .window(600)
        .var("SINK", receiver(takes.clone()).await)
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
    rig.until_in_error().await;
    takes.store(true, Ordering::Relaxed);
    let batch = rig.only_batch().await;
    rig.send_to(BATCH_QUEUE, order(&batch, "operator"));
    rig.until_logged("batch complete").await;
    rig.until_logged("sweep done").await;
    rig.stack.stop().await;
    let (lines, logged) = (lines_of(&rig), rig.logged(""));
    assert_eq!(lines.len(), logged.len(), "every line is JSON: {logged:?}");
    lines
}

fn logs(lines: &[(String, LogOrMetrics)]) -> impl Iterator<Item = &Value> {
    lines.iter().filter_map(|(_, line)| match line {
        LogOrMetrics::Log(line) => Some(line),
        LogOrMetrics::Metrics(_) => None,
    })
}

fn with_message<'l>(lines: &'l [(String, LogOrMetrics)], message: &str) -> Vec<&'l Value> {
    let lines = logs(lines).filter(|line| line["message"] == message);
    lines.collect()
}

/// Checks that every line with the id of a batch has it in its field.
fn assert_lines_have_batch_ids(lines: &[(String, LogOrMetrics)]) {
    let opened = with_message(lines, "batch opened");
    // One batch, with four events of one key.
    let batch = opened[0]["batch_id"].as_str().expect("it has an id");
    assert!(opened.iter().all(|line| line["batch_id"] == batch));
    for line in logs(lines) {
        let is_about_it = line.to_string().contains(batch);
        assert!(!is_about_it || line["batch_id"] == batch, "{line}");
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
        let message = line["message"].as_str().unwrap_or_default();
        let is_summary = ["invocation done", "sweep done"].contains(&message);
        *summaries.entry(request).or_default() += usize::from(is_summary);
    }
    assert!(summaries.len() > 4, "{summaries:?}");
    assert!(summaries.values().all(|count| *count <= 1), "{summaries:?}");
    // The end of the test cuts off one invocation at most.
    let unfinished = summaries.values().filter(|count| **count == 0).count();
    assert!(unfinished <= 1, "{summaries:?}");
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
        assert!(line["level"].is_string(), "{line}");
        assert!(line["message"].is_string(), "{line}");
    }
    assert_lines_have_batch_ids(&lines);
    assert_invocations_have_a_summary(&lines);
    let refused = with_message(&lines, "sink refused a part permanently");
    assert_eq!(refused[0]["reason"], "HTTP status 400: «…»");
    let bad = with_message(&lines, "message cannot be processed");
    let reasons = bad.iter().filter_map(|line| line["reason"].as_str());
    assert_eq!(BTreeSet::from_iter(reasons).len(), 3, "{bad:?}");
    let mut traced = with_message(&lines, "events claimed");
    traced.retain(|line| line["level"] == "INFO");
    assert_eq!(traced.len(), 1, "{traced:?}");
    assert_eq!(traced[0]["trace_ids"], TRACE, "{traced:?}");
    assert_eq!(traced[0]["items_count"], 2, "{traced:?}");
}

#[tokio::test]
async fn a_variable_allows_event_ids_in_log_lines_and_still_no_body() {
    let lines = log_everything("on").await;
    // The conflict names its event.
    assert!(lines.iter().any(|(text, _)| text.contains(ID)));
    for (text, _) in &lines {
        assert!(!text.contains(BODY), "{text}");
    }
}
