use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use protocol::batch::{
    BatchRecord, BatchWrite, Due, Lease, PartRecord, PartState, Reservations, Status,
};
use protocol::bodies::{Bodies, ObjectPlace};
use protocol::chain::{ChainHash, Link, with_hash};
use protocol::claim::{Candidate, Claim, LockState, Overflow, PastDeliveries};
use protocol::claim::{ClaimRules, Decision, DuplicateRule, LockItem, Outcome, classify};
use protocol::ids::{BatchId, BodyHash, EventId, ObjectId, PieceId, Seat, SlotId};
use protocol::limits::{DUE_GRACE, PARTS_FOR_STRAGGLERS, TICKET_BACKOFF_MAX, TICKET_RESEND_AFTER};
use protocol::seqs::SeqSet;
use protocol::slot::{ClaimCounts, Slot};
use protocol::time::Timestamp;
use serde_json::json;
use shared::memory::{Fakes, MemoryBatchStore};
use shared::ports::{
    BatchReply, BatchStore, Clock, LockStore, ObjectStore, OverflowStore, Piece, Quarantined,
    Release,
};
use shared::wire::TicketReason;

use super::*;
use sinks::{Part, Receipt, SinkError, async_trait};

mod answers;
mod crowded_sweep;
mod dry_runs;
mod hours;
mod log;
mod metrics;
mod notices;
mod overflow;
mod parts;
mod pauses;
mod quarantine;
mod rejects;
mod sequences;
mod sink;
mod sweep;
mod tickets;

const START: Timestamp = Timestamp::from_ms(1_000_000_000);

/// A sink that keeps the parts it got, and returns the failures that a test sets.
#[derive(Default)]
struct TestSink {
    seen: Mutex<Vec<(String, Vec<String>)>>,
    bodies: Mutex<Vec<String>>,
    failures: Mutex<Vec<SinkError>>,
    fingerprint: Mutex<String>,
    needs_sequence: Mutex<bool>,
    needs_link: AtomicBool,
    links: Mutex<Vec<Option<Link>>>,
    dry_run_fails: Mutex<bool>,
    /// The seqs that the sink rejects, of any part.
    rejects: Mutex<Vec<u32>>,
    numbers: Mutex<Vec<Option<u64>>>,
}

impl TestSink {
    /// Makes the next `times` deliveries fail with a retryable error.
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

    fn needs_sequence(&self) -> bool {
        *self.needs_sequence.lock().unwrap()
    }

    fn needs_link(&self) -> bool {
        self.needs_link.load(Ordering::Relaxed)
    }

    async fn dry_run(&self) -> Result<(), SinkError> {
        match *self.dry_run_fails.lock().unwrap() {
            true => Err(SinkError::Retryable {
                reason: "no way".to_owned(),
            }),
            false => Ok(()),
        }
    }

    async fn deliver(&self, part: &Part) -> Result<Receipt, SinkError> {
        self.numbers.lock().unwrap().push(part.file_number);
        self.links.lock().unwrap().push(part.link);
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
            None => Ok(Receipt {
                rejected: self.rejects.lock().unwrap().iter().copied().collect(),
                ..Receipt::new(match part.link {
                    None => "ok".to_owned(),
                    Some(_) => with_hash("ok", ChainHash::new([8; 32])),
                })
            }),
        }
    }
}

/// A batch-processor with fakes.
struct Processor {
    handler: Handler,
    fakes: Fakes,
    sink: Arc<TestSink>,
}

fn batch() -> BatchId {
    "0190163d-8694-739b-aea5-966c26f8ad91".parse().unwrap()
}

fn a_processor() -> Processor {
    processor_with(config())
}

fn processor_with(config: Config) -> Processor {
    processor_of(config, MemoryBatchStore::new())
}

fn processor_with_parts_of(part_bytes_max: u64) -> Processor {
    processor_with(Config {
        part_bytes_max,
        ..config()
    })
}

fn config() -> Config {
    crate::config::tests::read(&[]).unwrap()
}

