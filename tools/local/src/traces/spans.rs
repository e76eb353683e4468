//! Reads the spans of a file.

use std::io::BufRead as _;
use std::path::Path;

use anyhow::Context as _;
use serde_json::Value;

/// A span, with what the picture shows of it.
#[derive(Debug, Default)]
pub(super) struct Span {
    pub(super) service: String,
    pub(super) name: String,
    pub(super) id: String,
    pub(super) parent: String,
    pub(super) began_ns: u64,
    pub(super) ended_ns: u64,
    /// The ids of linked spans.
    pub(super) links: Vec<String>,
    /// The number of messages or events that the span is about.
    pub(super) items: Option<u64>,
}

/// Returns the spans of a file, in any order.
///
/// # Errors
/// The file cannot be read, or a line of it is no export of spans.
pub(super) fn read(path: &Path) -> anyhow::Result<Vec<Span>> {
    let named = || path.display().to_string();
    let file = std::fs::File::open(path).with_context(named)?;
    let mut spans = Vec::new();
    for (number, line) in std::io::BufReader::new(file).lines().enumerate() {
        let export: Value = serde_json::from_str(&line.with_context(named)?)
            .with_context(|| format!("{}: line {}: not JSON", path.display(), number + 1))?;
        for of_resource in list(&export, "resourceSpans") {
            let service = attribute(&of_resource["resource"], "service.name");
            let service = service.map_or_else(String::new, text);
            let scopes = list(of_resource, "scopeSpans");
            let found = scopes.flat_map(|scope| list(scope, "spans"));
            spans.extend(found.map(|span| of_json(&service, span)));
        }
    }
    Ok(spans)
}

fn of_json(service: &str, span: &Value) -> Span {
    let counts = [
        "messaging.batch.message_count",
        "batch_aggregator.items_count",
    ];
    let count = counts.iter().find_map(|name| attribute(span, name));
    let links = list(span, "links");
    Span {
        service: service.to_owned(),
        name: text(&span["name"]),
        id: text(&span["spanId"]),
        parent: text(&span["parentSpanId"]),
        began_ns: number(&span["startTimeUnixNano"]).unwrap_or(0),
        ended_ns: number(&span["endTimeUnixNano"]).unwrap_or(0),
        links: links.map(|link| text(&link["spanId"])).collect(),
        items: count.and_then(number),
    }
}

fn list<'a>(of: &'a Value, name: &str) -> impl Iterator<Item = &'a Value> + use<'a> {
    of[name].as_array().into_iter().flatten()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// Returns a number, which JSON of protobuf writes as a text if it has 64 bits.
fn number(value: &Value) -> Option<u64> {
    value.as_u64().or_else(|| value.as_str()?.parse().ok())
}

/// Returns the value of an attribute, of whatever type it is.
fn attribute<'a>(of: &'a Value, name: &str) -> Option<&'a Value> {
    let attribute = list(of, "attributes").find(|attribute| attribute["key"] == name)?;
    attribute["value"].as_object()?.values().next()
}
