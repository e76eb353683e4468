//! `QUOTA`. The places are counted when a batch of the log is decided: see the tests of the batch-processor.

use protocol::quota::Quota;

use super::log::events;
use super::*;

const DAY: Duration = Duration::from_secs(24 * 3_600);
const QUOTA: [(&str, &str); 4] = [
    ("QUOTA", "content"),
    ("QUOTA_MAX", "2"),
    ("BODIES", "log:table"),
    QUARANTINE,
];

/// Returns the quota of each line in a slot of the only batch.
fn quotas(aggregator: &Aggregator, slot: u32) -> Vec<Quota> {
    let record = only_batch(aggregator);
    let events = events(&aggregator.fakes, &record, slot).into_iter();
    events.map(|event| *event.quota.unwrap()).collect()
}

fn quota(key: &str, day: u32, max: u64) -> Quota {
    let begins = Timestamp::EPOCH + day * DAY;
    Quota {
        key: key.parse().unwrap(),
        begins,
        ends: begins + DAY,
        max,
    }
}

#[tokio::test]
async fn a_line_says_in_which_quota_its_event_counts_and_how_many_that_lets_through() {
    let aggregator = aggregator_with(&QUOTA);
    let messages = [("m1", "e1", "a"), ("m2", "e2", "b"), ("m3", "e3", "a")];
    assert!(invoke(&aggregator, &messages).await.is_empty());
    let expected = [quota("a", 0, 2), quota("b", 0, 2), quota("a", 0, 2)];
    assert_eq!(quotas(&aggregator, 0), expected);
    let raised = [QUOTA[0], ("QUOTA_MAX", "3"), QUOTA[2], QUARANTINE];
    let other = another(&aggregator, &raised);
    assert!(invoke(&other, &[("m4", "e4", "a")]).await.is_empty());
    assert_eq!(quotas(&aggregator, 1), [quota("a", 0, 3)]);
    assert!(reasons(&aggregator).is_empty());
}

#[tokio::test]
async fn without_a_time_in_the_body_the_present_one_decides() {
    let aggregator =
        aggregator_with(&[&QUOTA[..], &[("MAX_SECONDARY_BATCHING_WINDOW", "897")]].concat());
    aggregator.fakes.clock.advance(DAY);
    assert!(invoke(&aggregator, &[("m1", "e1", "a")]).await.is_empty());
    assert_eq!(quotas(&aggregator, 0), [quota("a", 1, 2)]);
}

#[tokio::test]
async fn an_event_whose_period_is_not_counted_goes_to_the_quarantine() {
    let aggregator = aggregator_with(&[&QUOTA[..], &[("QUOTA_TIME", "id")]].concat());
    aggregator.fakes.clock.advance(40 * DAY);
    // 10 February. The period of the second message ended 24 days ago.
    let messages = [
        ("m1", "1970-01-16T00:00:00Z", "a"),
        ("m2", "1970-01-17T00:00:00Z", "a"),
        ("m3", "1970-02-11T00:00:00Z", "a"),
    ];
    assert!(invoke(&aggregator, &messages).await.is_empty());
    let reason = "`QUOTA_TIME`: got 1970-01-16T00:00:00Z, expected a time in a period that ended at most 24 days ago, and begins in 24 h at most";
    assert_eq!(reasons(&aggregator), [reason]);
    let expected = [quota("a", 16, 2), quota("a", 41, 2)];
    assert_eq!(quotas(&aggregator, 0), expected);
}
