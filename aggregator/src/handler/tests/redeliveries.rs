//! Messages whose event was claimed before.

use protocol::batch::{PartRecord, PartState};
use protocol::claim::{Claim, LockState, PastDeliveries};
use protocol::ids::{BatchId, BodyHash, Seat};
use shared::ports::{BatchStore, LockStore};

use super::*;

/// Puts a live claim of `message` for `event` into batch 1 at `seq`, which no aggregator counts.
async fn live_claim(aggregator: &Aggregator, message: &str, event: &str, seq: u32) -> BatchId {
    let batch: BatchId = "00000000-0000-7000-8000-000000000001".parse().unwrap();
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
            quota: None,
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
    let at = START.saturating_sub(Duration::from_secs(100));
    let mut record = BatchRecord::open(batch, "arn:q".parse().unwrap(), None, 10, at, at);
    record.status = None;
    record.completed_at = Some(at);
    record.expires_at = Some(Timestamp::EPOCH);
    record.parts = vec![PartRecord {
        state: PartState::Delivered {
            receipt: String::new(),
            at: Some(Timestamp::EPOCH),
        },
        ..PartRecord::frozen(members.iter().copied().collect(), [0; 32], None)
    }];
    aggregator.fakes.batch_store.create(&record).await.unwrap();
}

#[tokio::test]
async fn a_redelivery_is_acknowledged_only_after_its_batch_knows_the_claim() {
    let aggregator = aggregator_with(&[]);
    let batch = live_claim(&aggregator, "m1", "e1", 4).await;
    let (source, closes_at) = ("arn:q".parse().unwrap(), START + Duration::from_secs(9));
    let record = BatchRecord::open(batch, source, None, 10, START, closes_at);
    aggregator.fakes.batch_store.create(&record).await.unwrap();
    assert!(invoke(&aggregator, &[("m1", "e1", "")]).await.is_empty());
    let record = aggregator.fakes.batch_store.get(batch).unwrap();
    assert!(record.witnessed.contains(4) && record.witnesses == 1);
}

#[tokio::test]
async fn an_orphaned_claim_is_replaced_by_the_next_message() {
    for message in ["m1", "m2"] {
        let aggregator = aggregator_with(&[]);
        let batch = live_claim(&aggregator, "m1", "e1", 4).await;
        complete_batch(&aggregator, batch, &[0, 1, 2]).await;
        assert!(invoke(&aggregator, &[(message, "e1", "")]).await.is_empty());
        let (_, item) = &aggregator.fakes.lock_store.items()[0];
        assert_eq!(item.sqs_message_id.as_str(), message);
        assert!(matches!(item.state, LockState::Live { shard, .. } if shard.batch != batch));
        assert_eq!(confirmed(&aggregator), 1);
    }
}

#[tokio::test]
async fn a_delivered_claim_whose_release_was_lost_is_not_delivered_again() {
    for message in ["m1", "m2"] {
        let aggregator = aggregator_with(&[]);
        let batch = live_claim(&aggregator, "m1", "e1", 4).await;
        complete_batch(&aggregator, batch, &[4]).await;
        assert!(invoke(&aggregator, &[(message, "e1", "")]).await.is_empty());
        // It is a redelivery or a duplicate of a delivered event.
        assert_eq!(confirmed(&aggregator), 0, "{message}");
    }
}
