//! The pages of batches.

use console::{Address, Content, Field, FieldKind, Page, Search, Table, Text, Tone};
use protocol::time::Timestamp;
use serde_json::Value;
use sinks::percent_encoded;

use super::runbook;
use super::values::{at, in_order, list as members, moment, number, text, time};
use super::verbs::link;
use crate::times::{brief, with_distance};
use crate::waiting::Reason;

/// The options of `list` that the page has fields for.
pub(super) const FILTERS: [&str; 6] = [
    "status",
    "source",
    "key",
    "error",
    "older-than",
    "younger-than",
];

/// Without `complete`, for which the whole table would be read again and again.
const STATES: [&str; 7] = [
    "",
    "open",
    "sealed",
    "processing",
    "overdue",
    "error",
    "unnoticed",
];

/// Returns the page of the batches that a filter selects.
pub(super) fn list(found: &Value, address: &Address, now: Timestamp) -> Page {
    let matching = number(found, "matching").unwrap_or_default();
    let rows = Vec::from_iter(members(found, "batches").map(|batch| row(batch, now)));
    let shown = rows.len() as u64;
    let count = match matching > shown {
        true => format!("{matching} batches; the oldest {shown} are shown"),
        false => format!("{matching} batches"),
    };
    let table = Table {
        columns: [
            "Batch",
            "Status",
            "Opened",
            "Due",
            "Source",
            "Key",
            "Events",
            "Delivered",
            "Tries",
            "Why it waits",
        ]
        .map(str::to_owned)
        .to_vec(),
        rows,
        empty: "No batch is selected.".to_owned(),
    };
    let mut notes = vec![Text::from(count).tone(Tone::Quiet)];
    let malformed = members(found, "malformed").filter_map(Value::as_str);
    notes.extend(
        malformed.map(|error| Text::from(format!("not readable: {error}")).tone(Tone::Bad)),
    );
    Page::new("Batches")
        .with("", Content::Search(search(address)))
        .with("", Content::Notes(notes))
        .with("", Content::Table(table))
        .with("", Content::Verbs(bulk(address)))
}

fn search(address: &Address) -> Search {
    let value = |name: &str| address.field(name).unwrap_or_default().to_owned();
    let field =
        |name: &str, label: &str, about: &str| Field::text(name, label, about).with(value(name));
    let states = FieldKind::Choice(STATES.map(str::to_owned).to_vec());
    Search {
        path: "/batches".to_owned(),
        fields: vec![
            field("status", "Status", "").of_kind(states),
            field("source", "Source", ""),
            field("key", "Batch key", ""),
            field("error", "Error has", ""),
            field("older-than", "Older than", ""),
        ],
        button: "Select".to_owned(),
    }
}

/// Returns links to what can be done with all selected batches.
fn bulk(address: &Address) -> Vec<Text> {
    let fields = FILTERS.iter().filter_map(|name| {
        let value = address.field(name)?;
        Some(format!(
            "{}={}",
            name.replace('-', "_"),
            percent_encoded(value)
        ))
    });
    let fields = Vec::from_iter(fields).join("&");
    match fields.is_empty() {
        true => Vec::new(),
        false => vec![
            link("retry", "Retry these", &fields),
            link("discard", "Discard these", &fields),
        ],
    }
}

fn row(batch: &Value, now: Timestamp) -> Vec<Text> {
    let id = text(batch, "batchId");
    let status = text(batch, "status");
    let ends = matches!(status, "error" | "complete");
    let due = time(batch, "dueAt")
        .filter(|_| !ends)
        .map_or("-".to_owned(), |due| match due < now {
            true => format!("{} ago", brief(due.until(now))),
            false => format!("in {}", brief(now.until(due))),
        });
    let opened = time(batch, "createdAt")
        .map_or(String::new(), |at| format!("{} ago", brief(at.until(now))));
    let source = text(batch, "source").rsplit(':').next().unwrap_or_default();
    let events = match number(batch, "reserved") {
        Some(reserved) => format!("{reserved} reserved"),
        None => number(batch, "confirmed").unwrap_or_default().to_string(),
    };
    let count = |name| number(batch, name).unwrap_or_default().to_string();
    vec![
        Text::link(id, format!("/batch?id={id}")).tone(Tone::Code),
        state(batch),
        Text::from(opened),
        Text::from(due),
        Text::from(source),
        Text::from(text(batch, "batchKey")),
        Text::from(events),
        Text::from(count("delivered")),
        Text::from(count("attempts")),
        why(batch, now),
    ]
}

