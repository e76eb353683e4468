//! Traces: the spans of the executables, the links between them, and what happens without an endpoint that answers.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::routing::post;
use local::stack::INPUT_QUEUE;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::TcpListener;

use crate::events::{body, failures};
use crate::rig::{Setup, lock, served, workload};

/// A span of the file.
#[derive(Debug)]
struct Span {
    service: String,
    name: String,
    trace: String,
    id: String,
    parent: String,
    /// The ids of traces and spans.
    links: BTreeSet<(String, String)>,
    attributes: BTreeMap<String, Value>,
}

impl Span {
    fn ids(&self) -> (String, String) {
        (self.trace.clone(), self.id.clone())
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn attributes(of: &Value) -> BTreeMap<String, Value> {
    let attributes = of["attributes"].as_array().into_iter().flatten();
    let pair = |attribute: &Value| {
        let value = attribute["value"].as_object().expect("a value");
        let value = value.values().next().expect("a value of some kind");
        (text(&attribute["key"]), value.clone())
    };
    attributes.map(pair).collect()
}

/// Returns the spans of a file with one export in each line.
fn read(file: &Path) -> Vec<Span> {
    let written = std::fs::read_to_string(file).expect("the collector made the file");
    let mut spans = Vec::new();
    for line in written.lines() {
        let export: Value = serde_json::from_str(line).expect("a line is JSON");
        for of_resource in export["resourceSpans"].as_array().expect("resources") {
            let service = attributes(&of_resource["resource"])["service.name"].clone();
            let scopes = of_resource["scopeSpans"].as_array().expect("scopes");
            let of_scopes = scopes.iter().flat_map(|scope| scope["spans"].as_array());
            spans.extend(of_scopes.flatten().map(|span| {
                let links = span["links"].as_array().into_iter().flatten();
                let links = links.map(|link| (text(&link["traceId"]), text(&link["spanId"])));
                Span {
                    service: text(&service),
                    name: text(&span["name"]),
                    trace: text(&span["traceId"]),
                    id: text(&span["spanId"]),
                    parent: text(&span["parentSpanId"]),
                    links: links.collect(),
                    attributes: attributes(span),
                }
            }));
        }
    }
    spans
}

fn of<'a>(spans: &'a [Span], service: &str, name: &str) -> Vec<&'a Span> {
    let wanted = |span: &&Span| span.service == service && span.name == name;
    spans.iter().filter(wanted).collect()
}

fn all_links(spans: &[&Span]) -> BTreeSet<(String, String)> {
    spans.iter().flat_map(|span| span.links.clone()).collect()
}

/// A sink that keeps the `traceparent` of each request. Returns its URL, and what it keeps.
async fn sink() -> (String, Arc<Mutex<BTreeSet<String>>>) {
    let parents = Arc::new(Mutex::new(BTreeSet::new()));
    let take = |State(parents): State<Arc<Mutex<BTreeSet<String>>>>, headers: HeaderMap| async move {
        let parent = headers["traceparent"].to_str().expect("it is text");
        lock(&parents).insert(parent.to_owned());
    };
    let router = Router::new()
        .route("/", post(take))
        .with_state(Arc::clone(&parents));
    (served(router).await + "/", parents)
}

/// Returns a setup whose spans go to a file, and the file's directory.
fn traced() -> (Setup, TempDir) {
    let directory = tempfile::tempdir().expect("a temporary directory can be made");
    let mut setup = Setup::new();
    setup.options.traces = Some(directory.path().join("traces.jsonl"));
    (setup, directory)
}

/// Checks that every step of the batch-processor is below an invocation that is linked: of a delivery to the aggregator, and of a
/// second look at a batch to the first.
fn follow_back(spans: &[Span]) {
    let of_service = |service| {
        let spans = spans.iter().filter(move |span| span.service == service);
        spans.map(Span::ids).collect::<BTreeSet<_>>()
    };
    let of_aggregator = of_service("aggregator");
    let of_processor = of_service("batch-processor");
    let delivering = of(spans, "batch-processor", "process batch-queue");
    for step in [
        "lease", "look", "collect", "freeze", "deliver", "release", "complete",
    ] {
        let steps = of(spans, "batch-processor", step);
        assert!(!steps.is_empty(), "{step}");
        for span in steps {
            let root = delivering.iter().find(|root| root.id == span.parent);
            let root = root.expect("the span of the invocation");
            assert_eq!(root.trace, span.trace);
            let links = &root.links;
            let followed = match step {
                "deliver" => links.is_subset(&of_aggregator),
                _ => links.is_disjoint(&of_aggregator) != links.is_disjoint(&of_processor),
            };
            assert!(followed && !root.links.is_empty(), "{root:?}");
            assert!(span.attributes.contains_key("batch_aggregator.batch.id"));
        }
    }
}

