use std::sync::Mutex;
use std::time::Duration;

use protocol::batch::{Account, BatchRecord, BatchWrite, Lease, PartRecord, Status};
use protocol::claim::{Claim, LockState, PastDeliveries};
use protocol::ids::{BatchId, BodyHash, LeaseOwner, Seat};
use serde_json::{Value, json};
use shared::memory::{
    ManualClock, MemoryBatchQueue, MemoryBatchStore, MemoryLockStore, MemoryOverflowStore,
    MemoryQuarantine, MemorySourceQueues, SeededEntropy,
};
use shared::ports::Release;
use shared::wire::TicketReason;

use super::*;
use crate::config::tests_support::config;

#[path = "drained_tests.rs"]
mod drained;
#[cfg(feature = "s3")]
#[path = "overflow_tests.rs"]
mod overflow;

const START: Timestamp = Timestamp::from_ms(1_000_000);

struct World {
    locks: MemoryLockStore,
    batches: MemoryBatchStore,
    tickets: MemoryBatchQueue,
    overflow: MemoryOverflowStore,
    quarantine: Option<MemoryQuarantine>,
    sources: MemorySourceQueues,
    clock: ManualClock,
    entropy: SeededEntropy,
    lines: Mutex<Vec<String>>,
}

impl Ports for World {
    type Locks = MemoryLockStore;
    type Batches = MemoryBatchStore;
    type Tickets = MemoryBatchQueue;
    type Overflow = MemoryOverflowStore;
    type Quarantine = MemoryQuarantine;
    type Sources = MemorySourceQueues;
    type Clock = ManualClock;
    type Entropy = SeededEntropy;

    fn locks(&self) -> &MemoryLockStore {
        &self.locks
    }
    fn batches(&self) -> &MemoryBatchStore {
        &self.batches
    }
    fn tickets(&self) -> &MemoryBatchQueue {
        &self.tickets
    }
    fn overflow(&self) -> &MemoryOverflowStore {
        &self.overflow
    }
    fn quarantine(&self) -> Option<&MemoryQuarantine> {
        self.quarantine.as_ref()
    }
    fn sources(&self) -> &MemorySourceQueues {
        &self.sources
    }
    fn clock(&self) -> &ManualClock {
        &self.clock
    }
    fn entropy(&self) -> &SeededEntropy {
        &self.entropy
    }
    fn emit(&self, line: &str) {
        self.lines.lock().unwrap().push(line.to_owned());
    }
}

fn aggregator(variables: &[(&str, &str)]) -> Handler<World> {
    let mut variables = variables.to_vec();
    variables.push(("EVENT_ID", "json:id"));
    let config = config(&variables);
    let current = Arc::new(CurrentBatches::new(config.limits));
    let world = World {
        locks: MemoryLockStore::new(),
        batches: MemoryBatchStore::new(),
        tickets: MemoryBatchQueue::new(),
        overflow: MemoryOverflowStore::new(),
        quarantine: Some(MemoryQuarantine::new()),
        sources: MemorySourceQueues::new(),
        clock: ManualClock::at(START),
        entropy: SeededEntropy::new(7),
        lines: Mutex::default(),
    };
    Handler::new(config, world, current)
}

/// Invokes with (message id, event id, rest of the content); answers the ids reported as failed.
async fn invoke(handler: &Handler<World>, messages: &[(&str, &str, &str)]) -> Vec<String> {
    let deadline = handler.ports().clock().now() + Duration::from_secs(15);
    invoke_until(handler, messages, deadline).await
}

async fn invoke_until(
    handler: &Handler<World>,
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
    let response = handler.handle(event, &invocation).await.unwrap();
    response
        .batch_item_failures
        .into_iter()
        .map(|failure| failure.item_identifier)
        .collect()
}

fn only_batch(handler: &Handler<World>) -> BatchRecord {
    let records = handler.ports().batches.records();
    assert_eq!(records.len(), 1, "{records:?}");
    records[0].clone()
}

