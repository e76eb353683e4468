use shared::memory::noise;

use super::*;
use crate::config::tests_support::config;

fn read_bodies(config: &Config, messages: serde_json::Value) -> Vec<Result<Record, Quarantined>> {
    let event = serde_json::json!({ "Records": messages }).to_string();
    let event = serde_json::from_str(&event).unwrap();
    read(event, config, Timestamp::from_ms(5)).unwrap()
}

fn reason(record: &Result<Record, Quarantined>) -> &str {
    &record.as_ref().unwrap_err().reason
}

fn event_id(record: &Result<Record, Quarantined>) -> &str {
    record.as_ref().unwrap().candidate.event_id.as_str()
}

#[test]
fn a_bad_message_is_named_and_leaves_its_neighbours_alone() {
    let config = config(&[("EVENT_ID", "json:id")]);
    let messages = serde_json::json!([
        { "messageId": "m0", "body": r#"{"id":"e0"}"#, "eventSourceARN": "arn:q" },
        { "messageId": "m1", "body": "not json" },
        { "messageId": "m2", "body": r#"{"no":"id"}"# },
        { "messageId": "m3" },
        { "messageId": "m4", "body": format!(r#"{{"id":"e4","pad":"{}"}}"#, noise(600_000)) },
        { "messageId": "m5", "body": format!(r#"{{"id":"{}"}}"#, "x".repeat(2_049)) },
        { "messageId": "m6", "body": r#"{"id":"e6"}"#, "attributes": { "SentTimestamp": "77" } },
    ]);
    let records = read_bodies(&config, messages);
    let good = |index: usize| records[index].as_ref().unwrap();
    assert_eq!(good(0).candidate.event_id.as_str(), "e0");
    assert_eq!(good(0).scope.source.as_str(), "arn:q");
    assert_eq!(good(0).candidate.sent_at, Timestamp::from_ms(5));
    assert_eq!(good(6).candidate.sent_at, Timestamp::from_ms(77));
    assert!(reason(&records[1]).starts_with("body: not JSON, which `EVENT_ID` needs"));
    assert_eq!(
        reason(&records[2]),
        "`EVENT_ID`: `id`: found nothing, expected a string, a whole number, a boolean, or a list of these"
    );
    assert_eq!(reason(&records[3]), "message: got no body, expected one");
    assert!(reason(&records[4]).contains("expected at most 409600"));
    let bad = records[4].as_ref().unwrap_err();
    assert_eq!(bad.event_id, "e4".parse().ok());
    let words = "event id: too long: got 2049 bytes, expected at most 2048";
    assert_eq!(reason(&records[5]), words);
}

#[test]
fn a_body_may_be_nested_in_127_levels_and_the_reason_of_a_deeper_one_says_so() {
    let config = config(&[("EVENT_ID", "json:id")]);
    let nested = |levels: usize| {
        // The object is a level too.
        let (open, close) = ("[".repeat(levels - 1), "]".repeat(levels - 1));
        let body = format!(r#"{{"id":"e0","deep":{open}{close}}}"#);
        let message = serde_json::json!([{ "messageId": "m0", "body": body }]);
        read_bodies(&config, message).remove(0)
    };
    assert!(nested(127).is_ok());
    assert_eq!(
        reason(&nested(128)),
        "body: nested too deeply for `EVENT_ID`: got more than 127 levels of lists and objects, expected at most 127"
    );
}

#[test]
fn a_load_takes_a_body_that_no_item_takes() {
    let large = noise(1_000_000);
    for (bodies, fits) in [("items", false), ("log:table", true)] {
        let config = config(&[
            ("EVENT_ID", "message-id"),
            ("BODIES", bodies),
            ("QUARANTINE_SQS_URL", "http://sqs/quarantine"),
        ]);
        let messages = serde_json::json!([{ "messageId": "m0", "body": large }]);
        assert_eq!(read_bodies(&config, messages)[0].is_ok(), fits, "{bodies}");
    }
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
        event_id(&records[0]).to_owned()
    };
    assert_eq!(id("message-id"), "t1-m0");
    assert_eq!(id("attribute:order"), "t1-o7");
    assert_eq!(id("json:[customer, day]"), "t1-c|3");
    let hash = BodyHash::of(br#"{"customer":"c","day":3}"#);
    assert_eq!(id("body-hash"), format!("t1-{hash}"));
    let missing = config(&[("EVENT_ID", "attribute:none")]);
    let records = read_bodies(&missing, message.clone());
    assert!(reason(&records[0]).contains("attribute `none`: missing"));
}

#[test]
fn ids_are_of_all_sources_unless_the_prefix_names_the_source() {
    let message = |source: &str| serde_json::json!({ "messageId": "m0", "body": "{}", "eventSourceARN": source });
    let event = serde_json::json!({ "Records": [message("arn:a"), message("arn:b")] });
    let ids = |prefix: &str| -> Vec<String> {
        let event = serde_json::from_value(event.clone()).unwrap();
        let config = config(&[("EVENT_ID_PREFIX", prefix)]);
        let records = read(event, &config, Timestamp::EPOCH).unwrap();
        records.iter().map(|one| event_id(one).to_owned()).collect()
    };
    assert_eq!(ids("t-"), ["t-m0", "t-m0"]);
    assert_eq!(ids("{source}/"), ["arn:a/m0", "arn:b/m0"]);
}

#[test]
fn a_batch_key_makes_a_scope_of_its_own() {
    let config = config(&[("BATCH_KEY", "customer")]);
    let messages = serde_json::json!([
        { "messageId": "m0", "body": r#"{"customer":"a"}"# },
        { "messageId": "m1", "body": "{}" },
    ]);
    let records = read_bodies(&config, messages);
    assert_eq!(records[0].as_ref().unwrap().scope.key, "a".parse().ok());
    assert_eq!(
        reason(&records[1]),
        "`BATCH_KEY`: `customer`: found nothing, expected a string, a whole number, a boolean, or a list of these"
    );
}

#[test]
fn what_is_needed_of_a_message_is_read_and_nulls_are_nothing() {
    let config = config(&[("EVENT_ID", "message-id")]);
    let messages = serde_json::json!([
        {
            "messageId": "m0", "receiptHandle": "r", "body": "b", "md5OfBody": null, "new": {},
            "attributes": { "SenderId": "s", "SentTimestamp": "soon", "MessageGroupId": "g" },
            "messageAttributes": { "n": { "stringValue": "v", "dataType": "String" } },
            "eventSourceARN": "",
        },
        {
            "messageId": "m1", "body": "", "attributes": null, "messageAttributes": null,
            "eventSourceARN": null,
        },
        { "messageId": "m2", "body": null },
    ]);
    let records = read_bodies(&config, messages);
    let first = records[0].as_ref().unwrap();
    assert_eq!(first.candidate.source.as_str(), "unknown");
    assert_eq!(first.candidate.sent_at, Timestamp::from_ms(5));
    let attributes = concat!(
        r#"{"AWS.MessageGroupId":{"dataType":"String","stringValue":"g"},"#,
        r#""n":{"dataType":"String","stringValue":"v"}}"#
    );
    assert_eq!(first.candidate.attributes.as_deref(), Some(attributes));
    let second = &records[1].as_ref().unwrap().candidate;
    assert_eq!(second.attributes, None);
    assert_eq!(reason(&records[2]), "message: got no body, expected one");
}

#[test]
fn what_cannot_be_read_goes_to_the_quarantine_with_its_message_attributes() {
    let all = serde_json::json!({
        "raw": { "dataType": "Binary.jpg", "binaryValue": "AJ+Slg==" },
        "n": { "dataType": "Number", "stringValue": "7", "stringListValues": [] },
    });
    let config = config(&[("EVENT_ID", "attribute:order")]);
    let messages = serde_json::json!([
        { "messageId": "m0", "body": "b", "messageAttributes": all },
        { "messageId": "m1", "messageAttributes": all },
        { "messageId": "m2", "body": "b", "messageAttributes": {} },
    ]);
    let records = read_bodies(&config, messages);
    let texts = records.iter().map(|record| {
        let attributes = record.as_ref().unwrap_err().attributes.as_ref();
        attributes.map(|all| all.as_text().to_string())
    });
    let stored = concat!(
        r#"{"n":{"dataType":"Number","stringValue":"7"},"#,
        r#""raw":{"dataType":"Binary.jpg","binaryValue":"AJ+Slg=="}}"#
    );
    let stored = || Some(stored.to_owned());
    assert_eq!(Vec::from_iter(texts), [stored(), stored(), None]);
}

#[test]
fn a_body_that_cannot_be_read_names_the_variable_that_needs_it() {
    let number = r#"{"id":"e0","key":"k","n":1e999}"#;
    let half = r#"{"id":"e0","key":"k","s":"\ud800"}"#;
    for (variable, setting) in [("EVENT_ID", "json:id"), ("BATCH_KEY", "key")] {
        for body in [number, half, r#"{"id":"e0","#] {
            let config = config(&[(variable, setting)]);
            let message = serde_json::json!([{ "messageId": "m0", "body": body }]);
            let records = read_bodies(&config, message);
            let expected = format!("body: not JSON, which `{variable}` needs: ");
            let reason = reason(&records[0]);
            assert!(reason.starts_with(&expected), "{reason}");
        }
    }
}
