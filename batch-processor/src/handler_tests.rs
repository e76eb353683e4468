use std::sync::{Arc, Mutex};
use std::time::Duration;

use protocol::batch::{Account, BatchRecord, BatchWrite, Lease, PartRecord, PartState, Status};
use protocol::claim::{Candidate, Claim, LockState, Overflow, PastDeliveries};
use protocol::claim::{ClaimRules, DuplicateRule, LockItem, Outcome, Verdict, classify};
use protocol::ids::{BatchId, BodyHash, EventId, Seat};
use protocol::limits::{DUE_GRACE, PARTS_FOR_STRAGGLERS, REMINDED_FOR, TICKET_BACKOFF_MAX};
use serde_json::json;
use shared::memory::{Fakes, MemoryBatchStore};
use shared::ports::{BatchStore, Clock, LockStore, OverflowStore, Quarantined, Release};
use shared::wire::TicketReason;

use super::*;
use sinks::{Part, Receipt, SinkError, async_trait};

const START: Timestamp = Timestamp::from_ms(1_000_000_000);

/// What the sink was given: key and event ids, and bodies; and what it answers next.
#[derive(Default)]
struct TestSink {
    seen: Mutex<Vec<(String, Vec<String>)>>,
    bodies: Mutex<Vec<String>>,
    failures: Mutex<Vec<SinkError>>,
    fingerprint: Mutex<String>,
}

impl TestSink {
    /// Fails so often, for now.
    fn fail(&self, times: usize) {
        let down = || SinkError::Retryable {
            reason: "down".to_owned(),
        };
        *self.failures.lock().unwrap() = std::iter::repeat_with(down).take(times).collect();
    }
}

#[async_trait]
impl Sink for TestSink {
    fn fingerprint(&self) -> String {
        self.fingerprint.lock().unwrap().clone()
    }

    async fn deliver(&self, part: &Part) -> Result<Receipt, SinkError> {
        let ids = part
            .items
            .iter()
            .map(|item| item.event_id.to_string())
            .collect();
        self.seen.lock().unwrap().push((part.key(), ids));
        let bodies = part.items.iter().map(|item| item.body.to_string());
        self.bodies.lock().unwrap().extend(bodies);
        match self.failures.lock().unwrap().pop() {
            Some(error) => Err(error),
            None => Ok(Receipt::new("ok")),
        }
    }
}

/// A batch processor over fakes.
struct Processor {
    handler: Handler,
    fakes: Fakes,
    sink: Arc<TestSink>,
}

fn batch() -> BatchId {
    "0190163d-8694-739b-aea5-966c26f8ad91".parse().unwrap()
}

fn a_processor() -> Processor {
    processor_of(config(), MemoryBatchStore::new())
}

/// A processor whose parts are of so many bytes.
fn processor_with_parts_of(part_bytes_max: u64) -> Processor {
    let config = Config {
        part_bytes_max,
        ..config()
    };
    processor_of(config, MemoryBatchStore::new())
}

fn config() -> Config {
    let variables = [
        ("DDB_LOCK_TABLE", "lock-table"),
        ("DDB_BATCH_TABLE", "batch-table"),
        (
            "BATCH_QUEUE_URL",
            "https://sqs.eu-west-1.amazonaws.com/1/batch-queue",
        ),
    ];
    let lookup = |name: &str| {
        let found = variables.iter().find(|(key, _)| *key == name);
        found.map(|(_, value)| (*value).to_owned())
    };
    Config::read(&lookup).unwrap()
}

fn processor_of(config: Config, batch_store: MemoryBatchStore) -> Processor {
    let fakes = Fakes {
        batch_store: Arc::new(batch_store),
        ..Fakes::at(START)
    };
    let sink = Arc::new(TestSink::default());
    Processor {
        handler: Handler::new(config, fakes.ports(), sink.clone()),
        fakes,
        sink,
    }
}

/// An open batch, past its window, with live claims of these seqs; `confirmed` of them are counted.
async fn opened(processor: &Processor, seqs: &[u32], confirmed: u64) {
    let at = START.saturating_sub(Duration::from_secs(60));
    let world = &processor.fakes;
    let record = BatchRecord::open(batch(), "arn:q".parse().unwrap(), None, 3, at, START);
    world.batch_store.create(&record).await.unwrap();
    let settled = seqs.iter().copied().take(confirmed as usize).collect();
    write(
        processor,
        BatchWrite::Account(Account {
            confirmed,
            uncertain: 0,
            settled,
            version: 1,
        }),
    )
    .await;
    for seq in seqs {
        claim(processor, *seq).await;
    }
}

async fn claim(processor: &Processor, seq: u32) {
    let claim = a_claim(seq);
    processor.fakes.lock_store.claim(&[claim]).await;
}

