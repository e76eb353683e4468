//! Bodies in chunks.

use protocol::bodies::Bodies;
use protocol::claim::LockState;
use protocol::ids::ChunkId;
use protocol::seqs::SeqSet;
use shared::chunk::decode;

use super::*;

const IN_CHUNKS: [(&str, &str); 2] = [
    ("BODIES", "table"),
    (
        "QUARANTINE_SQS_URL",
        "https://sqs.eu-west-1.amazonaws.com/1/quarantine",
    ),
];

fn seqs<const N: usize>(seqs: [u32; N]) -> SeqSet {
    seqs.into_iter().collect()
}

#[tokio::test]
async fn the_bodies_of_an_invocation_are_in_one_chunk_which_the_claims_name() {
    let aggregator = aggregator_with(&IN_CHUNKS);
    let messages = [("m1", "a", ""), ("m2", "b", ""), ("m3", "a", "")];
    assert!(invoke(&aggregator, &messages).await.is_empty());

    let record = only_batch(&aggregator);
    assert_eq!(record.bodies, Bodies::Table);
    assert_eq!(
        (&record.claimed, &record.chunks),
        (&seqs([0, 1]), &seqs([0]))
    );
    let chunk = ChunkId {
        batch: record.batch_id,
        first: 0,
    };
    let bytes = aggregator.fakes.chunk_store.bytes(&record.bodies, chunk);
    let events = decode(chunk, &bytes.unwrap(), &record.claimed).events;
    let ids: Vec<_> = events.iter().map(|event| event.event_id.as_str()).collect();
    assert_eq!(ids, ["a", "b"]);
    for (_, item) in aggregator.fakes.lock_store.items() {
        assert!(
            matches!(item.state, LockState::InChunk { batch, chunk: 0, .. } if batch == record.batch_id),
            "{item:?}"
        );
    }
}

#[tokio::test]
async fn each_invocation_has_a_chunk_of_its_own_and_duplicates_are_not_counted() {
    let aggregator = aggregator_with(&IN_CHUNKS);
    assert!(invoke(&aggregator, &[("m1", "a", "")]).await.is_empty());
    let other = Aggregator {
        handler: Handler::new(
            config(&[&IN_CHUNKS[..], &[("EVENT_ID", "json:id")]].concat()),
            aggregator.fakes.ports(),
            aggregator.source_queues.clone(),
            Arc::new(SharedAllocator::new(config(&IN_CHUNKS).limits)),
        ),
        fakes: aggregator.fakes.clone(),
        source_queues: aggregator.source_queues.clone(),
    };
    let messages = [("m2", "a", ""), ("m3", "b", "")];
    assert!(invoke(&other, &messages).await.is_empty());

    let records = aggregator.fakes.batch_store.records();
    let counted: Vec<_> = records
        .iter()
        .map(|record| record.claimed.clone())
        .collect();
    assert_eq!(counted, [seqs([0]), seqs([1])]);
    assert_eq!(aggregator.fakes.chunk_store.ids().len(), 2);
}

#[tokio::test]
async fn a_claim_that_its_batch_does_not_know_is_witnessed_with_its_chunk() {
    let aggregator = aggregator_with(&IN_CHUNKS);
    assert!(invoke(&aggregator, &[("m1", "a", "")]).await.is_empty());
    let before = only_batch(&aggregator);
    // As if the invocation had died before it counted its claim.
    let uncounted = BatchRecord {
        claimed: SeqSet::new(),
        chunks: SeqSet::new(),
        confirmed: 0,
        ..before.clone()
    };
    let restarted = aggregator_with(&IN_CHUNKS);
    let fakes = Fakes {
        lock_store: aggregator.fakes.lock_store.clone(),
        ..restarted.fakes.clone()
    };
    shared::ports::BatchStore::create(&*fakes.batch_store, &uncounted)
        .await
        .unwrap();
    let other = Aggregator {
        handler: Handler::new(
            config(&[("EVENT_ID", "json:id")]),
            fakes.ports(),
            restarted.source_queues.clone(),
            Arc::new(SharedAllocator::new(config(&[]).limits)),
        ),
        fakes: fakes.clone(),
        source_queues: restarted.source_queues.clone(),
    };
    assert!(invoke(&other, &[("m2", "a", "")]).await.is_empty());
    let records = fakes.batch_store.records();
    let after = records
        .iter()
        .find(|record| record.batch_id == before.batch_id)
        .unwrap();
    assert_eq!(
        (&after.witnessed, &after.witnessed_chunks),
        (&seqs([0]), &seqs([0]))
    );
    assert_eq!(after.undelivered(), seqs([0]));
}
