//! Quotas: places are counted when a batch is decided.

use protocol::quota::Quota;
use shared::quarantine_attributes::beyond_quota;

use super::*;

/// Returns the quota of a line whose body is a key, a colon and the number of events of that key.
pub(super) fn quota_of(body: &str) -> Option<Quota> {
    let (key, max) = body.split_once(':')?;
    Some(Quota {
        key: key.parse().unwrap(),
        begins: START,
        ends: START + Duration::from_secs(3_600),
        max: max.parse().unwrap(),
    })
}

/// Returns the reports that these messages are beyond the quota of their key and number.
fn beyond(messages: &[(&str, &str)]) -> Vec<(String, String)> {
    let report = |(message, body): &(&str, &str)| {
        let reason = beyond_quota(&quota_of(body).unwrap());
        ((*message).to_owned(), reason)
    };
    messages.iter().map(report).collect()
}

#[tokio::test]
async fn lines_beyond_a_quota_go_to_the_quarantine_and_places_count_in_later_batches() {
    let processor = a_processor();
    let lines = [("m1", "a", "k:2"), ("m2", "b", "k:2"), ("m3", "c", "k:2")];
    brought(&processor, 0, &[&lines]).await;
    assert!(!ticket_of(&processor, 0).await);
    assert_eq!(given(&processor), ["a", "b"]);
    let resolution = record(&processor).reservations.unwrap().resolution.unwrap();
    assert_eq!(resolution.beyond_quota, [2].into_iter().collect());
    assert!(resolution.is_reported);
    assert_eq!(reasons(&processor), beyond(&[("m3", "k:2")]));
    let line = processor.fakes.metric_log.take().remove(0);
    assert!(line.contains(r#""BeyondQuota":1"#), "{line}");
    // A quota that was raised, another key, and a duplicate of an event that has a place.
    let lines = [
        ("m4", "d", "k:2"),
        ("m5", "e", "k:3"),
        ("m6", "f", "k:3"),
        ("m7", "g", "other:1"),
        ("m8", "a", "k:2"),
    ];
    brought(&processor, 1, &[&lines]).await;
    assert!(!ticket_of(&processor, 1).await);
    assert_eq!(given(&processor), ["e", "g"]);
    assert_eq!(reasons(&processor), beyond(&[("m4", "k:2"), ("m6", "k:3")]));
}

#[tokio::test]
async fn a_batch_is_not_complete_before_its_lines_beyond_a_quota_are_in_the_quarantine() {
    let processor = a_processor();
    processor.fakes.quarantine_queue.refuse(true);
    brought(&processor, 0, &[&[("m1", "a", "k:1"), ("m2", "b", "k:1")]]).await;
    assert!(!ticket_of(&processor, 0).await);
    let error = record(&processor).error.unwrap();
    assert!(error.contains("`QUARANTINE_SQS_URL`"), "{error}");
    processor.fakes.quarantine_queue.refuse(false);
    assert!(!given_back(&processor, &operator()).await);
    assert_eq!(reasons(&processor), beyond(&[("m2", "k:1")]));
    assert!(record(&processor).completed_at.is_some());
}

#[tokio::test]
async fn another_message_of_an_event_that_was_set_aside_takes_its_place_over() {
    let processor = a_processor();
    brought(&processor, 0, &[&[("m1", "a", "k:1")]]).await;
    processor.fakes.clock.advance(BATCH_LIFE_MAX);
    assert!(!ticket_of(&processor, 0).await);
    assert_eq!(record(&processor).status, Some(Status::Error), "too old");
    assert!(!quarantine_of(&processor, 0).await);
    assert_eq!(reasons(&processor).len(), 1);
    let lines = [("m2", "b", "k:1"), ("m3", "a", "k:1"), ("m4", "c", "k:1")];
    let at = processor
        .fakes
        .clock
        .now()
        .saturating_sub(Duration::from_secs(60));
    brought_at(&processor, 1, at, &[&lines]).await;
    assert!(!ticket_of(&processor, 1).await);
    assert_eq!(given(&processor), ["a"]);
    assert_eq!(reasons(&processor), beyond(&[("m2", "k:1"), ("m4", "k:1")]));
    let places = runs_of(&processor).await.into_iter().map(|run| run.rows);
    // An owner and a tally; then an owner, whose place was counted before.
    assert_eq!(Vec::from_iter(places), [2, 1]);
}
