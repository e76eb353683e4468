use shared::memory::noise;

use super::*;
use crate::config::tests_support::config;

fn read_bodies(config: &Config, messages: serde_json::Value) -> Vec<Record> {
    let event = serde_json::json!({ "Records": messages }).to_string();
    read(
        serde_json::from_str(&event).unwrap(),
        config,
        Timestamp::from_ms(5),
    )
    .unwrap()
}

fn reason(record: &Record) -> String {
    record.content.as_ref().unwrap_err().reason.to_string()
}

#[test]
fn a_bad_message_is_named_and_leaves_its_neighbours_alone() {
    let config = config(&[("EVENT_ID", "json:id")]);
    let records = read_bodies(
        &config,
        serde_json::json!([
            { "messageId": "m0", "body": r#"{"id":"e0"}"#, "eventSourceARN": "arn:q" },
            { "messageId": "m1", "body": "not json" },
            { "messageId": "m2", "body": r#"{"no":"id"}"# },
            { "messageId": "m3" },
            { "messageId": "m4", "body": format!(r#"{{"id":"e4","pad":"{}"}}"#, noise(600_000)) },
            { "messageId": "m5", "body": format!(r#"{{"id":"{}"}}"#, "x".repeat(2_049)) },
            { "messageId": "m6", "body": r#"{"id":"e6"}"#, "attributes": { "SentTimestamp": "77" } },
        ]),
    );
    let good = |index: usize| records[index].content.as_ref().unwrap();
    assert_eq!(good(0).candidate.event_id.as_str(), "e0");
    assert_eq!(good(0).slot.source.as_str(), "arn:q");
    assert_eq!(good(0).candidate.sent_at, Timestamp::from_ms(5));
    assert_eq!(good(6).candidate.sent_at, Timestamp::from_ms(77));
    assert!(reason(&records[1]).starts_with("body is not JSON, which `EVENT_ID` needs"));
    assert_eq!(reason(&records[2]), "`EVENT_ID`: `id` finds nothing");
    assert_eq!(reason(&records[3]), "message has no body");
    assert!(reason(&records[4]).contains("at most 409600 can be stored"));
    assert_eq!(
        records[4]
            .content
            .as_ref()
            .unwrap_err()
            .event_id
            .as_ref()
            .unwrap()
            .as_str(),
        "e4"
    );
    assert_eq!(
        reason(&records[5]),
        "event id: too long: got 2049 bytes, expected at most 2048"
    );
}

#[test]
fn a_message_without_an_id_fails_the_event_because_it_cannot_be_named() {
    let event =
        serde_json::json!({ "Records": [{ "messageId": "m0", "body": "" }, { "body": "x" }] });
    let event = serde_json::from_value(event).unwrap();
    let error = read(event, &config(&[]), Timestamp::EPOCH).unwrap_err();
    assert_eq!(error.index, 1);
}

#[test]
fn every_rule_finds_its_id() {
    let message = serde_json::json!([{
        "messageId": "m0",
        "body": r#"{"customer":"c","day":3}"#,
        "messageAttributes": { "order": { "dataType": "String", "stringValue": "o7",
            "stringListValues": [], "binaryListValues": [] } },
    }]);
    let id = |rule: &str| {
        let config = config(&[("EVENT_ID", rule), ("EVENT_ID_PREFIX", "t1-")]);
        let records = read_bodies(&config, message.clone());
        records[0]
            .content
            .as_ref()
            .unwrap()
            .candidate
            .event_id
            .to_string()
    };
    assert_eq!(id("message-id"), "t1-m0");
    assert_eq!(id("attribute:order"), "t1-o7");
    assert_eq!(id("json:[customer, day]"), "t1-c|3");
    assert_eq!(
        id("body-hash"),
        format!("t1-{}", BodyHash::of(br#"{"customer":"c","day":3}"#))
    );
    let missing = config(&[("EVENT_ID", "attribute:none")]);
    assert!(reason(&read_bodies(&missing, message.clone())[0]).contains("no attribute `none`"));
}

#[test]
fn ids_are_of_all_sources_unless_the_prefix_names_the_source() {
    let message = |source: &str| serde_json::json!({ "messageId": "m0", "body": "{}", "eventSourceARN": source });
    let event = serde_json::json!({ "Records": [message("arn:a"), message("arn:b")] });
    let ids = |prefix: &str| -> Vec<String> {
        let event = serde_json::from_value(event.clone()).unwrap();
        let config = config(&[("EVENT_ID_PREFIX", prefix)]);
        let records = read(event, &config, Timestamp::EPOCH).unwrap();
        let id = |record: &Record| {
            record
                .content
                .as_ref()
                .unwrap()
                .candidate
                .event_id
                .to_string()
        };
        records.iter().map(id).collect()
    };
    assert_eq!(ids("t-"), ["t-m0", "t-m0"]);
    assert_eq!(ids("{source}/"), ["arn:a/m0", "arn:b/m0"]);
}

#[test]
fn a_batch_key_makes_a_slot_of_its_own() {
    let config = config(&[("BATCH_KEY", "customer")]);
    let records = read_bodies(
        &config,
        serde_json::json!([
            { "messageId": "m0", "body": r#"{"customer":"a"}"# },
            { "messageId": "m1", "body": "{}" },
        ]),
    );
    assert_eq!(
        records[0]
            .content
            .as_ref()
            .unwrap()
            .slot
            .key
            .as_ref()
            .unwrap()
            .as_str(),
        "a"
    );
    assert_eq!(reason(&records[1]), "`BATCH_KEY`: `customer` finds nothing");
}