fn a_claim(seq: u32) -> Claim {
    let body = format!("body {seq}");
    Claim {
        candidate: Candidate {
            event_id: format!("e{seq}").parse().unwrap(),
            sqs_message_id: format!("m{seq}").parse().unwrap(),
            body_hash: BodyHash::of(body.as_bytes()),
            body: body.into(),
            compressed: None,
            source: "arn:q".parse().unwrap(),
            sent_at: START,
            attributes: None,
        },
        seat: Seat {
            batch: batch(),
            seq,
            shards: 3,
        },
        overflow: None,
        past: PastDeliveries::new(),
    }
}

async fn write(processor: &Processor, write: BatchWrite) {
    let reply = processor
        .fakes
        .batch_store
        .write(batch(), &write)
        .await
        .unwrap();
    assert!(
        matches!(reply, shared::ports::BatchReply::Applied(_)),
        "{write:?}"
    );
}

async fn seal(processor: &Processor, seqs: u32) {
    let account = Account {
        confirmed: u64::from(seqs),
        uncertain: 0,
        settled: (0..seqs).collect(),
        version: 2,
    };
    write(processor, BatchWrite::Seal { account, at: START }).await;
}

/// Invokes with messages of the batch queue; answers the ids of those given back.
async fn invoke(
    processor: &Processor,
    event: serde_json::Value,
    invocation: &Invocation,
) -> Vec<String> {
    let event = serde_json::from_value(event).unwrap();
    match processor.handler.handle(event, invocation).await.unwrap() {
        Response::Tickets(response) => response
            .batch_item_failures
            .into_iter()
            .map(|failure| failure.item_identifier)
            .collect(),
        Response::Swept(swept) => panic!("{swept:?}"),
    }
}

/// Invokes with one message; whether it was given back.
async fn given_back(processor: &Processor, body: &str) -> bool {
    received(processor, body, 1).await
}

/// Invokes with one message that was received so often; whether it was given back.
async fn received(processor: &Processor, body: &str, receives: u32) -> bool {
    static REQUESTS: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
    let request = REQUESTS.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let event = json!({ "Records": [{
        "messageId": "t1",
        "receiptHandle": "receipt",
        "attributes": { "ApproximateReceiveCount": receives.to_string() },
        "eventSourceARN": "arn:b",
        "body": body,
    }] });
    let invocation = Invocation {
        function: "batch-processor".to_owned(),
        request_id: format!("r{request}"),
        deadline: processor.fakes.clock.now() + Duration::from_secs(60),
    };
    invoke(processor, event, &invocation).await.len() == 1
}

async fn ticket(processor: &Processor) -> bool {
    given_back(
        processor,
        &Ticket::new(batch(), TicketReason::Window).to_body(),
    )
    .await
}

fn record(processor: &Processor) -> BatchRecord {
    processor.fakes.batch_store.records().remove(0)
}

fn delivered(processor: &Processor) -> Vec<(String, Vec<String>)> {
    std::mem::take(&mut *processor.sink.seen.lock().unwrap())
}

fn ids(seqs: &[u32]) -> Vec<String> {
    seqs.iter().map(|seq| format!("e{seq}")).collect()
}

fn live(processor: &Processor) -> Vec<EventId> {
    let items = processor.fakes.lock_store.items().into_iter();
    items
        .filter(|(_, item)| matches!(item.state, LockState::Live { .. }))
        .map(|(id, _)| id)
        .collect()
}

#[tokio::test]
async fn a_sealed_batch_is_delivered_in_order_released_and_complete_in_one_go() {
    let processor = a_processor();
    let seqs: Vec<u32> = (0..40).collect();
    opened(&processor, &seqs, 0).await;
    seal(&processor, 40).await;
    assert!(!ticket(&processor).await);
    assert_eq!(
        delivered(&processor),
        [(format!("{}/0", batch()), ids(&seqs))]
    );
    let record = record(&processor);
    assert_eq!((record.status, record.completed_at), (None, Some(START)));
    assert!(live(&processor).is_empty());
    let window = START + Duration::from_secs(3_600);
    assert!(
        processor
            .fakes
            .lock_store
            .items()
            .iter()
            .all(|(_, item)| item.expires_at() == Some(window))
    );
    assert!(processor.fakes.batch_queue.take().is_empty());
    assert!(!ticket(&processor).await, "a repeated ticket is harmless");
    assert!(delivered(&processor).is_empty());
}

#[tokio::test]
async fn an_unsealed_batch_is_looked_at_again_and_stragglers_make_another_part() {
    let processor = a_processor();
    opened(&processor, &[0, 1], 2).await;
    assert!(!ticket(&processor).await);
    assert_eq!(
        delivered(&processor),
        [(format!("{}/0", batch()), ids(&[0, 1]))]
    );
    let tickets = processor.fakes.batch_queue.take();
    assert_eq!(
        (tickets[0].0.reason, tickets[0].1),
        (Some(TicketReason::Verify), Duration::from_secs(60))
    );
    claim(&processor, 2).await;
    processor.fakes.clock.advance(Duration::from_secs(60));
    assert!(!ticket(&processor).await);
    assert_eq!(
        delivered(&processor),
        [(format!("{}/1", batch()), ids(&[2]))]
    );
    assert_eq!(
        record(&processor).status,
        Some(Status::Processing),
        "what was found starts the wait anew"
    );
    processor.fakes.clock.advance(Duration::from_secs(60));
    assert!(!ticket(&processor).await);
    assert_eq!(record(&processor).status, None);
    assert!(delivered(&processor).is_empty() && live(&processor).is_empty());
}

