use std::time::Duration;

use protocol::batch::{Account, BatchRecord, BatchWrite, Lease, PartRecord, Status};
use protocol::claim::{Claim, LockState, PastDeliveries};
use protocol::ids::{BatchId, BodyHash, LeaseOwner, Seat};
use serde_json::{Value, json};
use shared::memory::{Fakes, MemorySourceQueues};
use shared::ports::{BatchStore, Clock, LockStore, Release};
use shared::wire::TicketReason;

use super::*;
use crate::config::tests_support::config;

#[path = "drained_tests.rs"]
mod drained;
#[cfg(feature = "s3")]
#[path = "overflow_tests.rs"]
mod overflow;

const START: Timestamp = Timestamp::from_ms(1_000_000);

/// An aggregator over fakes.
struct Aggregator {
    handler: Handler,
    fakes: Fakes,
    source_queues: Arc<MemorySourceQueues>,
}

fn aggregator_with(variables: &[(&str, &str)]) -> Aggregator {
    aggregator_over(variables, Fakes::ports)
}

fn aggregator_over(variables: &[(&str, &str)], ports: impl FnOnce(&Fakes) -> Ports) -> Aggregator {
    let fakes = Fakes::at(START);
    let mut variables = variables.to_vec();
    variables.push(("EVENT_ID", "json:id"));
    let config = config(&variables);
    let current = Arc::new(CurrentBatches::new(config.limits));
    let source_queues = Arc::new(MemorySourceQueues::new());
    Aggregator {
        handler: Handler::new(config, ports(&fakes), source_queues.clone(), current),
        fakes,
        source_queues,
    }
}

/// Invokes with (message id, event id, rest of the content); answers the ids reported as failed.
async fn invoke(aggregator: &Aggregator, messages: &[(&str, &str, &str)]) -> Vec<String> {
    let deadline = aggregator.fakes.clock.now() + Duration::from_secs(15);
    invoke_until(aggregator, messages, deadline).await
}

async fn invoke_until(
    aggregator: &Aggregator,
    messages: &[(&str, &str, &str)],
    deadline: Timestamp,
) -> Vec<String> {
    let records: Vec<Value> = messages
        .iter()
        .map(|(message, event, content)| {
            json!({
                "messageId": message,
                "eventSourceARN": "arn:q",
                "body": json!({ "id": event, "content": content }).to_string(),
            })
        })
        .collect();
    let event = serde_json::from_value(json!({ "Records": records })).unwrap();
    let invocation = Invocation {
        function: "aggregator".to_owned(),
        deadline,
    };
    let response = aggregator.handler.handle(event, &invocation).await.unwrap();
    response
        .batch_item_failures
        .into_iter()
        .map(|failure| failure.item_identifier)
        .collect()
}

fn only_batch(aggregator: &Aggregator) -> BatchRecord {
    let records = aggregator.fakes.batch_store.records();
    assert_eq!(records.len(), 1, "{records:?}");
    records[0].clone()
}

/// Puts a live claim of `message` for `event` into batch 1 at `seq`, by nobody's account.
async fn live_claim(aggregator: &Aggregator, message: &str, event: &str, seq: u32) -> BatchId {
    let batch = BatchId::new(
        format!("00000000-0000-7000-8000-{:012}", 1)
            .parse()
            .unwrap(),
    );
    let body = json!({ "id": event, "content": "" }).to_string();
    let claim = Claim {
        candidate: Candidate {
            event_id: event.parse().unwrap(),
            sqs_message_id: message.parse().unwrap(),
            body_hash: BodyHash::of(body.as_bytes()),
            body: body.into(),
            compressed: None,
            source: "arn:q".parse().unwrap(),
            sent_at: START,
            attributes: None,
        },
        seat: Seat {
            batch,
            seq,
            shards: 10,
        },
        overflow: None,
        past: PastDeliveries::new(),
    };
    aggregator.fakes.lock_store.claim(&[claim]).await;
    batch
}

