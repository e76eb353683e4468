use std::collections::BTreeMap;
use std::sync::Arc;

use super::*;
use crate::ids::BatchId;
use crate::limits::{
    CLAIM_OVERHEAD_BYTES, DYNAMODB_ITEM_BYTES_MAX, OVERFLOW_BYTES, PAST_DELIVERIES_MAX,
    WRITE_UNIT_BYTES,
};

const NOW: Timestamp = Timestamp::from_ms(1_000_000);
const WINDOW: Duration = Duration::from_secs(3_600);

/// As [`super::classify`], with the rules of this file.
fn classify(
    candidate: &Candidate,
    own: Option<Seat>,
    item: &LockItem,
    rule: DuplicateRule,
    now: Timestamp,
) -> Verdict {
    super::classify(candidate, own, item, &rules_of(rule), now)
}

/// As [`super::settle_live`], with the rules of this file.
fn settle_live(
    candidate: &Candidate,
    item: &LockItem,
    meeting: Meeting,
    fate: &BatchFate,
    rule: DuplicateRule,
    now: Timestamp,
) -> Verdict {
    super::settle_live(candidate, item, meeting, fate, &rules_of(rule), now)
}

fn rules_of(on_duplicate: DuplicateRule) -> ClaimRules {
    ClaimRules {
        on_duplicate,
        dedup_window: WINDOW,
        past_deliveries_max: PAST_DELIVERIES_MAX,
    }
}

fn batch(n: u128) -> BatchId {
    BatchId::new(uuid::Uuid::from_u128(n))
}

fn seat(n: u128, seq: Seq) -> Seat {
    Seat {
        batch: batch(n),
        seq,
        shards: 10,
    }
}

fn message(id: &str, body: &str) -> Candidate {
    Candidate {
        event_id: "event".parse().unwrap(),
        sqs_message_id: id.parse().unwrap(),
        body_hash: BodyHash::of(body.as_bytes()),
        body: body.into(),
        compressed: None,
        source: "arn:q".parse().unwrap(),
        sent_at: NOW,
        attributes: None,
    }
}

fn item_of(candidate: &Candidate, state: LockState) -> LockItem {
    LockItem {
        sqs_message_id: candidate.sqs_message_id.clone(),
        body_hash: candidate.body_hash,
        past: PastDeliveries::new(),
        state,
        set_aside: false,
    }
}