#[tokio::test]
async fn nothing_is_delivered_short_of_what_was_counted() {
    let processor = a_processor();
    opened(&processor, &[0, 1], 2).await;
    write(
        &processor,
        BatchWrite::Witness {
            witnessed: [5].into_iter().collect(),
            witnesses: 0,
        },
    )
    .await;
    assert!(
        ticket(&processor).await,
        "seq 5 is known to exist and is not seen"
    );
    assert!(delivered(&processor).is_empty());
    let record = record(&processor);
    assert_eq!(
        (record.lease, record.status),
        (None, Some(Status::Processing))
    );
    claim(&processor, 5).await;
    assert!(!ticket(&processor).await);
    assert_eq!(delivered(&processor)[0].1, ids(&[0, 1, 5]));
}

#[tokio::test]
async fn a_part_is_the_same_at_every_attempt_whatever_came_since() {
    let processor = a_processor();
    opened(&processor, &[0, 1], 2).await;
    processor.sink.fail(1_000);
    assert!(ticket(&processor).await);
    processor.sink.fail(0);
    claim(&processor, 2).await;
    assert!(!ticket(&processor).await);
    let mut attempts = delivered(&processor);
    let straggler = attempts.pop().unwrap();
    assert!(attempts.len() > 2, "again and again while there was time");
    let first = (format!("{}/0", batch()), ids(&[0, 1]));
    assert!(
        attempts.iter().all(|attempt| *attempt == first),
        "{attempts:?}"
    );
    assert_eq!(straggler, (format!("{}/1", batch()), ids(&[2])));
}

#[tokio::test]
async fn leftovers_of_a_release_are_released_and_never_delivered_again() {
    let processor = a_processor();
    opened(&processor, &[0, 1, 2], 0).await;
    seal(&processor, 3).await;
    // A run before this one delivered everything and died in the middle of the release.
    let owner: LeaseOwner = "dead".parse().unwrap();
    let part = PartRecord::frozen((0..3).collect(), [0; 32], None);
    let lease = Lease {
        owner: owner.clone(),
        until: START.saturating_sub(Duration::from_secs(5)),
    };
    write(
        &processor,
        BatchWrite::Lease {
            lease,
            at: START,
            operator: None,
        },
    )
    .await;
    write(
        &processor,
        BatchWrite::Freeze {
            owner: owner.clone(),
            index: 0,
            part,
        },
    )
    .await;
    write(
        &processor,
        BatchWrite::Delivered {
            owner,
            index: 0,
            receipt: "r".to_owned(),
            delivered: None,
        },
    )
    .await;
    let place = Seat {
        batch: batch(),
        seq: 0,
        shards: 3,
    }
    .place();
    processor
        .fakes
        .lock_store
        .release(
            &[("e0".parse().unwrap(), place)],
            Release::Remembered(START),
        )
        .await;
    assert!(!ticket(&processor).await);
    assert!(delivered(&processor).is_empty() && live(&processor).is_empty());
    assert_eq!(
        record(&processor).status,
        Some(Status::Processing),
        "one release was not seen by this run"
    );
    processor.fakes.clock.advance(Duration::from_secs(60));
    assert!(!ticket(&processor).await);
    assert_eq!(record(&processor).status, None);
}

#[tokio::test]
async fn what_the_sink_refuses_for_good_waits_for_an_operator() {
    let processor = a_processor();
    opened(&processor, &[0], 1).await;
    let failure = SinkError::Permanent {
        reason: "no such customer".to_owned(),
    };
    processor.sink.failures.lock().unwrap().push(failure);
    assert!(!ticket(&processor).await);
    let failed = record(&processor);
    assert_eq!(
        (failed.status, failed.error.as_deref()),
        (Some(Status::Error), Some("no such customer"))
    );
    assert_eq!(live(&processor).len(), 1);
    assert!(
        !ticket(&processor).await,
        "acknowledged, but not tried again"
    );
    assert_eq!(delivered(&processor).len(), 1);
    let operator = Ticket::new(batch(), TicketReason::Operator).to_body();
    assert!(!given_back(&processor, &operator).await);
    assert_eq!(delivered(&processor)[0].1, ids(&[0]));
}

