//! Properties of claims; this file has the strategies that draw messages, items and resolutions.

mod life;
mod meetings;

use proptest::prelude::*;

use super::tests::{batch, item_of, live, message, seat};
use super::*;
use crate::ids::{BodyHash, Seq};
use crate::limits::PAST_DELIVERIES_MAX;

const NOW: u64 = 1_000_000;
const WINDOW: Duration = Duration::from_millis(100);

fn rules_of(on_duplicate: DuplicateRule) -> ClaimRules {
    ClaimRules {
        on_duplicate,
        dedup_window: WINDOW,
        past_deliveries_max: PAST_DELIVERIES_MAX,
    }
}

/// Draws times around now, and often exactly now.
fn time() -> impl Strategy<Value = Timestamp> {
    (NOW - 5..NOW + 5).prop_map(Timestamp::from_ms)
}

fn message_id(number: u8) -> SqsMessageId {
    format!("m{number}").parse().unwrap()
}

fn candidate(number: u8, body: u8) -> Candidate {
    message(&format!("m{number}"), &format!("body {body}"))
}

fn candidates() -> impl Strategy<Value = Candidate> {
    (0..4_u8, 0..2_u8).prop_map(|(message, body)| candidate(message, body))
}

fn rules() -> impl Strategy<Value = DuplicateRule> {
    prop_oneof![Just(DuplicateRule::Drop), Just(DuplicateRule::Requeue)]
}

fn seats() -> impl Strategy<Value = Seat> {
    (0..2_u128, 0..3_u32).prop_map(|(number, seq)| Seat {
        batch: batch(number),
        seq,
        shards: 2,
    })
}

fn states() -> impl Strategy<Value = LockState> {
    prop_oneof![
        seats().prop_map(|seat| LockState::Live {
            shard: seat.shard(),
            seq: seat.seq,
        }),
        time().prop_map(|expires_at| LockState::Tombstone { expires_at }),
    ]
}

/// Draws items with past deliveries, sometimes as many as an item may have. The message that made the item is not among
/// them: a remembered message claims nothing.
fn items() -> impl Strategy<Value = LockItem> {
    let past = prop::collection::btree_map(0..4_u8, time(), 0..3);
    let more = prop_oneof![4 => Just(0), 1 => PAST_DELIVERIES_MAX - 2..=PAST_DELIVERIES_MAX];
    let set_aside = prop::bool::weighted(0.2);
    (candidates(), past, more, states(), set_aside).prop_map(|(maker, past, more, state, aside)| {
        let past = past.into_iter().map(|(id, until)| (message_id(id), until));
        let others = (100..).map(|id| (message_id(id), Timestamp::from_ms(NOW + 1)));
        let mut past: PastDeliveries = others.take(more).chain(past).collect();
        past.remove(&maker.sqs_message_id);
        while past.len() > PAST_DELIVERIES_MAX {
            past.pop_first();
        }
        LockItem {
            past,
            // Only a tombstone is marked as set aside; for a claim, the batch record says so.
            set_aside: aside && matches!(state, LockState::Tombstone { .. }),
            ..item_of(&maker, state)
        }
    })
}

fn resolutions() -> impl Strategy<Value = SeatResolution> {
    prop_oneof![
        Just(SeatResolution::Alive),
        Just(SeatResolution::Orphan),
        Just(SeatResolution::Expired),
        Just(SeatResolution::Unknown),
        time().prop_map(|until| SeatResolution::Delivered { until }),
        time().prop_map(|until| SeatResolution::SetAside { until }),
    ]
}