fn live(candidate: &Candidate, at: Seat) -> LockItem {
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

#[test]
fn an_item_is_as_it_was_read_while_message_and_state_are_the_same() {
    let (m1, m2) = (message("m1", "a"), message("m2", "a"));
    let read = live(&m1, seat(1, 3));
    let other_past = LockItem {
        past: BTreeMap::from([(m2.sqs_message_id.clone(), NOW)]),
        ..read.clone()
    };
    assert!(read.is_same_state(&read) && other_past.is_same_state(&read));
    for changed in [
        live(&m2, seat(1, 3)),
        live(&m1, seat(1, 4)),
        tombstone(&m1, 1),
    ] {
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
fn a_live_claim_with_the_seat_asked_for_is_an_earlier_attempt_of_ours() {
    let m1 = message("m1", "a");
    let verdict = classify(
        &m1,
        Some(seat(1, 3)),
        &live(&m1, seat(1, 3)),
        DuplicateRule::Drop,
        NOW,
    );
    assert_eq!(verdict, Verdict::Done(Outcome::Claimed));
    let verdict = classify(
        &m1,
        Some(seat(1, 3)),
        &live(&m1, seat(1, 4)),
        DuplicateRule::Drop,
        NOW,
    );
    assert_eq!(verdict, Verdict::Live(Meeting::Redelivered));
}

#[test]
fn what_a_live_claim_means_depends_on_the_fate_of_its_batch() {
    let (m1, m2, m3) = (message("m1", "a"), message("m2", "a"), message("m3", "b"));
    let item = live(&m1, seat(1, 3));
    let ended = |seqs: &[Seq]| BatchFate::Ended {
        delivered: seqs.iter().copied().collect(),
        set_aside: SeqSet::new(),
        completed_at: Timestamp::from_ms(900_000),
    };
    let settle = |candidate: &Candidate, meeting, fate: &BatchFate, rule| {
        settle_live(candidate, &item, meeting, fate, rule, NOW)
    };
    for rule in [DuplicateRule::Drop, DuplicateRule::Requeue] {
        let alive = |candidate, meeting| settle(candidate, meeting, &BatchFate::Alive, rule);
        assert_eq!(
            alive(&m1, Meeting::Redelivered),
            Verdict::Done(Outcome::Redelivered)
        );
        assert_eq!(
            alive(&m2, Meeting::Duplicate),
            Verdict::Done(Outcome::Duplicate)
        );
        assert_eq!(
            alive(&m3, Meeting::Conflict),
            Verdict::Done(Outcome::Conflict)
        );
        for fate in [ended(&[1, 2]), BatchFate::Unknown] {
            let orphan = Verdict::Replace {
                past: PastDeliveries::new(),
            };
            assert_eq!(settle(&m1, Meeting::Redelivered, &fate, rule), orphan);
            assert_eq!(settle(&m2, Meeting::Duplicate, &fate, rule), orphan);
        }
        let leftover = ended(&[3]);
        assert_eq!(
            settle(&m1, Meeting::Redelivered, &leftover, rule),
            Verdict::Done(Outcome::Redelivered)
        );
    }
    let leftover = ended(&[3]);
    assert_eq!(
        settle(&m2, Meeting::Duplicate, &leftover, DuplicateRule::Drop),
        Verdict::Done(Outcome::Duplicate)
    );
    assert_eq!(
        settle(&m3, Meeting::Conflict, &leftover, DuplicateRule::Drop),
        Verdict::Done(Outcome::Conflict)
    );
    let Verdict::Replace { past } =
        settle(&m2, Meeting::Duplicate, &leftover, DuplicateRule::Requeue)
    else {
        panic!("a leftover is a tombstone, and requeue replaces those");
    };
    assert_eq!(
        past[&m1.sqs_message_id],
        Timestamp::from_ms(900_000) + WINDOW
    );
}

#[test]
fn a_tombstone_answers_by_message_hash_and_age() {
    let (m1, m2, m3) = (message("m1", "a"), message("m2", "a"), message("m3", "b"));
    let fresh = tombstone(&m1, 1_000_001);
    let stale = tombstone(&m1, 1_000_000);
    let drop = |candidate, item| classify(candidate, None, item, DuplicateRule::Drop, NOW);
    assert_eq!(drop(&m1, &fresh), Verdict::Done(Outcome::Redelivered));
    assert_eq!(drop(&m1, &stale), Verdict::Done(Outcome::RedeliveredLate));
    assert_eq!(drop(&m2, &fresh), Verdict::Done(Outcome::Duplicate));
    assert_eq!(drop(&m3, &fresh), Verdict::Done(Outcome::Conflict));
    for candidate in [&m2, &m3] {
        assert_eq!(
            drop(candidate, &stale),
            Verdict::Replace {
                past: PastDeliveries::new()
            }
        );
        let verdict = classify(candidate, None, &fresh, DuplicateRule::Requeue, NOW);
        let past =
            PastDeliveries::from([(m1.sqs_message_id.clone(), Timestamp::from_ms(1_000_001))]);
        assert_eq!(verdict, Verdict::Replace { past });
    }
}

#[test]
fn requeue_remembers_the_messages_it_delivered_before() {
    let (m1, m2) = (message("m1", "a"), message("m2", "a"));
    let past = PastDeliveries::from([(m1.sqs_message_id.clone(), Timestamp::from_ms(1_000_500))]);
    for state in [
        LockState::Live {
            shard: seat(1, 3).shard(),
            seq: 3,
        },
        LockState::Tombstone {
            expires_at: Timestamp::from_ms(2_000_000),
        },
    ] {
        let item = LockItem {
            past: past.clone(),
            ..item_of(&m2, state)
        };
        let again = classify(&m1, None, &item, DuplicateRule::Requeue, NOW);
        assert_eq!(again, Verdict::Done(Outcome::Redelivered));
        let later = classify(
            &m1,
            None,
            &item,
            DuplicateRule::Requeue,
            Timestamp::from_ms(1_000_500),
        );
        assert_ne!(
            later,
            Verdict::Done(Outcome::Redelivered),
            "forgotten after the window"
        );
    }
}

#[test]
fn a_full_memory_makes_the_next_duplicate_wait() {
    let (m1, m2) = (message("m1", "a"), message("m2", "a"));
    let mut item = tombstone(&m1, 2_000_000);
    let until = Timestamp::from_ms(1_500_000);
    item.past = (0..PAST_DELIVERIES_MAX)
        .map(|n| (format!("old{n}").parse().unwrap(), until))
        .collect();
    let verdict = classify(&m2, None, &item, DuplicateRule::Requeue, NOW);
    assert_eq!(verdict, Verdict::Done(Outcome::Duplicate));
    assert_eq!(
        Outcome::Duplicate.answer(DuplicateRule::Requeue),
        Answer::Failure
    );
    let verdict = classify(&m2, None, &item, DuplicateRule::Requeue, until);
    assert!(matches!(verdict, Verdict::Replace { .. }));
}

#[test]
fn answers_follow_the_rule() {
    use Answer::{Failure, Quarantine, Success};
    use Outcome::{Claimed, Conflict, Duplicate, Failed, Redelivered, Unstorable};
    let table = [
        (Claimed, Success, Success),
        (Redelivered, Success, Success),
        (Duplicate, Success, Failure),
        (Conflict, Quarantine, Failure),
        (Unstorable, Quarantine, Quarantine),
        (Failed, Failure, Failure),
    ];
    for (outcome, drop, requeue) in table {
        assert_eq!(outcome.answer(DuplicateRule::Drop), drop, "{outcome:?}");
        assert_eq!(
            outcome.answer(DuplicateRule::Requeue),
            requeue,
            "{outcome:?}"
        );
    }
}

#[test]
fn a_follower_is_never_acknowledged_on_a_failed_leader() {
    let (m1, m2, m3) = (message("m1", "a"), message("m2", "a"), message("m3", "b"));
    assert_eq!(
        classify_follower(&m2, &m1, Outcome::Failed, None),
        Outcome::Failed
    );
    assert_eq!(
        classify_follower(&m2, &m1, Outcome::Unstorable, None),
        Outcome::Failed
    );
    assert_eq!(
        classify_follower(&m2, &m1, Outcome::Claimed, None),
        Outcome::Duplicate
    );
    assert_eq!(
        classify_follower(&m3, &m1, Outcome::Claimed, None),
        Outcome::Conflict
    );
    let again = message("m1", "a");
    assert_eq!(
        classify_follower(&again, &m1, Outcome::Claimed, None),
        Outcome::Claimed
    );
    let winner = tombstone(&m3, 2_000_000);
    assert_eq!(
        classify_follower(&m2, &m1, Outcome::Conflict, Some(&winner)),
        Outcome::Conflict
    );
    assert_eq!(
        classify_follower(&m3, &m1, Outcome::Conflict, Some(&winner)),
        Outcome::Failed
    );
}

#[test]
fn repro_a_duplicate_beside_a_late_redelivery_of_a_forgotten_event_was_dropped() {
    let (first, second) = (message("m1", "body"), message("m2", "body"));
    let forgotten = tombstone(&first, NOW.as_ms());
    let outcome = match classify(&first, None, &forgotten, DuplicateRule::Drop, NOW) {
        Verdict::Done(outcome) => outcome,
        other => panic!("{other:?}"),
    };
    assert_eq!(outcome, Outcome::RedeliveredLate);
    assert_eq!(outcome.answer(DuplicateRule::Drop), Answer::Success);
    // Both come in one event: the second must come back and claim the event for itself.
    assert_eq!(
        classify_follower(&second, &first, outcome, Some(&forgotten)),
        Outcome::Failed
    );
}

/// Stands in for compression: so many bytes, whatever the body.
fn to_bytes(bytes: usize) -> impl FnOnce(&str) -> Option<Vec<u8>> {
    move |_| Some(vec![0; bytes])
}

#[test]
fn a_body_is_compressed_where_that_saves_a_write_unit() {
    let large = of_bytes(2 * WRITE_UNIT_BYTES);
    let saved = large.body.len() - WRITE_UNIT_BYTES;
    let one_unit = large.clone().compressed(to_bytes(saved));
    assert!(one_unit.compressed.is_some());
    assert_eq!(one_unit.item_bytes(), WRITE_UNIT_BYTES);
    let two_units = large.clone().compressed(to_bytes(saved + 1));
    assert_eq!(
        two_units.compressed, None,
        "it takes as many units either way"
    );
    assert_eq!(large.compressed(|_| None).compressed, None, "no shorter");
}

/// A candidate whose item takes so many bytes.
fn of_bytes(bytes: usize) -> Candidate {
    let but_body = CLAIM_OVERHEAD_BYTES + "event".len() + "m1".len() + "arn:q".len();
    message("m1", &"a".repeat(bytes - but_body))
}

#[test]
fn an_item_comes_to_all_that_it_stores() {
    let mut candidate = of_bytes(1_000);
    assert_eq!(candidate.item_bytes(), 1_000);
    candidate.attributes = Some("{\"a\":1}".into());
    assert_eq!(candidate.item_bytes(), 1_007);
    candidate.compressed = Some([0; 10].into());
    let without_body = 1_007 - candidate.body.len();
    assert_eq!(candidate.item_bytes(), without_body + 10);
    let claim = |overflow| Claim {
        candidate: candidate.clone(),
        seat: seat(1, 3),
        overflow,
        past: PastDeliveries::new(),
    };
    assert_eq!(claim(None).item_bytes(), without_body + 10);
    let overflow = Overflow {
        bucket: "bucket".into(),
        key: "key".to_owned(),
        bytes: 1_000_000,
    };
    assert_eq!(
        claim(Some(overflow)).item_bytes(),
        without_body + OVERFLOW_BYTES + "bucket".len() + "key".len()
    );
}

#[test]
fn a_body_that_fits_no_item_goes_to_a_place_of_its_seat() {
    let bucket: Arc<str> = "bodies".into();
    let fits = of_bytes(DYNAMODB_ITEM_BYTES_MAX);
    assert_eq!(fits.overflow(&bucket, seat(1, 3)), None);
    let candidate = of_bytes(DYNAMODB_ITEM_BYTES_MAX + 1);
    let overflow = candidate.overflow(&bucket, seat(1, 3)).unwrap();
    assert_eq!(overflow.bytes, candidate.body.len() as u64);
    assert_eq!(
        overflow.to_string(),
        "s3://bodies/00000000-0000-0000-0000-000000000001/3"
    );
}

#[test]
fn an_item_of_one_write_unit_is_left_as_it_is() {
    let one_unit = of_bytes(WRITE_UNIT_BYTES).compressed(|_| panic!("nothing to save"));
    assert_eq!(one_unit.compressed, None);
    let two_units = of_bytes(WRITE_UNIT_BYTES + 1).compressed(to_bytes(0));
    assert!(two_units.compressed.is_some());
}

#[test]
fn who_relies_on_a_claim_is_who_is_acknowledged_for_it() {
    use DuplicateRule::{Drop, Requeue};
    for (meeting, rule, relies) in [
        (Meeting::Redelivered, Drop, true),
        (Meeting::Redelivered, Requeue, true),
        (Meeting::Duplicate, Drop, true),
        (Meeting::Duplicate, Requeue, false),
        (Meeting::Conflict, Drop, false),
        (Meeting::Conflict, Requeue, false),
    ] {
        assert_eq!(meeting.relies_on_it(rule), relies, "{meeting:?} {rule:?}");
        let answer = meeting.outcome().answer(rule);
        assert_eq!(answer == Answer::Success, relies, "{meeting:?} {rule:?}");
    }
}

#[test]
fn only_the_seat_itself_is_ours() {
    let m1 = message("m1", "a");
    let own = seat(1, 3);
    let claimed = Verdict::Done(Outcome::Claimed);
    let meets = |candidate: &Candidate, item: &LockItem| {
        classify(candidate, Some(own), item, DuplicateRule::Drop, NOW)
    };
    assert_eq!(meets(&m1, &live(&m1, own)), claimed);
    // Seqs 3 and 13 of a batch share a shard; seq 3 of another batch does not.
    assert_ne!(meets(&m1, &live(&m1, seat(1, 13))), claimed);
    assert_ne!(meets(&m1, &live(&m1, seat(2, 3))), claimed);
    assert_ne!(meets(&message("m2", "a"), &live(&m1, own)), claimed);
}

#[test]
fn a_delivery_is_remembered_until_its_window_ends() {
    let (m1, m2) = (message("m1", "a"), message("m2", "a"));
    for (until_ms, remembered) in [(999_999, false), (1_000_000, false), (1_000_001, true)] {
        let until = Timestamp::from_ms(until_ms);
        let mut item = live(&m2, seat(1, 3));
        item.past.insert(m1.sqs_message_id.clone(), until);
        let verdict = classify(&m1, None, &item, DuplicateRule::Requeue, NOW);
        assert_eq!(
            verdict == Verdict::Done(Outcome::Redelivered),
            remembered,
            "until {until_ms}"
        );
        let orphan = settle_live(
            &message("m3", "a"),
            &item,
            Meeting::Duplicate,
            &BatchFate::Unknown,
            DuplicateRule::Requeue,
            NOW,
        );
        let Verdict::Replace { past } = orphan else {
            panic!("an orphan is replaced, not {orphan:?}")
        };
        assert_eq!(past.len(), usize::from(remembered), "until {until_ms}");
    }
}

#[test]
fn the_fate_of_a_batch_is_what_its_record_says() {
    let mut record = BatchRecord::open(
        batch(1),
        "arn:q".parse().unwrap(),
        None,
        10,
        Timestamp::EPOCH,
        NOW,
    );
    assert_eq!(BatchFate::from(None), BatchFate::Unknown);
    assert_eq!(BatchFate::from(Some(&record)), BatchFate::Alive);
    record.status = None;
    record.completed_at = Some(NOW);
    record.delivered = [1, 2].into_iter().collect();
    record.set_aside = [5].into_iter().collect();
    let ended = BatchFate::Ended {
        delivered: [1, 2, 5].into_iter().collect(),
        set_aside: [5].into_iter().collect(),
        completed_at: NOW,
    };
    assert_eq!(BatchFate::from(Some(&record)), ended);
}