#[tokio::test]
async fn tickets_that_cannot_be_worked_on_are_given_back() {
    let processor = a_processor();
    assert!(ticket(&processor).await, "no such batch");
    assert!(given_back(&processor, "not a ticket").await);
    let later = START + Duration::from_secs(10);
    let open = BatchRecord::open(batch(), "arn:q".parse().unwrap(), None, 3, START, later);
    processor.fakes.batch_store.create(&open).await.unwrap();
    assert!(ticket(&processor).await, "too early");
    seal(&processor, 0).await;
    let lease = Lease {
        owner: "other".parse().unwrap(),
        until: later,
    };
    write(
        &processor,
        BatchWrite::Lease {
            lease,
            at: START,
            operator: None,
        },
    )
    .await;
    assert!(
        !ticket(&processor).await,
        "somebody works on it, and goes on"
    );
    assert_eq!(record(&processor).attempts, 1);
    processor.fakes.clock.advance(Duration::from_secs(12));
    assert!(
        !ticket(&processor).await,
        "taken over after its owner's end"
    );
    assert!(record(&processor).due_at >= later + DUE_GRACE);
}

#[tokio::test]
async fn two_tickets_in_one_event_are_judged_one_by_one() {
    let processor = a_processor();
    opened(&processor, &[0], 0).await;
    seal(&processor, 1).await;
    let good = Ticket::new(batch(), TicketReason::Sealed).to_body();
    let event = json!({ "Records": [
        { "messageId": "t1", "body": "{}" },
        { "messageId": "t2", "body": good },
        { "messageId": "t3", "body": good },
    ] });
    let invocation = Invocation {
        function: "batch-processor".to_owned(),
        request_id: "r".to_owned(),
        deadline: START + Duration::from_secs(60),
    };
    let failed = invoke(&processor, event, &invocation).await;
    assert_eq!(failed, ["t1"]);
    assert_eq!(delivered(&processor).len(), 1);
}

async fn sweep(processor: &Processor) -> crate::sweep::Swept {
    let invocation = Invocation {
        function: "batch-processor".to_owned(),
        request_id: "sweep".to_owned(),
        deadline: processor.fakes.clock.now() + Duration::from_secs(60),
    };
    match processor
        .handler
        .handle(Event::Sweep, &invocation)
        .await
        .unwrap()
    {
        Response::Swept(swept) => swept,
        Response::Tickets(_) => panic!("not a sweep"),
    }
}

#[tokio::test]
async fn the_sweep_sends_a_ticket_for_a_batch_that_is_overdue_and_not_before() {
    let processor = a_processor();
    opened(&processor, &[0, 1], 2).await;
    let early = sweep(&processor).await;
    assert_eq!((early.overdue, early.tickets_sent), (0, 0));
    processor.fakes.clock.advance(DUE_GRACE * 2);
    let late = sweep(&processor).await;
    assert_eq!((late.overdue, late.tickets_sent), (1, 1));
    assert!(late.oldest_overdue_age_ms > 0);
    let sent = processor.fakes.batch_queue.take();
    assert_eq!(sent.len(), 1);
    assert_eq!(sent[0].0.batch_id, batch());
    assert_eq!(sent[0].0.reason, Some(TicketReason::Sweep));
    assert_eq!(sent[0].1, Duration::ZERO);
}

#[tokio::test]
async fn the_sweep_counts_a_batch_in_error_and_leaves_it_to_the_operator() {
    let processor = a_processor();
    opened(&processor, &[0], 1).await;
    let refusal = SinkError::Permanent {
        reason: "no such account".to_owned(),
    };
    processor.sink.failures.lock().unwrap().push(refusal);
    assert!(
        !ticket(&processor).await,
        "a refusal for good ends the ticket"
    );
    processor.fakes.clock.advance(DUE_GRACE * 1_000);
    let swept = sweep(&processor).await;
    assert_eq!(
        (swept.in_error, swept.overdue, swept.tickets_sent),
        (1, 0, 0)
    );
    assert!(processor.fakes.batch_queue.take().is_empty());
}

#[tokio::test]
async fn the_sweep_finds_a_batch_whose_processor_died_once_its_lease_is_over() {
    let processor = a_processor();
    opened(&processor, &[0], 1).await;
    let now = processor.fakes.clock.now();
    let lease = Lease {
        owner: "dead".parse().unwrap(),
        until: now + Duration::from_secs(60),
    };
    let at = now;
    write(
        &processor,
        BatchWrite::Lease {
            lease,
            at,
            operator: None,
        },
    )
    .await;
    let held = sweep(&processor).await;
    assert_eq!((held.processing, held.overdue), (1, 0));
    processor
        .fakes
        .clock
        .advance(Duration::from_secs(60) + DUE_GRACE * 2);
    assert_eq!(sweep(&processor).await.tickets_sent, 1);
}

