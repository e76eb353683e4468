//! `SEAL_WHEN_DRAINED`.

use shared::ports::QueueDepth;

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

fn source_is(handler: &Handler<World>, depth: QueueDepth) {
    source_becomes(handler, [depth]);
}

fn source_becomes<const N: usize>(handler: &Handler<World>, depths: [QueueDepth; N]) {
    let source = "arn:q".parse().unwrap();
    handler.ports().sources.set(source, depths);
}

fn in_flight(in_flight: u64) -> QueueDepth {
    QueueDepth {
        in_flight,
        ..DRAINED
    }
}

fn statuses(handler: &Handler<World>) -> Vec<Option<Status>> {
    let records = handler.ports().batches.records();
    records.iter().map(|record| record.status).collect()
}

#[tokio::test]
async fn a_drained_source_has_its_batch_sealed_by_the_write_that_counts() {
    let handler = aggregator(&[SWITCH]);
    // These two are its own.
    source_becomes(&handler, [in_flight(2), FULL]);
    let failed = invoke(&handler, &[("m1", "e1", ""), ("m2", "e2", "")]).await;
    assert!(failed.is_empty());
    let record = only_batch(&handler);
    assert_eq!(
        (record.status, record.confirmed, record.accounts),
        (Some(Status::Sealed), 2, 1)
    );
    let tickets = handler.ports().tickets.take();
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
        let handler = aggregator(&[SWITCH]);
        source_becomes(&handler, depths);
        invoke(&handler, &[("m1", "e1", ""), ("m2", "e2", "")]).await;
        let record = only_batch(&handler);
        assert_eq!(
            (record.status, record.confirmed),
            (Some(Status::Open), 2),
            "{depths:?}"
        );
    }
}

#[tokio::test]
async fn messages_that_others_hold_keep_a_batch_open_only_while_more_are_received() {
    for later in [9, 8, 2] {
        let handler = aggregator(&[SWITCH]);
        source_becomes(&handler, [in_flight(9), in_flight(later)]);
        invoke(&handler, &[("m1", "e1", ""), ("m2", "e2", "")]).await;
        assert_eq!(statuses(&handler), [Some(Status::Sealed)], "{later}");
    }
}

#[tokio::test]
async fn a_source_that_cannot_be_asked_keeps_its_batch_open_and_fails_nothing() {
    let handler = aggregator(&[SWITCH]);
    assert!(invoke(&handler, &[("m1", "e1", "")]).await.is_empty());
    assert_eq!(statuses(&handler), [Some(Status::Open)]);
}

#[tokio::test]
async fn without_the_switch_a_drained_source_changes_nothing() {
    let handler = aggregator(&[]);
    source_is(&handler, DRAINED);
    invoke(&handler, &[("m1", "e1", "")]).await;
    assert_eq!(statuses(&handler), [Some(Status::Open)]);
}

#[tokio::test]
async fn all_keys_of_a_drained_source_are_sealed_whoever_filled_them() {
    let handler = aggregator(&[SWITCH, ("BATCH_KEY", "content")]);
    source_is(&handler, FULL);
    invoke(&handler, &[("m1", "e1", "a"), ("m2", "e2", "b")]).await;
    assert_eq!(statuses(&handler), [Some(Status::Open); 2]);
    source_is(&handler, DRAINED);
    invoke(&handler, &[("m3", "e3", "c")]).await;
    assert_eq!(statuses(&handler), [Some(Status::Sealed); 3]);
}

#[tokio::test]
async fn a_last_event_of_duplicates_alone_ends_the_burst_as_well() {
    let handler = aggregator(&[SWITCH]);
    source_is(&handler, FULL);
    invoke(&handler, &[("m1", "e1", "")]).await;
    source_is(&handler, DRAINED);
    assert!(invoke(&handler, &[("m2", "e1", "")]).await.is_empty());
    let record = only_batch(&handler);
    assert_eq!((record.status, record.confirmed), (Some(Status::Sealed), 1));
}

#[tokio::test]
async fn nobody_is_asked_within_the_margin_of_the_deadline() {
    let handler = aggregator(&[SWITCH]);
    source_is(&handler, FULL);
    invoke(&handler, &[("m1", "e1", "")]).await;
    source_is(&handler, DRAINED);
    let deadline = handler.ports().clock.now() + Duration::from_millis(2_999);
    invoke_until(&handler, &[("m2", "e2", "")], deadline).await;
    assert_eq!(statuses(&handler), [Some(Status::Open)]);
}

#[tokio::test]
async fn a_second_look_that_would_take_the_margin_of_the_deadline_is_not_waited_for() {
    let handler = aggregator(&[SWITCH]);
    source_is(&handler, in_flight(9));
    let deadline = handler.ports().clock.now() + Duration::from_millis(3_999);
    invoke_until(&handler, &[("m1", "e1", "")], deadline).await;
    assert_eq!(statuses(&handler), [Some(Status::Open)]);
}
