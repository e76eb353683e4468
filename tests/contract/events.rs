//! Events, claims and records for all contracts.

use protocol::batch::{BatchRecord, BatchWrite};
use protocol::claim::{Candidate, Claim, LockItem, LockState, PastDeliveries};
use protocol::ids::{BatchId, BodyHash, EventId, Seat, Seq, SourceArn};
use protocol::time::Timestamp;
use shared::ports::{ClaimReply, LockStore, PortError, Release};
use uuid::Uuid;

/// Number of index shards of every batch in these tests.
pub const SHARDS: u16 = 3;

/// Message attributes as they are stored.
pub const ATTRIBUTES: &str = concat!(
    r#"{"raw":{"dataType":"Binary","binaryValue":"AJ+Slg=="},"#,
    r#""tenant":{"dataType":"String.mine","stringValue":"a"}}"#
);

/// Returns the id of batch `number`.
pub fn batch(number: u128) -> BatchId {
    BatchId::new(Uuid::from_u128(
        0x0190_163d_8694_7000_8000_0000_0000_0000 + number,
    ))
}

pub fn source() -> SourceArn {
    "arn:aws:sqs:eu-west-1:000000000000:input-queue"
        .parse()
        .unwrap()
}

pub fn event(text: &str) -> EventId {
    text.parse().unwrap()
}

pub fn ms(ms: u64) -> Timestamp {
    Timestamp::from_ms(1_700_000_000_000 + ms)
}

/// Returns a candidate; its message id and other fields follow from the event id.
pub fn candidate(id: &str, body: &str) -> Candidate {
    Candidate {
        event_id: event(id),
        sqs_message_id: format!("message-of-{}", &id[..id.len().min(100)])
            .parse()
            .unwrap(),
        body_hash: BodyHash::of(body.as_bytes()),
        body: body.into(),
        compressed: None,
        source: source(),
        sent_at: ms(17),
        attributes: None,
        quota: None,
    }
}

/// Returns a claim with seq `seq` in batch 1.
pub fn claim(id: &str, body: &str, seq: Seq) -> Claim {
    claim_in(batch(1), id, body, seq)
}

/// Returns claims of the events `e0`, `e1` and so on, with these seqs.
pub fn claims(count: Seq) -> Vec<Claim> {
    let claim = |seq: Seq| claim(&format!("e{seq}"), "body", seq);
    (0..count).map(claim).collect()
}

pub fn claim_in(batch: BatchId, id: &str, body: &str, seq: Seq) -> Claim {
    Claim {
        candidate: candidate(id, body),
        seat: Seat {
            batch,
            seq,
            shards: SHARDS,
        },
        overflow: None,
        past: PastDeliveries::new(),
    }
}

/// Returns two earlier deliveries.
pub fn past() -> PastDeliveries {
    [("older", 1), ("old", 2)]
        .map(|(id, at)| (id.parse().unwrap(), ms(at)))
        .into()
}

/// Returns claims of event `e` that replace another, without and with past deliveries.
pub fn replacements() -> [Claim; 2] {
    [PastDeliveries::new(), past()].map(|past| {
        let mut claim = claim_in(batch(2), "e", "new", 9);
        claim.candidate.sqs_message_id = "the-new-message".parse().unwrap();
        claim.past = past;
        claim
    })
}

/// Returns every way to release a claim.
pub fn releases() -> [Release; 3] {
    [
        Release::Remembered(ms(5_000)),
        Release::SetAside(ms(5_000)),
        Release::Deleted,
    ]
}

/// Returns the lock item of a claim.
pub fn item(claim: &Claim) -> LockItem {
    let seat = claim.seat;
    LockItem {
        sqs_message_id: claim.candidate.sqs_message_id.clone(),
        body_hash: claim.candidate.body_hash,
        past: claim.past.clone(),
        state: LockState::Live {
            shard: seat.shard(),
            seq: seat.seq,
        },
        set_aside: false,
    }
}

/// Returns the tombstone of a claim.
pub fn tombstone(claim: &Claim, expires_at: Timestamp) -> LockItem {
    LockItem {
        state: LockState::Tombstone { expires_at },
        ..item(claim)
    }
}

/// Writes all claims, in requests of the size that the store takes.
pub async fn claim_all(store: &dyn LockStore, claims: &[Claim]) -> Vec<ClaimReply> {
    let mut replies = Vec::new();
    for request in claims.chunks(store.items_per_request()) {
        replies.extend(store.claim(request).await);
    }
    replies
}

/// Writes claims of event ids that must have no item.
pub async fn claim_free(store: &dyn LockStore, claims: &[Claim]) {
    for (claim, reply) in claims.iter().zip(claim_all(store, claims).await) {
        let id = &claim.candidate.event_id;
        assert!(matches!(reply, ClaimReply::Written), "{id}: {reply:?}");
    }
}

/// Claims event `e`, which must have no item, with seq `seq` in batch 1.
pub async fn claimed(store: &dyn LockStore, seq: Seq) -> Claim {
    let claim = claim("e", "body", seq);
    claim_free(store, std::slice::from_ref(&claim)).await;
    claim
}

pub fn assert_written(reply: &ClaimReply) {
    assert!(matches!(reply, ClaimReply::Written), "{reply:?}");
}

/// How the text of an error begins, by its kind.
const KINDS: [&str; 4] = [
    "throttled by",
    "no reply from",
    "refused by",
    "deadline reached",
];

/// Checks that the text of an error has these words. It must begin with those that name a kind, as `refused by SQS` does.
pub fn assert_says(error: &PortError, words: &[&str]) {
    let text = error.to_string();
    for word in words {
        let says = match KINDS.iter().any(|kind| word.starts_with(kind)) {
            true => text.starts_with(word),
            false => text.contains(word),
        };
        assert!(says, "`{word}` in {text}");
    }
}

pub async fn read_one(store: &dyn LockStore, id: &str) -> Option<LockItem> {
    store.read(&[event(id)]).await.unwrap().remove(0)
}

/// Reads the item of a claim's event.
pub async fn item_of(store: &dyn LockStore, claim: &Claim) -> Option<LockItem> {
    read_one(store, claim.candidate.event_id.as_str()).await
}

/// Returns the record of a batch that was opened at 0 and whose window ends at 10 s.
pub fn record(id: BatchId) -> BatchRecord {
    BatchRecord::open(id, source(), None, SHARDS, ms(0), ms(10_000))
}

/// Returns a write that an open batch takes.
pub fn witness() -> BatchWrite {
    BatchWrite::Witness {
        witnessed: (0..1).collect(),
        witnesses: 0,
    }
}