#[tokio::test]
async fn a_batch_larger_than_a_part_is_delivered_in_several_and_each_event_once() {
    // Four events of 256 bytes and some fill a part.
    let processor = processor_with_parts_of(1_024);
    let seqs: Vec<u32> = (0..23).collect();
    opened(&processor, &seqs, 23).await;
    seal(&processor, 23).await;
    assert!(!ticket(&processor).await);
    let parts = delivered(&processor);
    assert!(parts.len() > 1, "{parts:?}");
    let events: Vec<String> = parts.iter().flat_map(|(_, ids)| ids.clone()).collect();
    assert_eq!(events, ids(&seqs), "in seq order over all parts");
    for (number, (key, _)) in parts.iter().enumerate() {
        assert_eq!(*key, format!("{}/{number}", batch()));
    }
    assert_eq!(record(&processor).status, None);
    assert_eq!(live(&processor), []);
}

#[tokio::test]
async fn nothing_of_a_large_batch_is_delivered_while_the_index_lacks_some_of_it() {
    let processor = processor_with_parts_of(1_024);
    opened(&processor, &(0..23).collect::<Vec<_>>(), 23).await;
    seal(&processor, 24).await;
    assert!(ticket(&processor).await);
    assert_eq!(delivered(&processor), []);
}

/// Puts a claim of this seq, whose body is elsewhere, into the batch; answers where that is.
async fn claim_elsewhere(processor: &Processor, seq: u32) -> Overflow {
    let place = Overflow {
        bucket: "bodies".into(),
        key: format!("{}/{seq}", batch()),
        bytes: 6,
    };
    let claim = Claim {
        overflow: Some(place.clone()),
        ..a_claim(seq)
    };
    processor.fakes.lock_store.claim(&[claim]).await;
    place
}

#[tokio::test]
async fn a_body_that_is_elsewhere_is_delivered_with_the_others_and_removed_once_released() {
    let processor = a_processor();
    opened(&processor, &[0, 1], 2).await;
    seal(&processor, 3).await;
    let place = claim_elsewhere(&processor, 2).await;
    let body: Arc<str> = "body 2".into();
    processor
        .fakes
        .overflow_store
        .put(&place, &body)
        .await
        .unwrap();
    assert!(!ticket(&processor).await);
    let bodies = processor.sink.bodies.lock().unwrap().clone();
    assert_eq!(bodies, ["body 0", "body 1", "body 2"]);
    assert_eq!(processor.fakes.overflow_store.keys(), [""; 0]);
    assert_eq!(record(&processor).status, None);
}

#[tokio::test]
async fn a_body_that_is_not_where_its_claim_says_puts_the_batch_in_error_with_its_name() {
    for other in [None, Some("other!")] {
        let processor = a_processor();
        opened(&processor, &[0, 1], 2).await;
        seal(&processor, 3).await;
        let place = claim_elsewhere(&processor, 2).await;
        if let Some(other) = other {
            let body: Arc<str> = other.into();
            processor
                .fakes
                .overflow_store
                .put(&place, &body)
                .await
                .unwrap();
        }
        assert!(!ticket(&processor).await);
        let failed = record(&processor);
        assert_eq!(failed.status, Some(Status::Error));
        let error = failed.error.unwrap();
        assert!(
            error.contains("`e2`") && error.contains(&place.to_string()),
            "{error}"
        );
        assert_eq!(delivered(&processor), []);
        assert_eq!(live(&processor).len(), 3);
        // Restored, it is delivered; or what there is goes to the quarantine, with what is wrong.
        let body: Arc<str> = "body 2".into();
        let word = match other {
            Some(_) => TicketReason::Operator,
            None => TicketReason::Quarantine,
        };
        if word == TicketReason::Operator {
            processor
                .fakes
                .overflow_store
                .put(&place, &body)
                .await
                .unwrap();
        }
        assert!(!given_back(&processor, &Ticket::new(batch(), word).to_body()).await);
        let bodies = processor.sink.bodies.lock().unwrap().clone();
        let quarantined = processor.fakes.quarantine_queue.take();
        match word {
            TicketReason::Operator => assert_eq!(bodies, ["body 0", "body 1", "body 2"]),
            _ => {
                assert_eq!(quarantined.len(), 3);
                assert!(
                    quarantined[2].body.contains(&place.to_string()),
                    "{quarantined:?}"
                );
            }
        }
        assert_eq!(record(&processor).status, None);
    }
}

#[tokio::test]
async fn repro_a_batch_of_more_bytes_than_its_parts_may_hold_was_stranded() {
    // Two parts for all of it, whatever a part may hold: one event of 256 bytes and some.
    let config = Config {
        part_bytes_max: 256,
        parts_max: PARTS_FOR_STRAGGLERS + 2,
        ..config()
    };
    let processor = processor_of(config, MemoryBatchStore::new());
    let seqs: Vec<u32> = (0..300).collect();
    opened(&processor, &seqs, 300).await;
    seal(&processor, 300).await;
    assert!(!ticket(&processor).await);
    let parts = delivered(&processor);
    assert_eq!(parts.len(), 2);
    let events: Vec<String> = parts.iter().flat_map(|(_, ids)| ids.clone()).collect();
    assert_eq!(events, ids(&seqs));
    assert_eq!(
        (record(&processor).status, live(&processor).len()),
        (None, 0)
    );
}

