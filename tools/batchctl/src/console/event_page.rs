//! The page of an event.

use console::{Address, Content, Field, FieldKind, Page, Search, Text, Tone};
use protocol::time::Timestamp;
use serde_json::Value;
use sinks::percent_encoded;

use super::values::{in_order, list, moment, number, text, time};
use super::verbs::link;

/// Returns the page that asks for an event id.
pub(super) fn search(address: &Address) -> Page {
    let value = |name| address.field(name).unwrap_or_default();
    let fields = vec![
        Field::text(
            "id",
            "Event id",
            "Without EVENT_ID_PREFIX, unless it is exact",
        )
        .with(value("id")),
        Field::text("source", "Source", "ARN, if the prefix has {source}").with(value("source")),
        Field::text("exact", "Exact", "")
            .of_kind(FieldKind::Check)
            .with(value("exact")),
    ];
    Page::new("Event").with(
        "",
        Content::Search(Search {
            path: "/event".to_owned(),
            fields,
            button: "Find".to_owned(),
        }),
    )
}

/// Returns what became of an event.
pub(super) fn one(found: &Value, address: &Address, now: Timestamp) -> Page {
    let id = text(found, "eventId");
    let state = text(found, "state");
    let tone = match state {
        "delivered" => Tone::Good,
        "unclear" | "orphan" | "setAside" | "rejected" => Tone::Warning,
        _ => Tone::Plain,
    };
    let mut facts = vec![
        ("event".to_owned(), Text::from(id).tone(Tone::Code)),
        ("state".to_owned(), Text::from(state).tone(tone)),
    ];
    if let Some(message) = found.get("sqsMessageId").and_then(Value::as_str) {
        facts.push((
            "claimed by message".to_owned(),
            Text::from(message).tone(Tone::Code),
        ));
    }
    let batch = text(found, "batchId");
    if !batch.is_empty() {
        let words = format!("{batch} ({})", text(found, "batchStatus"));
        facts.push((
            "batch".to_owned(),
            Text::link(words, format!("/batch?id={batch}")),
        ));
    }
    if let Some(seat) = number(found, "seq") {
        facts.push(("seat".to_owned(), Text::from(seat.to_string())));
    }
    let error = text(found, "batchError");
    if !error.is_empty() {
        facts.push((
            "error of the batch".to_owned(),
            Text::from(error).tone(Tone::Bad),
        ));
    }
    let parts = Vec::from_iter(list(found, "parts").map(Value::to_string));
    let part = match parts.len() {
        0 => None,
        1 => Some(parts.join("")),
        _ => Some(format!("one of {}", parts.join(", "))),
    };
    facts.extend(part.map(|part| ("part".to_owned(), Text::from(part))));
    if let Some(count) = number(found, "pastDeliveries").filter(|count| *count > 0) {
        let words = Text::from(format!("{count}, remembered too"));
        facts.push(("deliveries of other messages".to_owned(), words));
    }
    let moments = [
        ("deliveredAt", "delivered"),
        ("rememberedUntil", "its id is remembered until then"),
    ];
    let moments = moments
        .into_iter()
        .filter_map(|(name, what)| Some(moment(time(found, name)?, what)));
    let forget = link(
        "forget",
        "Forget it",
        &format!("event_id={}&exact=yes", percent_encoded(id)),
    );
    let mut page = search(address);
    page.sections.push(console::Section {
        title: "What became of it".to_owned(),
        content: Content::Facts(facts),
    });
    page.with("When", Content::Times(in_order(moments.collect(), now)))
        .with("", Content::Verbs(vec![forget]))
}
