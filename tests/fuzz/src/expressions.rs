//! `EVENT_ID` and `BATCH_KEY`: any setting over any body.

use aggregator::Config;
use aggregator::records::Record;
use aws_lambda_events::event::sqs::{SqsEvent, SqsMessage, SqsMessageAttribute};
use protocol::limits::DYNAMODB_KEY_BYTES_MAX;
use serde_json::Value;
use shared::ports::Quarantined;

use crate::config::config;
use crate::event;
use crate::grow::Choices;

const PREFIX: &str = "t1-";

/// A setting of `EVENT_ID` on the first line, a body on the others. The body is also the value of the attribute `order`.
///
/// # Panics
/// When a setting is refused without its name, or an id cannot be a key, or is not the same for the same event; when a
/// prefix does not lead it; or when a plain field is not read for what it holds.
pub fn event_id(data: &[u8]) {
    let Some((setting, body)) = input(data, |choices| choices.event_id()) else {
        return;
    };
    let (setting, body) = (setting.as_str(), body.as_str());
    let Some(config) = configured("EVENT_ID", setting) else {
        return;
    };
    let [first, again, same_body] = read(&config, body);
    assert_eq!(format!("{first:?}"), format!("{again:?}"));
    let by_message = setting.trim().is_empty() || setting.trim() == "message-id";
    let id = match (first, same_body) {
        (Ok(first), Ok(other)) => {
            let (first, other) = (first.candidate.event_id, other.candidate.event_id);
            assert_eq!(first != other, by_message, "{first} and {other}");
            Ok(first.to_string())
        }
        (Err(first), Err(other)) => {
            assert_eq!(first.reason, other.reason);
            Err(first)
        }
        (first, other) => panic!("the same body is read as {first:?} and as {other:?}"),
    };
    if let Ok(id) = &id {
        assert!((1..=DYNAMODB_KEY_BYTES_MAX).contains(&id.len()));
    }
    let prefixed = config_with("EVENT_ID", setting, &[("EVENT_ID_PREFIX", PREFIX)]);
    let [prefixed, ..] = read(&prefixed.expect("a prefix is always right"), body);
    match (&id, prefixed) {
        (Ok(id), Ok(prefixed)) => {
            assert_eq!(
                prefixed.candidate.event_id.as_str(),
                format!("{PREFIX}{id}")
            );
        }
        (Ok(id), Err(_)) => assert!(PREFIX.len() + id.len() > DYNAMODB_KEY_BYTES_MAX),
        (Err(id), Err(prefixed)) => {
            assert_eq!(id.reason, prefixed.reason);
        }
        (Err(id), Ok(prefixed)) => panic!("{id:?} has an id with a prefix: {prefixed:?}"),
    }
    if let Some(expected) = setting
        .trim()
        .strip_prefix("json:")
        .and_then(|name| field(name, body))
    {
        assert_eq!(id.ok().as_ref(), Some(&expected));
    }
}

/// A setting of `BATCH_KEY` on the first line, a body on the others.
///
/// # Panics
/// When a setting is refused without its name, or equal bodies go into different batches, or a message without a key
/// goes into any; or when a plain field is not read for what it holds.
pub fn batch_key(data: &[u8]) {
    let Some((setting, body)) = input(data, |choices| choices.expression(0)) else {
        return;
    };
    let (setting, body) = (setting.as_str(), body.as_str());
    let Some(config) = configured("BATCH_KEY", setting) else {
        return;
    };
    let [first, again, same_body] = read(&config, body);
    assert_eq!(format!("{first:?}"), format!("{again:?}"));
    let key = match (first, same_body) {
        (Ok(first), Ok(other)) => {
            assert_eq!(first.scope, other.scope);
            assert_eq!(first.scope.key.is_none(), setting.trim().is_empty());
            first.scope.key.map(|key| key.to_string())
        }
        (Err(first), Err(other)) => {
            assert_eq!(first.reason, other.reason);
            assert!(
                first.event_id.is_some(),
                "its event id can be read: {first:?}"
            );
            None
        }
        (first, other) => panic!("the same body is read as {first:?} and as {other:?}"),
    };
    if let Some(key) = &key {
        assert!((1..=1_024).contains(&key.len()));
    }
    if let Some(expected) = field(setting.trim(), body).filter(|text| text.len() <= 1_024) {
        assert_eq!(key.as_ref(), Some(&expected));
    }
}

/// The setting and the body of an input.
fn input(data: &[u8], setting: impl Fn(&mut Choices<'_>) -> String) -> Option<(String, String)> {
    if let Some(mut choices) = Choices::of(data) {
        return Some((setting(&mut choices), choices.body()));
    }
    let (setting, body) = std::str::from_utf8(data).ok()?.split_once('\n')?;
    Some((setting.to_owned(), body.to_owned()))
}

fn configured(variable: &str, setting: &str) -> Option<Config> {
    config_with(variable, setting, &[])
        .map_err(|problems| {
            let [problem] = problems.as_slice() else {
                panic!("one variable, and the problems {problems:?}");
            };
            // An empty setting is none.
            let known = ["wrong value: got `", "not set: "];
            let is_known = |words| problem.starts_with(&format!("`{variable}`: {words}"));
            assert!(known.iter().any(is_known), "{problem}");
        })
        .ok()
}

fn config_with(
    variable: &str,
    setting: &str,
    others: &[(&str, &str)],
) -> Result<Config, Vec<String>> {
    config(&[&[(variable, setting)], others].concat())
}

/// The body as it is read in one message, in the same message once more, and in another.
fn read(config: &Config, body: &str) -> [Result<Record, Quarantined>; 3] {
    let mut event = SqsEvent::default();
    for id in ["m0", "m0", "m1"] {
        let mut attribute = SqsMessageAttribute::default();
        attribute.string_value = Some(body.to_owned());
        let mut message = SqsMessage::default();
        message.message_id = Some(id.to_owned());
        message.body = Some(body.to_owned());
        message
            .message_attributes
            .insert("order".to_owned(), attribute);
        event.records.push(message);
    }
    let records = event::read(&event, config).expect("every message has a name");
    records.try_into().expect("three in, three out")
}

/// What a plain field of the body holds, by another way than the expression's: `None` where the name is no plain one,
/// the field has no text, or it makes too long an id.
fn field(name: &str, body: &str) -> Option<String> {
    let mut letters = name.trim().chars();
    let plain = letters.next().is_some_and(|c| c.is_ascii_alphabetic())
        && letters.all(|c| c.is_ascii_alphanumeric() || c == '_');
    let body: Value = plain.then(|| serde_json::from_str(body).ok())??;
    let text = match body.get(name.trim())? {
        Value::String(text) if text.is_empty() => return None,
        Value::String(text) => text.clone(),
        Value::Bool(flag) => flag.to_string(),
        Value::Number(number) if !number.is_f64() => number.to_string(),
        Value::Number(_) | Value::Null | Value::Array(_) | Value::Object(_) => return None,
    };
    (text.len() <= DYNAMODB_KEY_BYTES_MAX).then_some(text)
}