#[tokio::test]
async fn more_parts_than_there_may_be_put_the_batch_in_error_which_setting_it_aside_ends() {
    let config = Config {
        parts_max: PARTS_FOR_STRAGGLERS + 1,
        ..config()
    };
    let processor = processor_of(config, MemoryBatchStore::new());
    opened(&processor, &[], 0).await;
    let last = PARTS_FOR_STRAGGLERS as u32 + 1;
    for seq in 0..=last {
        claim(&processor, seq).await;
        assert!(!ticket(&processor).await);
        processor.fakes.clock.advance(Duration::from_secs(60));
    }
    let failed = record(&processor);
    assert_eq!(failed.status, Some(Status::Error));
    assert!(failed.error.unwrap().contains("expected at most 11"));
    assert!(
        !given_back(
            &processor,
            &Ticket::new(batch(), TicketReason::Operator).to_body()
        )
        .await
    );
    assert_eq!(
        record(&processor).status,
        Some(Status::Error),
        "the same again"
    );
    assert!(
        !given_back(
            &processor,
            &Ticket::new(batch(), TicketReason::Quarantine).to_body()
        )
        .await
    );
    processor.fakes.clock.advance(Duration::from_secs(60));
    assert!(!ticket(&processor).await);
    let quarantined = processor.fakes.quarantine_queue.take();
    assert_eq!(quarantined.len(), 1);
    assert!(quarantined[0].reason.contains("expected at most 11"));
    assert_eq!(
        (record(&processor).status, live(&processor).len()),
        (None, 0)
    );
}

#[tokio::test]
async fn repro_a_record_that_takes_no_further_write_was_tried_for_ever() {
    let other = a_processor();
    opened(&other, &[0, 1, 2], 3).await;
    seal(&other, 3).await;
    let item_bytes_max = record(&other).bytes() + 130;
    let batches = MemoryBatchStore::with_items_of(item_bytes_max);
    let processor = processor_of(config(), batches);
    opened(&processor, &[0, 1, 2], 3).await;
    seal(&processor, 3).await;
    // Frozen, its members make the record larger than the item may be; its error still fits.
    assert!(ticket(&processor).await, "given back once");
    assert_eq!(delivered(&processor), []);
    let failed = record(&processor);
    assert_eq!(failed.status, Some(Status::Error), "{failed:?}");
    assert!(failed.error.unwrap().contains("batch record: refused"));
    assert!(!ticket(&processor).await, "and not tried again");
}

fn quarantine() -> String {
    Ticket::new(batch(), TicketReason::Quarantine).to_body()
}

/// Puts the batch in error with a frozen part.
async fn refused(processor: &Processor) {
    let refusal = SinkError::Permanent {
        reason: "no such customer".to_owned(),
    };
    processor.sink.failures.lock().unwrap().push(refusal);
    assert!(!ticket(processor).await);
    assert_eq!(record(processor).status, Some(Status::Error));
}

#[tokio::test]
async fn a_batch_in_error_is_set_aside_on_an_operators_word_and_on_nobody_elses() {
    let processor = a_processor();
    opened(&processor, &[0, 1], 0).await;
    seal(&processor, 2).await;
    assert!(
        !given_back(&processor, &quarantine()).await,
        "it is not in error"
    );
    assert!(processor.fakes.quarantine_queue.take().is_empty() && delivered(&processor).is_empty());
    assert_eq!(record(&processor).status, Some(Status::Sealed));

    let processor = a_processor();
    opened(&processor, &[0, 1], 0).await;
    refused(&processor).await;
    seal_counted(&processor, 3).await;
    claim(&processor, 2).await;
    assert!(!given_back(&processor, &quarantine()).await);
    let quarantined = processor.fakes.quarantine_queue.take();
    let of = |message: &Quarantined| {
        (
            message.event_id.clone().unwrap().to_string(),
            message.body.to_string(),
        )
    };
    let sent: Vec<_> = quarantined.iter().map(of).collect();
    let expected = [0, 1, 2].map(|seq| (format!("e{seq}"), format!("body {seq}")));
    assert_eq!(sent, expected, "the frozen part, and what came since");
    assert!(
        quarantined
            .iter()
            .all(|message| message.reason == "no such customer")
    );
    let ended = record(&processor);
    assert_eq!(ended.set_aside, (0..3).collect());
    assert_eq!(ended.parts[0].state, PartState::SetAside);
    assert!(live(&processor).is_empty());
    assert_eq!(
        delivered(&processor).len(),
        1,
        "the sink was not asked again"
    );
}

/// Counts the claims of a batch that was taken before it was sealed.
async fn seal_counted(processor: &Processor, seqs: u32) {
    let account = Account {
        confirmed: u64::from(seqs),
        uncertain: 0,
        settled: (0..seqs).collect(),
        version: 2,
    };
    write(processor, BatchWrite::Account(account)).await;
}