fn processor_of(config: Config, batch_store: MemoryBatchStore) -> Processor {
    let fakes = Fakes {
        batch_store: Arc::new(batch_store),
        ..Fakes::at(START)
    };
    let sink = Arc::new(TestSink::default());
    processor_to(config, fakes, sink)
}

fn processor_to(config: Config, fakes: Fakes, sink: Arc<TestSink>) -> Processor {
    Processor {
        handler: Handler::new(config, fakes.ports(), sink.clone()),
        fakes,
        sink,
    }
}

/// Opens a batch that is past its window, with live claims of `seqs`; `confirmed` of them are counted. An aggregator died after it had
/// reserved one seat more, so nothing but a second look proves the batch.
async fn opened(processor: &Processor, seqs: &[u32], confirmed: u64) {
    let counts = ClaimCounts {
        confirmed,
        settled: seqs.iter().copied().take(confirmed as usize).collect(),
        witnessed: SeqSet::new(),
    };
    let reserved = seqs.last().map_or(0, |last| u64::from(last + 1));
    put_batch(processor, counts, (reserved + 1, 2), Status::Open).await;
    for seq in seqs {
        claim(processor, *seq).await;
    }
}

/// Returns a processor with a batch that is past its window, whose seqs below `count` are counted claims.
async fn with_an_open_batch(count: u32) -> Processor {
    let processor = a_processor();
    let seqs = Vec::from_iter(0..count);
    opened(&processor, &seqs, count.into()).await;
    processor
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
            quota: None,
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
    let reply = processor.fakes.batch_store.write(batch(), &write).await;
    let is_applied = matches!(reply.unwrap(), BatchReply::Applied(_));
    assert!(is_applied, "{write:?}");
}

/// Puts the batch in place of the one that is there. It has this many reserved seats and slots; the first slot has the counts, and the
/// others are empty.
async fn put_batch(
    processor: &Processor,
    counts: ClaimCounts,
    (reserved, slots): (u64, u32),
    status: Status,
) {
    let fakes = &processor.fakes;
    let at = START.saturating_sub(Duration::from_secs(60));
    let record = BatchRecord::open(batch(), "arn:q".parse().unwrap(), None, 3, at, START);
    let record = BatchRecord {
        status: Some(status),
        sealed_at: (status == Status::Sealed).then_some(START),
        reservations: Some(Reservations {
            reserved,
            slots,
            ..Reservations::default()
        }),
        ..record.with_bodies(Bodies::Items, Duration::ZERO)
    };
    fakes.batch_store.remove(batch());
    fakes.batch_store.create(&record).await.unwrap();
    let slot = SlotId {
        batch: batch(),
        number: 0,
    };
    let piece = Piece {
        bytes: serde_json::to_vec(&Slot::Claims(counts)).unwrap(),
        pieces_count: 1,
    };
    let id = PieceId {
        object: ObjectId::Slot(slot),
        index: 0,
    };
    fakes.object_store.remove(slot);
    let store = &fakes.object_store;
    let put = store.put(&ObjectPlace::Table, id, &piece, START);
    put.await.unwrap();
}

/// Returns counts that say that the seqs below `seqs` are claims.
fn counts(seqs: u32) -> ClaimCounts {
    ClaimCounts {
        confirmed: u64::from(seqs),
        settled: (0..seqs).collect(),
        witnessed: SeqSet::new(),
    }
}

/// Seals the batch, whose seqs below `seqs` are counted claims.
async fn seal(processor: &Processor, seqs: u32) {
    let reserved = (u64::from(seqs), 1);
    put_batch(processor, counts(seqs), reserved, Status::Sealed).await;
}

/// Opens a batch of the seqs below `count`, and seals it.
async fn sealed(processor: &Processor, count: u32) {
    opened(processor, &Vec::from_iter(0..count), 0).await;
    seal(processor, count).await;
}

