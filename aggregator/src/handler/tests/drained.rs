//! `SEAL_WHEN_DRAINED`.

use protocol::batch::Status;
use shared::ports::QueueDepth;
use shared::wire::TicketReason;

use super::*;

const SWITCH: (&str, &str) = ("SEAL_WHEN_DRAINED", "on");
const DRAINED: QueueDepth = QueueDepth {
    visible: 0,
    in_flight: 0,
    delayed: 0,
};
const FULL: QueueDepth = QueueDepth {
    visible: 9,
    ..DRAINED
};

fn source_is(aggregator: &Aggregator, depth: QueueDepth) {
    source_becomes(aggregator, [depth]);
}

fn source_becomes<const N: usize>(aggregator: &Aggregator, depths: [QueueDepth; N]) {
    let source = "arn:q".parse().unwrap();
    aggregator.source_queues.set(source, depths);
}

fn in_flight(in_flight: u64) -> QueueDepth {
    QueueDepth {
        in_flight,
        ..DRAINED
    }
}

fn statuses(aggregator: &Aggregator) -> Vec<Option<Status>> {
    let records = aggregator.fakes.batch_store.records();
    records.iter().map(|record| record.status).collect()
}

#[tokio::test]
async fn a_drained_source_has_its_batch_sealed_once_its_claims_are_counted() {
    let aggregator = aggregator_with(&[SWITCH]);
    // These two are its own.
    source_becomes(&aggregator, [in_flight(2), FULL]);
    let failed = invoke(&aggregator, &[("m1", "e1", ""), ("m2", "e2", "")]).await;
    assert!(failed.is_empty());
    let record = only_batch(&aggregator);
    assert_eq!(record.status, Some(Status::Sealed));
    assert_eq!(confirmed_in(&aggregator, &record), 2);
    let tickets = aggregator.fakes.batch_queue.take();
    let (ticket, delay) = tickets.last().unwrap();
    assert_eq!(ticket.reason, Some(TicketReason::Sealed));
    assert!(delay.is_zero());
}

#[tokio::test]
async fn a_source_with_more_to_receive_keeps_its_batch_open() {
    let delayed = QueueDepth {
        delayed: 1,
        ..DRAINED
    };
    let depths = [
        [FULL, DRAINED],
        [delayed, DRAINED],
        [in_flight(3), FULL],
        [in_flight(3), delayed],
        [in_flight(3), in_flight(4)],
    ];
    for depths in depths {
        let aggregator = aggregator_with(&[SWITCH]);
        source_becomes(&aggregator, depths);
        invoke(&aggregator, &[("m1", "e1", ""), ("m2", "e2", "")]).await;
        let record = only_batch(&aggregator);
        assert_eq!(record.status, Some(Status::Open), "{depths:?}");
        assert_eq!(confirmed_in(&aggregator, &record), 2);
    }
}

#[tokio::test]
async fn messages_that_others_hold_keep_a_batch_open_only_while_more_are_received() {
    for later in [9, 8, 2] {
        let aggregator = aggregator_with(&[SWITCH]);
        source_becomes(&aggregator, [in_flight(9), in_flight(later)]);
        invoke(&aggregator, &[("m1", "e1", ""), ("m2", "e2", "")]).await;
        assert_eq!(statuses(&aggregator), [Some(Status::Sealed)], "{later}");
    }
}

#[tokio::test]
async fn a_source_that_cannot_be_asked_keeps_its_batch_open_and_fails_nothing() {
    let aggregator = aggregator_with(&[SWITCH]);
    assert!(invoke(&aggregator, &[("m1", "e1", "")]).await.is_empty());
    assert_eq!(statuses(&aggregator), [Some(Status::Open)]);
}

#[tokio::test]
async fn a_burst_that_ends_with_an_unreadable_message_has_its_batch_sealed_in_both_layouts() {
    for bodies in ["items", "log:table"] {
        let aggregator = aggregator_with(&[SWITCH, QUARANTINE, ("BODIES", bodies)]);
        source_becomes(&aggregator, [FULL, DRAINED]);
        assert!(invoke(&aggregator, &[("m1", "e1", "")]).await.is_empty());
        assert_eq!(statuses(&aggregator), [Some(Status::Open)], "{bodies}");
        let unreadable = json!({ "messageId": "m2", "eventSourceARN": "arn:q", "body": "{}" });
        let deadline = aggregator.fakes.clock.now() + Duration::from_secs(15);
        let failed = invoke_with(&aggregator, vec![unreadable], deadline).await;
        assert!(failed.unwrap().is_empty());
        assert_eq!(statuses(&aggregator), [Some(Status::Sealed)], "{bodies}");
    }
}

#[tokio::test]
async fn without_the_switch_a_drained_source_changes_nothing() {
    let aggregator = aggregator_with(&[]);
    source_is(&aggregator, DRAINED);
    invoke(&aggregator, &[("m1", "e1", "")]).await;
    assert_eq!(statuses(&aggregator), [Some(Status::Open)]);
}

#[tokio::test]
async fn all_keys_of_a_drained_source_are_sealed_by_one_invocation() {
    let aggregator = aggregator_with(&[SWITCH, ("BATCH_KEY", "content")]);
    source_is(&aggregator, FULL);
    invoke(&aggregator, &[("m1", "e1", "a"), ("m2", "e2", "b")]).await;
    assert_eq!(statuses(&aggregator), [Some(Status::Open); 2]);
    source_is(&aggregator, DRAINED);
    invoke(&aggregator, &[("m3", "e3", "c")]).await;
    assert_eq!(statuses(&aggregator), [Some(Status::Sealed); 3]);
}

#[tokio::test]
async fn a_last_event_of_duplicates_alone_ends_the_burst_as_well() {
    let aggregator = aggregator_with(&[SWITCH]);
    source_is(&aggregator, FULL);
    invoke(&aggregator, &[("m1", "e1", "")]).await;
    source_is(&aggregator, DRAINED);
    assert!(invoke(&aggregator, &[("m2", "e1", "")]).await.is_empty());
    let record = only_batch(&aggregator);
    assert_eq!(
        (record.status, confirmed(&aggregator)),
        (Some(Status::Sealed), 1)
    );
}

#[tokio::test]
async fn nobody_is_asked_within_the_margin_of_the_deadline() {
    let aggregator = aggregator_with(&[SWITCH]);
    source_is(&aggregator, FULL);
    invoke(&aggregator, &[("m1", "e1", "")]).await;
    source_is(&aggregator, DRAINED);
    let deadline = aggregator.fakes.clock.now() + Duration::from_millis(2_999);
    let failed = try_invoke_until(&aggregator, &[("m2", "e2", "")], deadline).await;
    failed.unwrap_err();
    assert_eq!(statuses(&aggregator), [Some(Status::Open)]);
}

#[tokio::test]
async fn a_second_look_that_would_take_the_margin_of_the_deadline_is_not_waited_for() {
    let aggregator = aggregator_with(&[SWITCH]);
    source_is(&aggregator, in_flight(9));
    let deadline = aggregator.fakes.clock.now() + Duration::from_millis(3_999);
    invoke_until(&aggregator, &[("m1", "e1", "")], deadline).await;
    assert_eq!(statuses(&aggregator), [Some(Status::Open)]);
}