#[tokio::test]
async fn what_is_set_aside_may_be_claimed_by_another_message_and_not_by_the_same() {
    let processor = a_processor();
    opened(&processor, &[0], 1).await;
    refused(&processor).await;
    assert!(!given_back(&processor, &quarantine()).await);
    let items = processor.fakes.lock_store.items();
    let [(_, item)] = &items[..] else {
        panic!("one item: {items:?}");
    };
    let rules = ClaimRules {
        on_duplicate: DuplicateRule::Drop,
        dedup_window: Duration::from_secs(3_600),
        past_deliveries_max: 4,
    };
    let judge = |message: &str, item: &LockItem| {
        let mut candidate = a_claim(0).candidate;
        candidate.sqs_message_id = message.parse().unwrap();
        // By a clock that is as far behind as clocks may be.
        let now = processor
            .fakes
            .clock
            .now()
            .saturating_sub(Duration::from_secs(2));
        classify(&candidate, None, item, &rules, now)
    };
    assert_eq!(judge("m0", item), Verdict::Done(Outcome::RedeliveredLate));
    assert!(matches!(judge("m9", item), Verdict::Replace { .. }));
}

#[tokio::test]
async fn whoever_takes_over_goes_on_setting_aside_and_delivers_nothing() {
    let processor = a_processor();
    opened(&processor, &[0, 1], 2).await;
    refused(&processor).await;
    delivered(&processor);
    // The operator's ticket is taken, and its processor dies at once.
    let lease = Lease {
        owner: "dead".parse().unwrap(),
        until: START.saturating_sub(Duration::from_secs(5)),
    };
    let operator = Some(protocol::batch::OperatorWord::Quarantine);
    let take = BatchWrite::Lease {
        lease,
        at: START,
        operator,
    };
    write(&processor, take).await;
    assert!(!ticket(&processor).await);
    assert_eq!(delivered(&processor), []);
    assert_eq!(processor.fakes.quarantine_queue.take().len(), 2);
    processor.fakes.clock.advance(Duration::from_secs(60));
    assert!(!ticket(&processor).await);
    assert_eq!(record(&processor).status, None);
}

#[tokio::test]
async fn repro_one_event_that_cannot_be_set_aside_had_the_others_sent_again_and_again() {
    let processor = a_processor();
    opened(&processor, &[0], 1).await;
    refused(&processor).await;
    claim(&processor, 1).await;
    let mut bad = a_claim(2);
    bad.candidate.body = "not \0 allowed".into();
    bad.candidate.body_hash = BodyHash::of(bad.candidate.body.as_bytes());
    processor.fakes.lock_store.claim(&[bad]).await;
    assert!(!given_back(&processor, &quarantine()).await);
    assert_eq!(processor.fakes.quarantine_queue.take().len(), 2);
    let failed = record(&processor);
    assert_eq!(failed.status, Some(Status::Error));
    let error = failed.error.unwrap();
    assert!(error.contains("`e2`") && error.contains("SQS"), "{error}");
    assert_eq!(failed.set_aside, (0..2).collect());
    let retry = Ticket::new(batch(), TicketReason::Operator);
    assert!(!given_back(&processor, &retry.to_body()).await);
    assert!(processor.fakes.quarantine_queue.take().is_empty());
    assert_eq!(record(&processor).status, Some(Status::Error));
}

#[tokio::test]
async fn repro_a_ticket_that_came_back_accepted_a_third_sink() {
    let processor = a_processor();
    let set = |sink: &str| *processor.sink.fingerprint.lock().unwrap() = sink.to_owned();
    set("file:///first");
    opened(&processor, &[0], 1).await;
    processor.sink.fail(1_000);
    assert!(ticket(&processor).await);
    set("file:///second");
    assert!(!ticket(&processor).await);
    assert_eq!(record(&processor).status, Some(Status::Error));
    let accept = Ticket {
        accept: Some(shared::wire::Accepted::NewSink),
        ..Ticket::new(batch(), TicketReason::Operator)
    };
    assert!(given_back(&processor, &accept.to_body()).await);
    assert_eq!(
        record(&processor).parts[0].sink.as_deref(),
        Some("file:///second")
    );
    delivered(&processor);
    processor.sink.fail(0);
    set("file:///third");
    assert!(!given_back(&processor, &accept.to_body()).await);
    assert_eq!(record(&processor).status, Some(Status::Error));
    assert_eq!(delivered(&processor), [], "nobody has accepted that one");
}

