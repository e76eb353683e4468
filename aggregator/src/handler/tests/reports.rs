//! Reports of dropped duplicates.

use serde_json::Value;

use super::*;

/// Returns an aggregator that reports dropped duplicates.
fn reporting() -> Aggregator {
    aggregator_over(&[], |fakes| Ports {
        duplicates_queue: Some(fakes.duplicates_queue.clone()),
        ..fakes.ports()
    })
}

fn bodies(aggregator: &Aggregator) -> Vec<Value> {
    let sent = aggregator.fakes.duplicates_queue.take();
    let bodies = sent.iter().map(|report| serde_json::from_str(&report.body));
    bodies.collect::<Result<_, _>>().unwrap()
}

#[tokio::test]
async fn a_dropped_duplicate_is_reported_with_what_claimed_its_event() {
    let aggregator = reporting();
    let failed = invoke(&aggregator, &[("m1", "e1", ""), ("m2", "e1", "")]).await;
    assert!(failed.is_empty(), "{failed:?}");
    let reports = bodies(&aggregator);
    let batch = only_batch(&aggregator).batch_id.to_string();
    assert_eq!(reports.len(), 1, "{reports:?}");
    assert_eq!(reports[0]["eventId"], "e1");
    assert_eq!(reports[0]["sqsMessageId"], "m2");
    assert_eq!(reports[0]["claimedBy"], "m1");
    assert_eq!(reports[0]["batchId"], batch);
    // A redelivery is no duplicate. A conflict goes to the quarantine.
    let again = [("m1", "e1", ""), ("m3", "e1", "other")];
    assert!(invoke(&aggregator, &again).await.is_empty());
    assert_eq!(bodies(&aggregator), [Value::Null; 0]);
}

#[tokio::test]
async fn a_report_is_in_the_message_group_of_the_duplicate() {
    let aggregator = reporting();
    let record = |id: &str, group: &str| {
        json!({
            "messageId": id,
            "eventSourceARN": "arn:q",
            "attributes": { "MessageGroupId": group },
            "messageAttributes": { "n": { "stringValue": "v", "dataType": "String" } },
            "body": json!({ "id": "e1" }).to_string(),
        })
    };
    let records = vec![record("m1", "first"), record("m2", "second")];
    let deadline = aggregator.fakes.clock.now() + Duration::from_secs(15);
    let handled = invoke_with(&aggregator, records, deadline).await;
    handled.unwrap();
    let reports = aggregator.fakes.duplicates_queue.take();
    let [Quarantined { attributes, .. }] = &reports[..] else {
        panic!("one report: {reports:?}");
    };
    let group = r#"{"AWS.MessageGroupId":{"dataType":"String","stringValue":"second"}}"#;
    let text = attributes.as_ref().map(|all| &**all.as_text());
    assert_eq!(text, Some(group));
}

#[tokio::test]
async fn a_duplicate_that_cannot_be_reported_comes_back() {
    let aggregator = reporting();
    aggregator.fakes.duplicates_queue.refuse(true);
    let failed = invoke(&aggregator, &[("m1", "e1", ""), ("m2", "e1", "")]).await;
    assert_eq!(failed, ["m2"]);
}
