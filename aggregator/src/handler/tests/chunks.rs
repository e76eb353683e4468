//! Claims that former versions wrote, with their bodies in chunks.

use protocol::bodies::Bodies;
use protocol::claim::{LockItem, LockState, PastDeliveries};
use protocol::ids::{BatchId, BodyHash};
use protocol::seqs::SeqSet;
use shared::ports::BatchStore;

use super::*;

#[tokio::test]
async fn a_claim_that_its_batch_does_not_know_is_witnessed_with_its_chunk() {
    let aggregator = aggregator_with(&[]);
    let batch: BatchId = "0190163d-8694-739b-aea5-966c26f8ad91".parse().unwrap();
    let record = BatchRecord::open(batch, "arn:q".parse().unwrap(), None, 1, START, START)
        .with_bodies(Bodies::Table, Duration::from_secs(3_600));
    let store = &aggregator.fakes.batch_store;
    store.create(&record).await.unwrap();
    let body = json!({ "id": "a", "content": "" }).to_string();
    let claim = LockItem {
        sqs_message_id: "m1".parse().unwrap(),
        body_hash: BodyHash::of(body.as_bytes()),
        past: PastDeliveries::new(),
        state: LockState::InChunk {
            batch,
            seq: 5,
            chunk: 3,
            expires_at: START + Duration::from_secs(100_000),
        },
        set_aside: false,
        place: None,
    };
    let lock_store = &aggregator.fakes.lock_store;
    lock_store.insert("a".parse().unwrap(), claim);
    // Its own message, and another one, are acknowledged by the witness.
    let again = [("m1", "a", ""), ("m2", "a", "")];
    assert!(invoke(&aggregator, &again).await.is_empty());
    let records = store.records();
    let after = records.iter().find(|record| record.batch_id == batch);
    let after = after.unwrap();
    let seqs = |seq: u32| SeqSet::from_iter([seq]);
    let witnessed = (&after.witnessed, &after.witnessed_chunks);
    assert_eq!(witnessed, (&seqs(5), &seqs(3)));
    assert_eq!(after.undelivered(), seqs(5));
}