/// Gives `batch` a record that is complete and has delivered `members`.
async fn complete_batch(aggregator: &Aggregator, batch: BatchId, members: &[u32]) {
    let store = &aggregator.fakes.batch_store;
    let owner: LeaseOwner = "p".parse().unwrap();
    let at = START.saturating_sub(Duration::from_secs(100));
    store
        .create(&BatchRecord::open(
            batch,
            "arn:q".parse().unwrap(),
            None,
            10,
            at,
            at,
        ))
        .await
        .unwrap();
    let part = PartRecord::frozen(members.iter().copied().collect(), [0; 32], None);
    for write in [
        BatchWrite::Lease {
            lease: Lease {
                owner: owner.clone(),
                until: START,
            },
            at,
            operator: None,
        },
        BatchWrite::Freeze {
            owner: owner.clone(),
            index: 0,
            part,
        },
        BatchWrite::Delivered {
            owner: owner.clone(),
            index: 0,
            receipt: String::new(),
            delivered: None,
        },
        BatchWrite::Complete {
            owner,
            accounts: 0,
            witnesses: 0,
            parts: 1,
            at,
        },
    ] {
        store.write(batch, &write).await.unwrap();
    }
}

#[tokio::test]
async fn claims_are_counted_in_a_batch_that_has_a_record_and_a_ticket() {
    let aggregator = aggregator_with(&[]);
    assert!(
        invoke(&aggregator, &[("m1", "e1", ""), ("m2", "e2", "")])
            .await
            .is_empty()
    );
    let record = only_batch(&aggregator);
    assert_eq!(
        (record.status, record.confirmed, record.settled.len()),
        (Some(Status::Open), 2, 2)
    );
    let tickets = aggregator.fakes.batch_queue.take();
    assert_eq!(tickets.len(), 1);
    assert_eq!(
        (tickets[0].0.batch_id, tickets[0].0.reason),
        (record.batch_id, Some(TicketReason::Window))
    );
    // 15 s to the deadline, 300 s of window, 2 s of clock skew.
    assert_eq!(tickets[0].1, Duration::from_secs(317));
    assert!(aggregator.fakes.metric_log.take()[0].contains(r#""Claimed":2"#));
}

#[tokio::test]
async fn later_invocations_join_the_batch_until_its_window_closes() {
    let aggregator = aggregator_with(&[]);
    invoke(&aggregator, &[("m1", "e1", "")]).await;
    aggregator.fakes.clock.advance(Duration::from_secs(299));
    invoke(&aggregator, &[("m2", "e2", "")]).await;
    assert_eq!(only_batch(&aggregator).confirmed, 2);
    aggregator.fakes.clock.advance(Duration::from_secs(1));
    invoke(&aggregator, &[("m3", "e3", "")]).await;
    let records = aggregator.fakes.batch_store.records();
    assert_eq!(records.len(), 2);
    assert_eq!(
        records[0].status,
        Some(Status::Sealed),
        "found past its window"
    );
    let reasons: Vec<_> = aggregator
        .fakes
        .batch_queue
        .take()
        .into_iter()
        .map(|(ticket, _)| ticket.reason)
        .collect();
    let expected = [
        TicketReason::Window,
        TicketReason::Sealed,
        TicketReason::Window,
    ]
    .map(Some);
    assert_eq!(reasons, expected);
}

#[tokio::test]
async fn duplicates_do_not_take_places_and_full_batches_start_at_once() {
    let aggregator = aggregator_with(&[("MAX_BATCH_SIZE", "3")]);
    let failed = invoke(
        &aggregator,
        &[
            ("m1", "e1", ""),
            ("m2", "e1", ""),
            ("m3", "e2", ""),
            ("m4", "e3", ""),
            ("m5", "e4", ""),
        ],
    )
    .await;
    assert!(failed.is_empty());
    invoke(
        &aggregator,
        &[("m6", "e1", ""), ("m7", "e5", ""), ("m8", "e6", "")],
    )
    .await;
    let sizes: Vec<_> = aggregator
        .fakes
        .batch_store
        .records()
        .iter()
        .map(|record| (record.status, record.confirmed))
        .collect();
    assert_eq!(
        sizes,
        [(Some(Status::Sealed), 3), (Some(Status::Sealed), 3)]
    );
    let immediate = aggregator
        .fakes
        .batch_queue
        .take()
        .into_iter()
        .filter(|(_, delay)| delay.is_zero())
        .count();
    assert_eq!(immediate, 2);
}

/// What the table holds of an event; taken out of it, so that only the environment still knows of it.
fn taken_away(aggregator: &Aggregator, event: &str) -> EventId {
    let event: EventId = event.parse().unwrap();
    assert!(aggregator.fakes.lock_store.get(&event).is_some());
    aggregator.fakes.lock_store.remove(&event);
    event
}

#[tokio::test]
async fn duplicates_of_counted_claims_of_the_open_batch_ask_nothing_of_the_table() {
    let aggregator = aggregator_with(&[]);
    invoke(&aggregator, &[("m1", "e1", ""), ("m2", "e2", "")]).await;
    let event = taken_away(&aggregator, "e1");
    let failed = invoke(
        &aggregator,
        &[("m1", "e1", ""), ("m3", "e1", ""), ("m4", "e3", "")],
    )
    .await;
    assert!(failed.is_empty(), "{failed:?}");
    assert_eq!(aggregator.fakes.lock_store.get(&event), None);
    assert_eq!(only_batch(&aggregator).confirmed, 3);
    assert_eq!(
        only_batch(&aggregator).settled.len(),
        3,
        "they have had no seats"
    );
    let line = aggregator.fakes.metric_log.take().pop().unwrap();
    assert!(line.contains(r#""Duplicates":1"#), "{line}");
    assert!(line.contains(r#""Redelivered":1"#), "{line}");
}

#[tokio::test]
async fn other_content_under_a_known_id_is_for_the_table_to_judge() {
    let aggregator = aggregator_with(&[]);
    invoke(&aggregator, &[("m1", "e1", "")]).await;
    invoke(&aggregator, &[("m2", "e1", "other")]).await;
    let quarantine = aggregator.fakes.quarantine_queue;
    assert_eq!(quarantine.take().len(), 1);
}

#[tokio::test]
async fn nothing_is_known_past_the_window_or_of_a_batch_that_is_full() {
    let aggregator = aggregator_with(&[("MAX_BATCH_SIZE", "2")]);
    invoke(&aggregator, &[("m1", "e1", "")]).await;
    let event = taken_away(&aggregator, "e1");
    aggregator.fakes.clock.advance(Duration::from_secs(300));
    invoke(&aggregator, &[("m2", "e1", "")]).await;
    assert!(
        aggregator.fakes.lock_store.get(&event).is_some(),
        "claimed anew"
    );
    invoke(&aggregator, &[("m3", "e2", "")]).await;
    let event = taken_away(&aggregator, "e2");
    invoke(&aggregator, &[("m4", "e2", "")]).await;
    assert!(
        aggregator.fakes.lock_store.get(&event).is_some(),
        "claimed anew"
    );
}

#[tokio::test]
async fn requeue_gives_duplicates_back_and_takes_them_after_the_first() {
    let aggregator = aggregator_with(&[("ON_DUPLICATE", "requeue")]);
    assert_eq!(
        invoke(&aggregator, &[("m1", "e1", ""), ("m2", "e1", "")]).await,
        ["m2"]
    );
    assert_eq!(invoke(&aggregator, &[("m2", "e1", "")]).await, ["m2"]);
    let batch = only_batch(&aggregator).batch_id;
    let released = (
        "e1".parse().unwrap(),
        Seat {
            batch,
            seq: 0,
            shards: 10,
        }
        .place(),
    );
    let expires_at = aggregator.fakes.clock.now() + Duration::from_secs(3_600);
    aggregator
        .fakes
        .lock_store
        .release(&[released], Release::Remembered(expires_at))
        .await;
    aggregator.fakes.clock.advance(Duration::from_secs(300));
    assert!(invoke(&aggregator, &[("m2", "e1", "")]).await.is_empty());
    let (_, item) = &aggregator.fakes.lock_store.items()[0];
    assert!(matches!(item.state, LockState::Live { .. }) && item.past.len() == 1);
    let before = aggregator.fakes.batch_store.records();
    assert!(
        invoke(&aggregator, &[("m1", "e1", "")]).await.is_empty(),
        "the first message is still remembered"
    );
    let confirmed =
        |records: Vec<BatchRecord>| -> u64 { records.iter().map(|record| record.confirmed).sum() };
    assert_eq!(
        confirmed(aggregator.fakes.batch_store.records()),
        confirmed(before)
    );
}

#[tokio::test]
async fn a_redelivery_is_acknowledged_only_after_its_batch_knows_the_claim() {
    let aggregator = aggregator_with(&[]);
    let batch = live_claim(&aggregator, "m1", "e1", 4).await;
    let record = BatchRecord::open(
        batch,
        "arn:q".parse().unwrap(),
        None,
        10,
        START,
        START + Duration::from_secs(9),
    );
    aggregator.fakes.batch_store.create(&record).await.unwrap();
    assert!(invoke(&aggregator, &[("m1", "e1", "")]).await.is_empty());
    let record = aggregator
        .fakes
        .batch_store
        .read(batch)
        .await
        .unwrap()
        .unwrap();
    assert!(record.witnessed.contains(4) && record.witnesses == 1);
}

#[tokio::test]
async fn an_orphaned_claim_is_claimed_anew_by_whoever_comes() {
    for message in ["m1", "m2"] {
        let aggregator = aggregator_with(&[]);
        let batch = live_claim(&aggregator, "m1", "e1", 4).await;
        complete_batch(&aggregator, batch, &[0, 1, 2]).await;
        assert!(invoke(&aggregator, &[(message, "e1", "")]).await.is_empty());
        let (_, item) = &aggregator.fakes.lock_store.items()[0];
        assert_eq!(item.sqs_message_id.as_str(), message);
        assert!(matches!(item.state, LockState::Live { shard, .. } if shard.batch != batch));
        let confirmed: u64 = aggregator
            .fakes
            .batch_store
            .records()
            .iter()
            .map(|record| record.confirmed)
            .sum();
        assert_eq!(confirmed, 1);
    }
}

#[tokio::test]
async fn a_delivered_claim_whose_release_was_lost_is_not_delivered_again() {
    for message in ["m1", "m2"] {
        let aggregator = aggregator_with(&[]);
        let batch = live_claim(&aggregator, "m1", "e1", 4).await;
        complete_batch(&aggregator, batch, &[4]).await;
        assert!(invoke(&aggregator, &[(message, "e1", "")]).await.is_empty());
        let confirmed: u64 = aggregator
            .fakes
            .batch_store
            .records()
            .iter()
            .map(|record| record.confirmed)
            .sum();
        assert_eq!(
            confirmed, 0,
            "{message} is a redelivery or a duplicate of a delivered event"
        );
    }
}

#[tokio::test]
async fn what_cannot_be_processed_is_quarantined_with_its_reason() {
    let aggregator = aggregator_with(&[]);
    invoke(&aggregator, &[("m1", "e1", "a")]).await;
    assert!(
        invoke(
            &aggregator,
            &[("m2", "e1", "b"), ("m3", "", ""), ("m4", "e4", "")]
        )
        .await
        .is_empty()
    );
    let quarantined = aggregator.fakes.quarantine_queue.take();
    let reasons: Vec<_> = quarantined
        .iter()
        .map(|one| (one.sqs_message_id.as_str(), one.reason.as_str()))
        .collect();
    assert_eq!(
        reasons,
        [
            (
                "m2",
                "another message carries the same event id with different content"
            ),
            ("m3", "`EVENT_ID`: `id` finds nothing"),
        ]
    );
    assert_eq!(quarantined[0].event_id.as_ref().unwrap().as_str(), "e1");
    assert_eq!(only_batch(&aggregator).confirmed, 2);
}

#[tokio::test]
async fn without_a_quarantine_the_message_itself_comes_back() {
    let ports = |fakes: &Fakes| Ports {
        quarantine_queue: None,
        ..fakes.ports()
    };
    let aggregator = aggregator_over(&[], ports);
    assert_eq!(
        invoke(&aggregator, &[("m1", "", ""), ("m2", "e2", "")]).await,
        ["m1"]
    );
}

#[tokio::test]
async fn nothing_is_started_within_the_margin_of_the_deadline() {
    let aggregator = aggregator_with(&[]);
    let deadline = aggregator.fakes.clock.now() + Duration::from_millis(2_999);
    assert_eq!(
        invoke_until(&aggregator, &[("m1", "e1", ""), ("m2", "e2", "")], deadline).await,
        ["m1", "m2"]
    );
    assert!(
        aggregator.fakes.batch_store.records().is_empty()
            && aggregator.fakes.lock_store.items().is_empty()
    );
}

#[tokio::test]
async fn a_claim_whose_batch_ended_before_it_was_counted_is_not_acknowledged() {
    let aggregator = aggregator_with(&[]);
    invoke(&aggregator, &[("m1", "e1", "")]).await;
    let batch = only_batch(&aggregator).batch_id;
    let owner: LeaseOwner = "p".parse().unwrap();
    // As if every clock had failed: the batch is taken and ended while its aggregator still claims into it.
    let at = START + Duration::from_secs(900);
    for write in [
        BatchWrite::Account(Account {
            confirmed: 0,
            uncertain: 0,
            settled: Default::default(),
            version: 9,
        }),
        BatchWrite::Lease {
            lease: Lease {
                owner: owner.clone(),
                until: at,
            },
            at,
            operator: None,
        },
        BatchWrite::Complete {
            owner,
            accounts: 9,
            witnesses: 0,
            parts: 0,
            at,
        },
    ] {
        aggregator
            .fakes
            .batch_store
            .write(batch, &write)
            .await
            .unwrap();
    }
    assert_eq!(invoke(&aggregator, &[("m2", "e2", "")]).await, ["m2"]);
}

#[tokio::test]
async fn each_batch_key_has_a_batch_of_its_own_up_to_the_cap() {
    let aggregator = aggregator_with(&[("BATCH_KEY", "content"), ("BATCH_KEYS_MAX", "2")]);
    let failed = invoke(
        &aggregator,
        &[
            ("m1", "e1", "a"),
            ("m2", "e2", "b"),
            ("m3", "e3", "a"),
            ("m4", "e4", "c"),
            ("m5", "e5", "c"),
        ],
    )
    .await;
    assert_eq!(failed, ["m4", "m5"]);
    let mut batches: Vec<_> = aggregator
        .fakes
        .batch_store
        .records()
        .into_iter()
        .map(|record| (record.batch_key.unwrap().to_string(), record.confirmed))
        .collect();
    batches.sort();
    assert_eq!(batches, [("a".to_owned(), 2), ("b".to_owned(), 1)]);
}

#[tokio::test]
async fn repro_a_request_that_got_its_place_after_the_margin_was_sent_all_the_same() {
    let aggregator = aggregator_with(&[("WRITE_CONCURRENCY", "1")]);
    let clock = &*aggregator.fakes.clock;
    let budget = Budget {
        clock,
        entropy: &*aggregator.fakes.entropy,
        stop_at: clock.now() + Duration::from_secs(1),
    };
    let first = aggregator.handler.place(&budget).await.unwrap();
    let second = aggregator.handler.limited(&budget, async { Ok("sent") });
    let first_ends_late = async {
        tokio::task::yield_now().await;
        clock.advance(Duration::from_secs(1));
        drop(first);
    };
    let (second, ()) = futures::future::join(second, first_ends_late).await;
    let error = second.unwrap_err();
    assert!(matches!(error, PortError::DeadlineReached), "{error:?}");
}