fn state(batch: &Value) -> Text {
    let status = text(batch, "status");
    let overdue = batch.get("overdue").and_then(Value::as_bool) == Some(true);
    match (status, overdue) {
        ("error", _) => Text::from(status).tone(Tone::Bad),
        (_, true) => Text::from(format!("{status}, overdue")).tone(Tone::Warning),
        ("complete", _) => Text::from(status).tone(Tone::Good),
        _ => Text::from(status),
    }
}

/// Returns why a batch makes no progress.
fn why(batch: &Value, now: Timestamp) -> Text {
    let error = text(batch, "error");
    if !error.is_empty() {
        return Text::from(error).tone(Tone::Bad);
    }
    if let Some(failure) = batch.get("lastFailure") {
        return Text::from(text(failure, "text")).tone(Tone::Warning);
    }
    waits(batch, now).unwrap_or_default()
}

fn waits(batch: &Value, now: Timestamp) -> Option<Text> {
    let waits = batch.get("waits")?;
    let what: Reason = serde_json::from_value(waits.get("for")?.clone()).ok()?;
    let until = time(waits, "until")?;
    Some(Text::from(format!(
        "waits for {what}, until {}",
        with_distance(until, now)
    )))
}

/// Returns the page of a batch.
pub(super) fn one(found: &Value, now: Timestamp) -> Page {
    let id = text(found, "batchId");
    let mut page = Page::new(format!("Batch {id}"));
    let error = text(found, "error");
    if !error.is_empty() {
        page = page.with(
            "Error",
            Content::Notes(vec![Text::from(error).tone(Tone::Bad)]),
        );
    }
    page = page
        .with("", Content::Facts(facts(found, now)))
        .with("Life", Content::Times(in_order(life(found), now)))
        .with("Parts", Content::Table(parts(found, now)))
        .with("What operators did", Content::Table(notes(found, now)))
        .with("", Content::Verbs(actions(id)));
    let known = [("BATCH", id)];
    match incident(found).and_then(runbook::section) {
        Some((title, text)) => runbook::add(page, &format!("Runbook: {title}"), &text, &known),
        None => page,
    }
}

/// Returns the section of the runbook about what is wrong with a batch.
fn incident(found: &Value) -> Option<&'static str> {
    let overdue = found.get("overdue").and_then(Value::as_bool);
    match found.get("lastFailure") {
        _ if !text(found, "error").is_empty() => Some("batchesinerror"),
        _ if text(found, "status") == "complete" => None,
        Some(_) => Some("batchqueueretries"),
        None => (overdue == Some(true)).then_some("batchesoverdue"),
    }
}

fn actions(id: &str) -> Vec<Text> {
    vec![
        link("approve", "Approve", &format!("batches={id}")),
        link("retry", "Retry", &format!("batches={id}")),
        link("discard", "Discard", &format!("batches={id}")),
        link("replay", "Replay", &format!("batch={id}")),
        link(
            "rejects",
            "Redrive rejects",
            &format!("batches={id}&redrive=yes"),
        ),
    ]
}

