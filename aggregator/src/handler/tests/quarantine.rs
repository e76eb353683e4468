//! Messages that go to the quarantine.

use super::*;

#[tokio::test]
async fn a_message_that_cannot_be_processed_is_quarantined_with_its_reason() {
    let aggregator = aggregator_with(&[]);
    invoke(&aggregator, &[("m1", "e1", "a")]).await;
    let messages = [("m2", "e1", "b"), ("m3", "", ""), ("m4", "e4", "")];
    assert!(invoke(&aggregator, &messages).await.is_empty());
    let quarantined = aggregator.fakes.quarantine_queue.take();
    let expected = [
        (
            "m2",
            "event id: conflict: another message has the same event id and another body",
        ),
        (
            "m3",
            "`EVENT_ID`: `id`: found an empty text, expected a string, a whole number, a boolean, or a list of these",
        ),
    ];
    let reasons = quarantined.iter();
    let reasons = reasons.map(|one| (one.sqs_message_id.as_str(), &*one.reason));
    assert_eq!(Vec::from_iter(reasons), expected);
    assert_eq!(quarantined[0].event_id.as_ref().unwrap().as_str(), "e1");
    assert_eq!(confirmed(&aggregator), 2);
}

#[tokio::test]
async fn without_a_quarantine_the_message_is_reported_as_failed() {
    let ports = |fakes: &Fakes| Ports {
        quarantine_queue: None,
        ..fakes.ports()
    };
    let aggregator = aggregator_over(&[], ports);
    let failed = invoke(&aggregator, &[("m1", "", ""), ("m2", "e2", "")]).await;
    assert_eq!(failed, ["m1"]);
}