/// Puts a live claim of `message` for `event` into batch 1 at `seq`, by nobody's account.
async fn live_claim(handler: &Handler<World>, message: &str, event: &str, seq: u32) -> BatchId {
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
    handler.ports().locks.claim(&[claim]).await;
    batch
}

/// Gives `batch` a record that is complete and has delivered `members`.
async fn complete_batch(handler: &Handler<World>, batch: BatchId, members: &[u32]) {
    let store = &handler.ports().batches;
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
    let handler = aggregator(&[]);
    assert!(
        invoke(&handler, &[("m1", "e1", ""), ("m2", "e2", "")])
            .await
            .is_empty()
    );
    let record = only_batch(&handler);
    assert_eq!(
        (record.status, record.confirmed, record.settled.len()),
        (Some(Status::Open), 2, 2)
    );
    let tickets = handler.ports().tickets.take();
    assert_eq!(tickets.len(), 1);
    assert_eq!(
        (tickets[0].0.batch_id, tickets[0].0.reason),
        (record.batch_id, Some(TicketReason::Window))
    );
    // 15 s to the deadline, 300 s of window, 2 s of clock skew.
    assert_eq!(tickets[0].1, Duration::from_secs(317));
    assert!(handler.ports().lines.lock().unwrap()[0].contains(r#""Claimed":2"#));
}

#[tokio::test]
async fn later_invocations_join_the_batch_until_its_window_closes() {
    let handler = aggregator(&[]);
    invoke(&handler, &[("m1", "e1", "")]).await;
    handler.ports().clock.advance(Duration::from_secs(299));
    invoke(&handler, &[("m2", "e2", "")]).await;
    assert_eq!(only_batch(&handler).confirmed, 2);
    handler.ports().clock.advance(Duration::from_secs(1));
    invoke(&handler, &[("m3", "e3", "")]).await;
    let records = handler.ports().batches.records();
    assert_eq!(records.len(), 2);
    assert_eq!(
        records[0].status,
        Some(Status::Sealed),
        "found past its window"
    );
    let reasons: Vec<_> = handler
        .ports()
        .tickets
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
    let handler = aggregator(&[("MAX_BATCH_SIZE", "3")]);
    let failed = invoke(
        &handler,
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
        &handler,
        &[("m6", "e1", ""), ("m7", "e5", ""), ("m8", "e6", "")],
    )
    .await;
    let sizes: Vec<_> = handler
        .ports()
        .batches
        .records()
        .iter()
        .map(|record| (record.status, record.confirmed))
        .collect();
    assert_eq!(
        sizes,
        [(Some(Status::Sealed), 3), (Some(Status::Sealed), 3)]
    );
    let immediate = handler
        .ports()
        .tickets
        .take()
        .into_iter()
        .filter(|(_, delay)| delay.is_zero())
        .count();
    assert_eq!(immediate, 2);
}

/// What the table holds of an event; taken out of it, so that only the environment still knows of it.
fn taken_away(handler: &Handler<World>, event: &str) -> EventId {
    let event: EventId = event.parse().unwrap();
    assert!(handler.ports().locks.get(&event).is_some());
    handler.ports().locks.remove(&event);
    event
}

#[tokio::test]
async fn duplicates_of_counted_claims_of_the_open_batch_ask_nothing_of_the_table() {
    let handler = aggregator(&[]);
    invoke(&handler, &[("m1", "e1", ""), ("m2", "e2", "")]).await;
    let event = taken_away(&handler, "e1");
    let failed = invoke(
        &handler,
        &[("m1", "e1", ""), ("m3", "e1", ""), ("m4", "e3", "")],
    )
    .await;
    assert!(failed.is_empty(), "{failed:?}");
    assert_eq!(handler.ports().locks.get(&event), None);
    assert_eq!(only_batch(&handler).confirmed, 3);
    assert_eq!(
        only_batch(&handler).settled.len(),
        3,
        "they have had no seats"
    );
    let line = handler.ports().lines.lock().unwrap().pop().unwrap();
    assert!(line.contains(r#""Duplicates":1"#), "{line}");
    assert!(line.contains(r#""Redelivered":1"#), "{line}");
}

#[tokio::test]
async fn other_content_under_a_known_id_is_for_the_table_to_judge() {
    let handler = aggregator(&[]);
    invoke(&handler, &[("m1", "e1", "")]).await;
    invoke(&handler, &[("m2", "e1", "other")]).await;
    let quarantine = handler.ports().quarantine.as_ref().unwrap();
    assert_eq!(quarantine.take().len(), 1);
}

#[tokio::test]
async fn nothing_is_known_past_the_window_or_of_a_batch_that_is_full() {
    let handler = aggregator(&[("MAX_BATCH_SIZE", "2")]);
    invoke(&handler, &[("m1", "e1", "")]).await;
    let event = taken_away(&handler, "e1");
    handler.ports().clock.advance(Duration::from_secs(300));
    invoke(&handler, &[("m2", "e1", "")]).await;
    assert!(handler.ports().locks.get(&event).is_some(), "claimed anew");
    invoke(&handler, &[("m3", "e2", "")]).await;
    let event = taken_away(&handler, "e2");
    invoke(&handler, &[("m4", "e2", "")]).await;
    assert!(handler.ports().locks.get(&event).is_some(), "claimed anew");
}

#[tokio::test]
async fn requeue_gives_duplicates_back_and_takes_them_after_the_first() {
    let handler = aggregator(&[("ON_DUPLICATE", "requeue")]);
    assert_eq!(
        invoke(&handler, &[("m1", "e1", ""), ("m2", "e1", "")]).await,
        ["m2"]
    );
    assert_eq!(invoke(&handler, &[("m2", "e1", "")]).await, ["m2"]);
    let batch = only_batch(&handler).batch_id;
    let released = (
        "e1".parse().unwrap(),
        Seat {
            batch,
            seq: 0,
            shards: 10,
        }
        .place(),
    );
    let expires_at = handler.ports().clock.now() + Duration::from_secs(3_600);
    handler
        .ports()
        .locks
        .release(&[released], Release::Remembered(expires_at))
        .await;
    handler.ports().clock.advance(Duration::from_secs(300));
    assert!(invoke(&handler, &[("m2", "e1", "")]).await.is_empty());
    let (_, item) = &handler.ports().locks.items()[0];
    assert!(matches!(item.state, LockState::Live { .. }) && item.past.len() == 1);
    let before = handler.ports().batches.records();
    assert!(
        invoke(&handler, &[("m1", "e1", "")]).await.is_empty(),
        "the first message is still remembered"
    );
    let confirmed =
        |records: Vec<BatchRecord>| -> u64 { records.iter().map(|record| record.confirmed).sum() };
    assert_eq!(
        confirmed(handler.ports().batches.records()),
        confirmed(before)
    );
}

#[tokio::test]
async fn a_redelivery_is_acknowledged_only_after_its_batch_knows_the_claim() {
    let handler = aggregator(&[]);
    let batch = live_claim(&handler, "m1", "e1", 4).await;
    let record = BatchRecord::open(
        batch,
        "arn:q".parse().unwrap(),
        None,
        10,
        START,
        START + Duration::from_secs(9),
    );
    handler.ports().batches.create(&record).await.unwrap();
    assert!(invoke(&handler, &[("m1", "e1", "")]).await.is_empty());
    let record = handler.ports().batches.read(batch).await.unwrap().unwrap();
    assert!(record.witnessed.contains(4) && record.witnesses == 1);
}

#[tokio::test]
async fn an_orphaned_claim_is_claimed_anew_by_whoever_comes() {
    for message in ["m1", "m2"] {
        let handler = aggregator(&[]);
        let batch = live_claim(&handler, "m1", "e1", 4).await;
        complete_batch(&handler, batch, &[0, 1, 2]).await;
        assert!(invoke(&handler, &[(message, "e1", "")]).await.is_empty());
        let (_, item) = &handler.ports().locks.items()[0];
        assert_eq!(item.sqs_message_id.as_str(), message);
        assert!(matches!(item.state, LockState::Live { shard, .. } if shard.batch != batch));
        let confirmed: u64 = handler
            .ports()
            .batches
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
        let handler = aggregator(&[]);
        let batch = live_claim(&handler, "m1", "e1", 4).await;
        complete_batch(&handler, batch, &[4]).await;
        assert!(invoke(&handler, &[(message, "e1", "")]).await.is_empty());
        let confirmed: u64 = handler
            .ports()
            .batches
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
    let handler = aggregator(&[]);
    invoke(&handler, &[("m1", "e1", "a")]).await;
    assert!(
        invoke(
            &handler,
            &[("m2", "e1", "b"), ("m3", "", ""), ("m4", "e4", "")]
        )
        .await
        .is_empty()
    );
    let quarantined = handler.ports().quarantine.as_ref().unwrap().take();
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
    assert_eq!(only_batch(&handler).confirmed, 2);
}

#[tokio::test]
async fn without_a_quarantine_the_message_itself_comes_back() {
    let mut handler = aggregator(&[]);
    handler.ports.quarantine = None;
    assert_eq!(
        invoke(&handler, &[("m1", "", ""), ("m2", "e2", "")]).await,
        ["m1"]
    );
}

#[tokio::test]
async fn nothing_is_started_within_the_margin_of_the_deadline() {
    let handler = aggregator(&[]);
    let deadline = handler.ports().clock.now() + Duration::from_millis(2_999);
    assert_eq!(
        invoke_until(&handler, &[("m1", "e1", ""), ("m2", "e2", "")], deadline).await,
        ["m1", "m2"]
    );
    assert!(
        handler.ports().batches.records().is_empty() && handler.ports().locks.items().is_empty()
    );
}

#[tokio::test]
async fn a_claim_whose_batch_ended_before_it_was_counted_is_not_acknowledged() {
    let handler = aggregator(&[]);
    invoke(&handler, &[("m1", "e1", "")]).await;
    let batch = only_batch(&handler).batch_id;
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
        handler.ports().batches.write(batch, &write).await.unwrap();
    }
    assert_eq!(invoke(&handler, &[("m2", "e2", "")]).await, ["m2"]);
}

#[tokio::test]
async fn each_batch_key_has_a_batch_of_its_own_up_to_the_cap() {
    let handler = aggregator(&[("BATCH_KEY", "content"), ("BATCH_KEYS_MAX", "2")]);
    let failed = invoke(
        &handler,
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
    let mut batches: Vec<_> = handler
        .ports()
        .batches
        .records()
        .into_iter()
        .map(|record| (record.batch_key.unwrap().to_string(), record.confirmed))
        .collect();
    batches.sort();
    assert_eq!(batches, [("a".to_owned(), 2), ("b".to_owned(), 1)]);
}

#[tokio::test]
async fn repro_a_request_that_got_its_place_after_the_margin_was_sent_all_the_same() {
    let handler = aggregator(&[("WRITE_CONCURRENCY", "1")]);
    let clock = &handler.ports().clock;
    let budget = Budget {
        clock,
        entropy: &handler.ports().entropy,
        stop_at: clock.now() + Duration::from_secs(1),
    };
    let first = handler.place(&budget).await.unwrap();
    let second = handler.limited(&budget, async { Ok("sent") });
    let first_ends_late = async {
        tokio::task::yield_now().await;
        clock.advance(Duration::from_secs(1));
        drop(first);
    };
    let (second, ()) = futures::future::join(second, first_ends_late).await;
    let error = second.unwrap_err();
    assert!(matches!(error, PortError::DeadlineReached), "{error:?}");
}