fn facts(found: &Value, now: Timestamp) -> Vec<(String, Text)> {
    let mut facts = vec![
        ("status".to_owned(), state(found)),
        ("source".to_owned(), Text::from(text(found, "source"))),
    ];
    let mut add = |name: &str, value: Option<Text>| {
        facts.extend(
            value
                .filter(|value| !value.words.is_empty())
                .map(|value| (name.to_owned(), value)),
        );
    };
    add("batch key", Some(Text::from(text(found, "batchKey"))));
    add("waits", waits(found, now));
    if let Some(lease) = found.get("lease") {
        let until = at(time(lease, "until"), now).words;
        add(
            "lease",
            Some(Text::from(format!(
                "{} until {until}",
                text(lease, "owner")
            ))),
        );
    }
    if let Some(failure) = found.get("lastFailure") {
        let when = at(time(failure, "at"), now).words;
        let words = format!("{when}: {}", text(failure, "text"));
        add("last failure", Some(Text::from(words).tone(Tone::Warning)));
    }
    add(
        "set aside because",
        Some(Text::from(text(found, "quarantine"))),
    );
    let counts = found.get("counts").cloned().unwrap_or_default();
    for (name, member) in [
        ("reserved seats", "reserved"),
        ("claimed", "confirmed"),
        ("uncertain", "uncertain"),
        ("witnessed", "witnessed"),
        ("in parts", "inParts"),
        ("set aside", "setAside"),
        ("in no part", "missing"),
    ] {
        add(
            name,
            number(&counts, member).map(|count| Text::from(count.to_string())),
        );
    }
    for name in ["delivered", "rejected", "attempts"] {
        add(
            name,
            number(found, name).map(|count| Text::from(count.to_string())),
        );
    }
    add("bodies", Some(Text::from(text(found, "bodies"))));
    facts
}

fn life(found: &Value) -> Vec<(Timestamp, String, Text)> {
    let moments = [
        ("createdAt", "opened"),
        ("sealedAt", "sealed"),
        ("closesAt", "its window closes"),
        ("dueAt", "due"),
        ("verifyAt", "another look for late claims"),
        ("completedAt", "complete"),
        ("expiresAt", "its record expires"),
    ];
    let ended = found.get("completedAt").is_some();
    let moments = moments
        .into_iter()
        .filter(|(name, _)| !(ended && *name == "dueAt"));
    let moments = moments.filter_map(|(name, what)| Some(moment(time(found, name)?, what)));
    let delivered = members(found, "partList").filter_map(|part| {
        let number = number(part, "part")?;
        Some(moment(
            time(part, "deliveredAt")?,
            format!("part {number} delivered"),
        ))
    });
    let notes = members(found, "notes").filter_map(|note| {
        let words = format!(
            "{} by {}: {}",
            text(note, "action"),
            text(note, "by"),
            text(note, "why")
        );
        Some(moment(time(note, "at")?, words))
    });
    moments.chain(delivered).chain(notes).collect()
}

fn parts(found: &Value, now: Timestamp) -> Table {
    let rows = members(found, "partList").map(|part| {
        let count = |name| Text::from(number(part, name).unwrap_or_default().to_string());
        vec![
            count("part"),
            Text::from(text(part, "state")),
            count("events"),
            count("rejected"),
            at(time(part, "deliveredAt"), now),
            Text::from(text(part, "receipt")),
            Text::from(text(part, "sink")),
        ]
    });
    Table {
        rows: rows.collect(),
        columns: [
            "Part",
            "State",
            "Events",
            "Rejected",
            "Delivered",
            "Receipt",
            "Sink",
        ]
        .map(str::to_owned)
        .to_vec(),
        empty: "It has no part yet.".to_owned(),
    }
}

fn notes(found: &Value, now: Timestamp) -> Table {
    let rows = members(found, "notes").map(|note| {
        vec![
            at(time(note, "at"), now),
            Text::from(text(note, "by")),
            Text::from(text(note, "action")),
            Text::from(text(note, "why")),
        ]
    });
    Table {
        rows: rows.collect(),
        columns: ["When", "Who", "What", "Why"].map(str::to_owned).to_vec(),
        empty: "Nothing.".to_owned(),
    }
}
