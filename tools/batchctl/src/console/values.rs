//! Reads the JSON of commands.

use console::{Text, Tone};
use protocol::time::Timestamp;
use serde_json::Value;

use crate::times::{utc, with_distance};

/// Returns a text of an object; empty if there is none.
pub(super) fn text<'v>(of: &'v Value, name: &str) -> &'v str {
    of.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// Returns a number of an object.
pub(super) fn number(of: &Value, name: &str) -> Option<u64> {
    of.get(name)?.as_u64()
}

/// Returns a time of an object.
pub(super) fn time(of: &Value, name: &str) -> Option<Timestamp> {
    number(of, name).map(Timestamp::from_ms)
}

/// Returns the members of a list of an object.
pub(super) fn list<'v>(of: &'v Value, name: &str) -> impl Iterator<Item = &'v Value> {
    of.get(name).and_then(Value::as_array).into_iter().flatten()
}

/// Returns the values of an object with their names, as words.
pub(super) fn facts(of: &Value, now: Timestamp) -> Vec<(String, Text)> {
    let members = of.as_object().into_iter().flatten();
    let facts = members.filter_map(|(name, value)| {
        let words = match value {
            Value::Null => return None,
            Value::String(text) => text.clone(),
            // Times are epoch milliseconds, and their names say so.
            Value::Number(ms) if name.ends_with("At") || name.ends_with("Until") => {
                match Timestamp::from_ms(ms.as_u64()?) {
                    Timestamp::EPOCH => return None,
                    at => with_distance(at, now),
                }
            }
            other => other.to_string(),
        };
        Some((spaced(name), Text::from(words)))
    });
    facts.collect()
}

/// Returns a name in camel case as words.
fn spaced(name: &str) -> String {
    let mut words = String::new();
    for letter in name.chars() {
        if letter.is_uppercase() {
            words.push(' ');
        }
        words.extend(letter.to_lowercase());
    }
    words
}

/// Returns a time and its distance, for a table.
pub(super) fn at(time: Option<Timestamp>, now: Timestamp) -> Text {
    time.map_or_else(Text::default, |time| Text::from(with_distance(time, now)))
}

/// Returns a time, and what happened then or will happen.
pub(super) fn moment(time: Timestamp, what: impl Into<Text>) -> (Timestamp, String, Text) {
    (time, utc(time), what.into())
}

/// Returns moments in their order.
pub(super) fn in_order(
    mut moments: Vec<(Timestamp, String, Text)>,
    now: Timestamp,
) -> Vec<(String, Text)> {
    moments.push((now, utc(now), Text::from("now").tone(Tone::Quiet)));
    moments.sort_by_key(|(time, _, _)| *time);
    Vec::from_iter(moments.into_iter().map(|(_, at, what)| (at, what)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_are_words_with_spaced_names_and_times_with_their_distance() {
        let now = Timestamp::from_ms(1_700_000_060_000);
        let found = json!({"runs": 2, "firstEndsAt": 1_700_000_000_000_u64, "leftOutUntil": 0, "turn": null, "bodies": "log:table"});
        let facts = facts(&found, now);
        let words = facts
            .iter()
            .map(|(name, value)| (name.as_str(), value.words.as_str()));
        let expected = [
            ("bodies", "log:table"),
            ("first ends at", "2023-11-14 22:13:20Z (1 min 0 s ago)"),
            ("runs", "2"),
        ];
        let mut words = Vec::from_iter(words);
        words.sort_unstable();
        assert_eq!(words, expected);
    }
}
