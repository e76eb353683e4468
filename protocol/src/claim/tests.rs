mod decisions;
mod outcomes;
mod resolutions;
mod sizes;

use super::*;
use crate::ids::{BatchId, BodyHash, Seq};
use crate::limits::PAST_DELIVERIES_MAX;

const NOW: Timestamp = Timestamp::from_ms(1_000_000);
const WINDOW: Duration = Duration::from_secs(3_600);
const DROP: ClaimRules = rules_of(DuplicateRule::Drop);
const REQUEUE: ClaimRules = rules_of(DuplicateRule::Requeue);

const fn rules_of(on_duplicate: DuplicateRule) -> ClaimRules {
    ClaimRules {
        on_duplicate,
        dedup_window: WINDOW,
        past_deliveries_max: PAST_DELIVERIES_MAX,
    }
}

pub(super) fn batch(n: u128) -> BatchId {
    BatchId::new(uuid::Uuid::from_u128(n))
}

pub(super) fn seat(n: u128, seq: Seq) -> Seat {
    Seat {
        batch: batch(n),
        seq,
        shards: 10,
    }
}

pub(super) fn message(id: &str, body: &str) -> Candidate {
    Candidate {
        event_id: "event".parse().unwrap(),
        sqs_message_id: id.parse().unwrap(),
        body_hash: BodyHash::of(body.as_bytes()),
        body: body.into(),
        compressed: None,
        source: "arn:q".parse().unwrap(),
        sent_at: NOW,
        attributes: None,
        quota: None,
    }
}

pub(super) fn item_of(candidate: &Candidate, state: LockState) -> LockItem {
    LockItem {
        sqs_message_id: candidate.sqs_message_id.clone(),
        body_hash: candidate.body_hash,
        past: PastDeliveries::new(),
        state,
        set_aside: false,
    }
}

pub(super) fn live(candidate: &Candidate, at: Seat) -> LockItem {
    item_of(
        candidate,
        LockState::Live {
            shard: at.shard(),
            seq: at.seq,
        },
    )
}

fn tombstone(candidate: &Candidate, expires_ms: u64) -> LockItem {
    item_of(
        candidate,
        LockState::Tombstone {
            expires_at: Timestamp::from_ms(expires_ms),
        },
    )
}
