//! Decisions about a message whose event has an item already.

use std::collections::BTreeMap;

use super::*;

fn replace(past: PastDeliveries) -> Decision {
    Decision::Replace { past }
}

#[test]
fn an_item_is_in_the_same_state_while_message_and_state_are_the_same() {
    let (m1, m2) = (message("m1", "a"), message("m2", "a"));
    let read = live(&m1, seat(1, 3));
    let other_past = LockItem {
        past: BTreeMap::from([(m2.sqs_message_id.clone(), NOW)]),
        ..read.clone()
    };
    assert!(read.is_same_state(&read) && other_past.is_same_state(&read));
    let released = tombstone(&m1, 1);
    for changed in [live(&m2, seat(1, 3)), live(&m1, seat(1, 4)), released] {
        assert!(!changed.is_same_state(&read), "{changed:?}");
    }
}

#[test]
fn only_a_tombstone_expires() {
    let m1 = message("m1", "a");
    assert_eq!(live(&m1, seat(1, 3)).expires_at(), None);
    assert_eq!(tombstone(&m1, 7).expires_at(), Some(Timestamp::from_ms(7)));
}

#[test]
fn a_claim_is_ours_only_with_message_batch_and_seq() {
    let m1 = message("m1", "a");
    let own = seat(1, 3);
    let claimed = Decision::Done(Outcome::Claimed);
    let meets =
        |candidate: &Candidate, item: &LockItem| classify(candidate, Some(own), item, &DROP, NOW);
    assert_eq!(meets(&m1, &live(&m1, own)), claimed);
    // Seqs 3 and 13 of a batch share a shard; seq 3 of another batch does not.
    assert_ne!(meets(&m1, &live(&m1, seat(1, 13))), claimed);
    assert_ne!(meets(&m1, &live(&m1, seat(2, 3))), claimed);
    assert_ne!(meets(&message("m2", "a"), &live(&m1, own)), claimed);
}

#[test]
fn what_a_claim_means_depends_on_the_resolution_of_its_seat() {
    let (m1, m2, m3) = (message("m1", "a"), message("m2", "a"), message("m3", "b"));
    let item = live(&m1, seat(1, 3));
    let until = Timestamp::from_ms(900_000) + WINDOW;
    let delivered = SeatResolution::Delivered { until };
    let decide = |candidate: &Candidate, existing, resolution, rule| {
        decide_live(candidate, &item, existing, resolution, &rules_of(rule), NOW)
    };
    use DuplicateRule::{Drop, Requeue};
    let messages = [
        (&m1, ExistingClaim::Redelivered, Outcome::Redelivered),
        (&m2, ExistingClaim::Duplicate, Outcome::Duplicate),
        (&m3, ExistingClaim::Conflict, Outcome::Conflict),
    ];
    for (message, existing, outcome) in messages {
        for rule in [Drop, Requeue] {
            let decide = |resolution| decide(message, existing, resolution, rule);
            assert_eq!(decide(SeatResolution::Alive), Decision::Done(outcome));
            for free in [SeatResolution::Orphan, SeatResolution::Expired] {
                assert_eq!(decide(free), replace(PastDeliveries::new()));
            }
            let unknown = decide(SeatResolution::Unknown);
            assert_eq!(unknown, Decision::Done(Outcome::Failed));
        }
        // The claim is classified as the tombstone of its delivery.
        let decided = decide(message, existing, delivered, Drop);
        assert_eq!(decided, Decision::Done(outcome));
    }
    let requeue = |message, existing| decide(message, existing, delivered, Requeue);
    let again = requeue(&m1, ExistingClaim::Redelivered);
    assert_eq!(again, Decision::Done(Outcome::Redelivered));
    let past = PastDeliveries::from([(m1.sqs_message_id.clone(), until)]);
    assert_eq!(requeue(&m2, ExistingClaim::Duplicate), replace(past));
}

#[test]
fn the_decision_on_a_tombstone_depends_on_message_hash_and_age() {
    let (m1, m2, m3) = (message("m1", "a"), message("m2", "a"), message("m3", "b"));
    let fresh = tombstone(&m1, 1_000_001);
    let stale = tombstone(&m1, 1_000_000);
    let drop = |candidate, item| classify(candidate, None, item, &DROP, NOW);
    assert_eq!(drop(&m1, &fresh), Decision::Done(Outcome::Redelivered));
    assert_eq!(drop(&m1, &stale), Decision::Done(Outcome::RedeliveredLate));
    assert_eq!(drop(&m2, &fresh), Decision::Done(Outcome::Duplicate));
    assert_eq!(drop(&m3, &fresh), Decision::Done(Outcome::Conflict));
    for candidate in [&m2, &m3] {
        assert_eq!(drop(candidate, &stale), replace(PastDeliveries::new()));
        let decision = classify(candidate, None, &fresh, &REQUEUE, NOW);
        let until = Timestamp::from_ms(1_000_001);
        let past = PastDeliveries::from([(m1.sqs_message_id.clone(), until)]);
        assert_eq!(decision, replace(past));
    }
}

/// The claim that replaced the one of `m1` is an orphan, and `m1` itself went to the quarantine.
#[test]
fn repro_a_duplicate_was_dropped_beside_a_redelivery_of_a_message_that_was_set_aside() {
    let (m1, m2, m3) = (message("m1", "a"), message("m2", "a"), message("m3", "a"));
    let mut item = live(&m2, seat(1, 3));
    let until = Timestamp::from_ms(2_000_000);
    item.past.insert(m1.sqs_message_id.clone(), until);
    let Decision::Done(first) = classify(&m1, None, &item, &DROP, NOW) else {
        panic!("the message of a past delivery is done");
    };
    assert_eq!(first.response(DuplicateRule::Drop), Response::Success);
    let repeat = classify_repeat(&m3, &m1, first, Some(&item));
    assert_eq!(repeat, Outcome::Failed);
}

#[test]
fn a_full_memory_makes_the_next_duplicate_wait() {
    let (m1, m2) = (message("m1", "a"), message("m2", "a"));
    let mut item = tombstone(&m1, 2_000_000);
    let until = Timestamp::from_ms(1_500_000);
    item.past = (0..PAST_DELIVERIES_MAX)
        .map(|n| (format!("old{n}").parse().unwrap(), until))
        .collect();
    let decision = classify(&m2, None, &item, &REQUEUE, NOW);
    assert_eq!(decision, Decision::Done(Outcome::Duplicate));
    let decision = classify(&m2, None, &item, &REQUEUE, until);
    assert!(matches!(decision, Decision::Replace { .. }));
}

#[test]
fn a_message_that_was_set_aside_is_remembered_for_the_dedup_window() {
    let (m1, m2) = (message("m1", "a"), message("m2", "a"));
    for (expires_at, until) in [
        (NOW + WINDOW / 2, NOW + WINDOW / 2),
        (NOW + 10 * WINDOW, NOW + WINDOW),
    ] {
        let mut item = tombstone(&m1, expires_at.as_ms());
        item.set_aside = true;
        let decision = classify(&m2, None, &item, &DROP, NOW);
        let past = PastDeliveries::from([(m1.sqs_message_id.clone(), until)]);
        assert_eq!(decision, replace(past));
    }
}