/// Returns a processor with a sealed batch of the seqs below `count`.
async fn with_a_sealed_batch(count: u32) -> Processor {
    let processor = a_processor();
    sealed(&processor, count).await;
    processor
}

/// Has another processor take the lease until a time; returns this processor.
async fn leased(processor: &Processor, owner: &str, until: Timestamp) -> LeaseOwner {
    let owner: LeaseOwner = owner.parse().unwrap();
    let take = BatchWrite::Lease {
        lease: Lease {
            owner: owner.clone(),
            until,
        },
        at: processor.fakes.clock.now(),
        operator: None,
    };
    write(processor, take).await;
    owner
}

/// Has a processor freeze a part of the events 0 to 2 and mark it as delivered, without the rejected ones, and die before any release.
async fn died_before_the_release(processor: &Processor, rejected: &[u32]) {
    sealed(processor, 3).await;
    let ended = START.saturating_sub(Duration::from_secs(5));
    let owner = leased(processor, "dead", ended).await;
    let count = BatchWrite::Count {
        owner: owner.clone(),
        counts: counts(3),
        uncertain: 0,
        witnesses: 0,
    };
    write(processor, count).await;
    let freeze = BatchWrite::Freeze {
        owner: owner.clone(),
        index: 0,
        part: PartRecord::frozen((0..3).collect(), [7; 32], None),
    };
    write(processor, freeze).await;
    let rejected = rejected.iter().copied().collect();
    let delivered = BatchWrite::Delivered {
        owner,
        index: 0,
        receipt: "ok".to_owned(),
        at: START,
        rejects: record(processor).rejects_with(0, &rejected),
        delivered: None,
    };
    write(processor, delivered).await;
}

fn invocation(processor: &Processor) -> Invocation {
    Invocation {
        function: "batch-processor".to_owned(),
        request_id: "r".to_owned(),
        deadline: processor.fakes.clock.now() + Duration::from_secs(60),
    }
}

/// Invokes the function with messages of the batch queue; returns the ids of the messages to retry.
async fn invoke(
    processor: &Processor,
    event: serde_json::Value,
    invocation: &Invocation,
) -> Vec<String> {
    let event = serde_json::from_value(event).unwrap();
    let handled = processor.handler.handle(event, invocation).await;
    match handled.unwrap() {
        Response::Tickets(response) => {
            let failures = response.batch_item_failures.into_iter();
            failures.map(|failure| failure.item_identifier).collect()
        }
        Response::Swept(swept) => panic!("{swept:?}"),
    }
}

/// Invokes the function with one message; returns whether it will be retried.
async fn given_back(processor: &Processor, body: &str) -> bool {
    received(processor, body, 1).await
}

/// Invokes the function with one message that was received `receives` times; returns whether it will be retried.
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
        request_id: format!("r{request}"),
        ..invocation(processor)
    };
    invoke(processor, event, &invocation).await.len() == 1
}

async fn ticket(processor: &Processor) -> bool {
    let ticket = Ticket::new(batch(), TicketReason::Window);
    given_back(processor, &ticket.to_body()).await
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

fn quarantine() -> String {
    Ticket::new(batch(), TicketReason::Quarantine).to_body()
}

fn operator() -> String {
    Ticket::new(batch(), TicketReason::Operator).to_body()
}

/// Returns the ticket of an operator who accepts a new sink.
fn accepts_sink() -> String {
    let accepts = Ticket {
        accept: Some(shared::wire::Accepted::NewSink),
        ..Ticket::new(batch(), TicketReason::Operator)
    };
    accepts.to_body()
}

/// Has the sink refuse the next part permanently.
fn refuse(processor: &Processor, reason: &str) {
    let refusal = SinkError::Permanent {
        reason: reason.to_owned(),
    };
    processor.sink.failures.lock().unwrap().push(refusal);
}

/// Puts the batch in error with a frozen part.
async fn refused(processor: &Processor) {
    refuse(processor, "no such customer");
    assert!(!ticket(processor).await);
    assert_eq!(record(processor).status, Some(Status::Error));
}