#[tokio::test]
async fn repro_a_part_that_was_frozen_for_one_sink_went_to_another() {
    let processor = a_processor();
    *processor.sink.fingerprint.lock().unwrap() = "file:///old, envelope".to_owned();
    opened(&processor, &[0], 1).await;
    processor.sink.fail(1_000);
    assert!(ticket(&processor).await);
    processor.sink.fail(0);
    delivered(&processor);
    let set = |sink: &str| *processor.sink.fingerprint.lock().unwrap() = sink.to_owned();
    set("file:///new, csv");
    assert!(!ticket(&processor).await);
    let failed = record(&processor);
    let error = failed.error.unwrap();
    assert_eq!(failed.status, Some(Status::Error));
    assert!(
        error.contains("`file:///old, envelope`") && error.contains("`file:///new, csv`"),
        "{error}"
    );
    assert_eq!(delivered(&processor), []);
    let retry = Ticket::new(batch(), TicketReason::Operator);
    assert!(!given_back(&processor, &retry.to_body()).await);
    assert_eq!(
        record(&processor).status,
        Some(Status::Error),
        "the same again"
    );
    // The operator accepts the new one in so many words.
    let accept = Ticket {
        accept: Some(shared::wire::Accepted::NewSink),
        ..retry
    };
    assert!(!given_back(&processor, &accept.to_body()).await);
    assert_eq!(
        delivered(&processor),
        [(format!("{}/0", batch()), ids(&[0]))]
    );
    assert_eq!(record(&processor).parts[0].sink, None, "told no longer");
}

#[tokio::test]
async fn a_sink_that_says_when_is_not_asked_before_and_its_ticket_stays_away_so_long() {
    let processor = a_processor();
    opened(&processor, &[0], 1).await;
    let busy = |secs| SinkError::Busy {
        reason: "full".to_owned(),
        retry_after: Duration::from_secs(secs),
    };
    *processor.sink.failures.lock().unwrap() = vec![busy(400), busy(20)];
    let began = processor.fakes.clock.now();
    assert!(ticket(&processor).await);
    assert_eq!(
        delivered(&processor).len(),
        2,
        "once more after 20 s, not after 400"
    );
    assert!(processor.fakes.clock.now() >= began + Duration::from_secs(20));
    let retried = processor.fakes.batch_queue.take_retried();
    assert_eq!(retried, [("receipt".to_owned(), Duration::from_secs(400))]);
    let due = record(&processor).due_at;
    let back = processor.fakes.clock.now() + Duration::from_secs(400);
    assert!(
        due >= back,
        "the sweep sends no second one: due at {due}, back at {back}"
    );
}

#[tokio::test]
async fn a_ticket_that_is_given_back_comes_after_a_backoff_that_grows() {
    let processor = a_processor();
    let later = START + Duration::from_secs(10);
    for (receives, most) in [(1, 5), (3, 20), (40, TICKET_BACKOFF_MAX.as_secs())] {
        let body = Ticket::new(batch(), TicketReason::Window).to_body();
        assert!(received(&processor, &body, receives).await, "no such batch");
        let [(receipt, delay)] = &processor.fakes.batch_queue.take_retried()[..] else {
            panic!("one ticket comes back");
        };
        assert_eq!(receipt, "receipt");
        assert!(
            (1..=most).contains(&delay.as_secs()),
            "{receives}: {delay:?}"
        );
    }
    let open = BatchRecord::open(batch(), "arn:q".parse().unwrap(), None, 3, START, later);
    processor.fakes.batch_store.create(&open).await.unwrap();
    assert!(ticket(&processor).await, "too early");
    let retried = processor.fakes.batch_queue.take_retried();
    assert_eq!(
        retried[0].1,
        Duration::from_secs(12),
        "the window and the skew"
    );
}

#[tokio::test]
async fn the_sweep_sends_no_second_ticket_while_the_first_may_still_wait() {
    let processor = a_processor();
    opened(&processor, &[0], 1).await;
    processor.fakes.clock.advance(DUE_GRACE * 2);
    assert_eq!(sweep(&processor).await.tickets_sent, 1);
    processor.fakes.clock.advance(REMINDED_FOR / 2);
    assert_eq!(sweep(&processor).await.tickets_sent, 0);
    processor.fakes.clock.advance(REMINDED_FOR);
    assert_eq!(sweep(&processor).await.tickets_sent, 1, "it was lost");
}

/// The alarm on overdue batches takes the most that any sweep of half an hour found.
#[tokio::test]
async fn a_batch_that_stays_overdue_is_found_so_in_every_half_hour() {
    for minutes in [2, 5, 10, 15] {
        let processor = a_processor();
        opened(&processor, &[0], 1).await;
        processor.fakes.clock.advance(DUE_GRACE * 2);
        let mut found = Vec::new();
        for sweep_number in 0..24 * 60 / minutes {
            let swept = sweep(&processor).await;
            found.push((sweep_number * minutes / 30, swept.overdue));
            let until_next = Duration::from_secs(60 * minutes);
            processor.fakes.clock.advance(until_next);
        }
        for half_hour in 0..48 {
            let of_it = found.iter().filter(|(of, _)| *of == half_hour);
            let most = of_it.map(|(_, overdue)| *overdue).max();
            assert_eq!(most, Some(1), "sweeps every {minutes} minutes");
        }
    }
}