#[tokio::test]
async fn links_lead_from_the_sink_back_to_every_producer() {
    let (setup, directory) = traced();
    let (url, sink_parents) = sink().await;
    // A sweep might send a ticket of its own on a slow machine, as a seal does.
    let setup = setup.var("SINK", url).window(1).without_sweep();
    let rig = setup.start().await;
    rig.traced_burst(&workload(1, 60, 0.0)).await;
    rig.until_drained().await;
    rig.end().await;

    let spans = read(&directory.path().join("traces.jsonl"));
    let sent = of(&spans, "producer", "send input-queue");
    assert!(sent.len() >= 6, "requests of at most ten messages");
    let claiming = of(&spans, "aggregator", "process input-queue");
    let producers: BTreeSet<_> = sent.iter().map(|span| span.ids()).collect();
    assert_eq!(all_links(&claiming), producers);
    let received = claiming.iter().map(|span| {
        let count = text(&span.attributes["messaging.batch.message_count"]);
        count.parse::<u64>().expect("a number")
    });
    assert_eq!(received.sum::<u64>(), 60);

    follow_back(&spans);
    for (step, parents) in [
        ("claim", &claiming),
        ("open", &claiming),
        ("ticket", &of(&spans, "aggregator", "open")),
    ] {
        let steps = of(&spans, "aggregator", step);
        assert!(!steps.is_empty(), "{step}");
        let is_below = |span: &&Span| parents.iter().any(|parent| parent.id == span.parent);
        assert!(steps.iter().all(is_below), "{step}: {steps:?}");
    }

    let deliveries = of(&spans, "batch-processor", "deliver");
    let expected = deliveries.iter();
    let expected = expected.map(|span| format!("00-{}-{}-01", span.trace, span.id));
    assert_eq!(*lock(&sink_parents), expected.collect());
}

#[tokio::test]
async fn links_beyond_the_limit_are_counted() {
    let (setup, directory) = traced();
    let rig = setup.start().await;
    let source = rig.stack.sqs.arn(INPUT_QUEUE);
    let records = (0..300).map(|number| {
        // Two messages of each of 150 producers.
        let header = format!("Root=1-5759e988-{:024x};Parent={:016x}", 1, number / 2 + 1);
        json!({
            "messageId": format!("m-{number}"),
            "body": body(&format!("e{number}")),
            "attributes": { "SentTimestamp": "1700000000000", "AWSTraceHeader": header },
            "eventSourceARN": source,
        })
    });
    let event = json!({ "Records": Vec::from_iter(records) }).to_string();
    let failed = failures(&rig, &rig.stack.aggregator, event.into()).await;
    assert!(failed.is_empty());
    rig.until_drained().await;
    rig.end().await;
    let spans = read(&directory.path().join("traces.jsonl"));
    let claiming = of(&spans, "aggregator", "process input-queue");
    let [span] = &claiming[..] else {
        panic!("one invocation: {claiming:?}");
    };
    assert_eq!(span.links.len(), 128);
    let dropped = &span.attributes["batch_aggregator.links_dropped_count"];
    assert_eq!(dropped, "22");
}

#[tokio::test]
async fn an_endpoint_that_never_answers_changes_nothing_but_the_log() {
    // It accepts connections, because the kernel does, and nothing reads from them.
    let silent = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = silent.local_addr().expect("it is bound");
    let endpoint = format!("http://{address}");
    let setup = Setup::new().var("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint);
    let rig = setup.start().await;
    rig.burst(&workload(2, 60, 10.0)).await;
    rig.until_drained().await;
    rig.until_complained("spans not exported").await;
    assert_eq!(rig.delivered().len(), 54);
    rig.end().await;
    drop(silent);
}

#[tokio::test]
async fn wrong_variables_of_traces_change_nothing_but_the_log() {
    let rig = Setup::new()
        .var("OTEL_EXPORTER_OTLP_ENDPOINT", "no address at all")
        .var("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip")
        .start()
        .await;
    rig.burst(&workload(3, 20, 0.0)).await;
    rig.until_drained().await;
    assert!(rig.has_complained("no traces"));
    assert_eq!(rig.delivered().len(), 20);
    rig.end().await;
}
