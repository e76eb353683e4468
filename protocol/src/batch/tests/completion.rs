//! The conditions of completing a batch.

use super::*;

#[test]
fn uncounted_claims_never_stand_in_for_counted_ones() {
    // Seqs 0..10 are settled and all of them claims; 10..20 belong to an invocation that died.
    let record = counted(20, 10, 10);
    let shown: SeqSet = (5..20).collect();
    let missing = Lag {
        confirmed: 10,
        found: 5,
        witnessed_missing: 0,
    };
    assert_eq!(lag(&record, &shown), Some(missing));
    assert_eq!(lag(&record, &(0..10).collect()), None);
}

#[test]
fn a_witnessed_claim_must_be_found_before_anything_is_delivered() {
    let record = must(&opened(), &witness(&[12], 0));
    assert!(lag(&record, &(0..5).collect()).is_some());
    assert_eq!(lag(&record, &[12].into_iter().collect()), None);
}

#[test]
fn completion_is_refused_after_a_new_witness_or_counts_of_a_former_version() {
    let leased = must(&opened(), &lease("p", 30, 60));
    let complete = complete("p", 0);
    let witnessed = must(&leased, &witness(&[3], 0));
    assert_eq!(apply(&witnessed, &complete), None);
    let counted = BatchRecord {
        counts_version: 1,
        ..leased.clone()
    };
    assert_eq!(apply(&counted, &complete), None);
    let done = must(&leased, &complete);
    assert_eq!((done.status, done.completed_at), (None, Some(at(40))));
    assert_eq!(apply(&done, &witness(&[3], 0)), None);
}

#[test]
fn a_batch_is_proven_only_when_counted_certain_delivered_and_released() {
    let ended = |uncertain: u64, seqs| delivered(&counted(5 + uncertain, 5, 5), seqs);
    let (all, four): (SeqSet, SeqSet) = ((0..5).collect(), (0..4).collect());
    assert!(proven(&ended(0, 0..5), &all));
    assert!(!proven(&ended(0, 0..5), &four), "a release is missing");
    assert!(!proven(&ended(1, 0..5), &all), "a seat is uncertain");
    assert!(!proven(&ended(0, 0..4), &all), "a claim is not delivered");
    let uncounted = delivered(&must(&with_seats(5), &lease("p", 30, 60)), 0..5);
    assert!(!proven(&uncounted, &all), "the slots are not read");
    let former = delivered(&must(&opened(), &lease("p", 30, 60)), 0..5);
    assert!(!proven(&former, &all), "its aggregator did not seal it");
    let sealed = BatchRecord {
        sealed_at: Some(at(1)),
        ..former
    };
    assert!(proven(&sealed, &all));
}

#[test]
fn a_proven_batch_completes_without_verification() {
    let whole = delivered(&counted(5, 5, 5), 0..5);
    let look = |released: &SeqSet| empty_index(&whole, released, at(32), 60 * SECOND);
    assert_eq!(look(&(0..5).collect()), EmptyIndex::Complete);
    assert_eq!(look(&(0..4).collect()), EmptyIndex::VerifyAt(at(92)));
}

#[test]
fn an_unproven_batch_is_verified_before_it_completes() {
    let record = must(&opened(), &lease("p", 30, 60));
    let none = SeqSet::new();
    let look = |record: &BatchRecord, now| empty_index(record, &none, at(now), 60 * SECOND);
    assert_eq!(look(&record, 31), EmptyIndex::VerifyAt(at(91)));
    let given = give_up_with("p", Some(at(91)), None);
    let again = must(&must(&record, &given), &lease("q", 50, 80));
    // An early ticket does not move the verification.
    assert_eq!(look(&again, 50), EmptyIndex::VerifyAt(at(91)));
    assert_eq!(look(&again, 91), EmptyIndex::Complete);
    let found = must(&again, &freeze("q", 0, 0..1));
    assert_eq!(found.verify_at, None, "a late claim restarts the wait");
}

#[test]
fn repro_a_late_lease_and_a_late_completion_ended_a_batch_with_a_frozen_part() {
    // p finds nothing and completes; the write is in flight for long, and p gives up.
    let leased = must(&opened(), &lease("p", 30, 60));
    let complete = complete("p", 0);
    let given_up = must(&leased, &give_up("p"));
    // q finds a claim, freezes it, and gives up before the sink has it.
    let leased = must(&given_up, &lease("q", 41, 60));
    let frozen = must(&leased, &freeze("q", 0, 3..4));
    let given_up = must(&frozen, &give_up("q"));
    // Now p's retry of its lease arrives, and then its completion.
    let leased_again = must(&given_up, &lease("p", 30, 60));
    assert_eq!(apply(&leased_again, &complete), None);
}
