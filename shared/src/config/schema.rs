//! The JSON Schema of the configuration file.

use serde_json::{Map, Value, json};

use super::variable::Description;

/// The sections of the file, each with what it is about.
pub const SECTIONS: [(&str, &str); 9] = [
    ("events", "What makes two messages the same event."),
    ("batches", "How batches are filled, and when they start."),
    ("quota", "How many events of a key are delivered."),
    ("delivery", "When parts go to the sink, and how fast."),
    ("sink", "Where parts go, and in which form."),
    (
        "sink.layout",
        "How records are laid out in a file: encoding, header and trailer, path.",
    ),
    (
        "answers",
        "What the consumer answers about delivered events.",
    ),
    (
        "limits",
        "How requests are sent, and how much is held in memory.",
    ),
    ("logs", "What is logged, and how."),
];

/// Returns the JSON Schema of a file with these settings.
pub fn schema<'d>(variables: impl IntoIterator<Item = &'d Description>) -> Value {
    let mut root = section("The configuration file of both functions.");
    root["$schema"] = json!("https://json-schema.org/draft/2020-12/schema");
    for (name, about) in SECTIONS {
        *at(&mut root, name) = section(about);
    }
    for variable in variables {
        let Some(key) = variable.key else { continue };
        let mut value = variable.schema.clone();
        value["description"] = json!(format!("{} (`{}`)", variable.meaning, variable.name));
        *at(&mut root, key) = value;
    }
    root
}

fn section(about: &str) -> Value {
    json!({
        "description": about,
        "type": "object",
        "additionalProperties": false,
        "properties": Map::new(),
    })
}

/// Returns the schema of a key.
fn at<'v>(root: &'v mut Value, key: &str) -> &'v mut Value {
    key.split('.')
        .fold(root, |section, name| &mut section["properties"][name])
}
