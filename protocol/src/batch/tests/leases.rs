//! Sealing, leases, and the decisions of an operator.

use super::*;
use crate::limits::{CLOCK_SKEW_MAX, DUE_GRACE};

#[test]
fn only_an_open_batch_is_sealed() {
    let seal = seal();
    let sealed = must(&with_seats(5), &seal);
    assert_eq!(sealed.status, Some(Status::Sealed));
    assert!(already_applied(&sealed, &seal));
    let taken = must(&with_seats(5), &lease("p", 30, 60));
    assert_eq!(apply(&taken, &seal), None);
    assert!(!already_applied(&taken, &seal));
}

#[test]
fn a_processor_waits_for_the_window_the_seal_or_the_end_of_the_lease() {
    let may = |record: &BatchRecord, secs| may_lease(record, at(secs), None);
    let (closes_at, until) = (at(30), at(20));
    let open = with_seats(5);
    assert_eq!(may(&open, 29), LeaseDecision::TooEarly { closes_at });
    assert_eq!(may(&open, 30), LeaseDecision::Free);
    let sealed = must(&open, &seal());
    assert_eq!(may(&sealed, 1), LeaseDecision::Free);
    let leased = must(&sealed, &lease("p", 1, 20));
    assert_eq!(may(&leased, 20), LeaseDecision::Held { until });
    // After its end and the clock skew.
    assert_eq!(may(&leased, 22), LeaseDecision::Free);
    assert!(already_applied(&leased, &lease("p", 1, 20)));
    assert!(!already_applied(&leased, &lease("q", 1, 20)));
    let given_up = must(&leased, &give_up("p"));
    assert_eq!(may(&given_up, 2), LeaseDecision::Free);
    let failed = must(&leased, &fail("p"));
    assert_eq!(may(&failed, 99), LeaseDecision::InError);
    let retry = Some(OperatorDecision::Retry);
    assert_eq!(may_lease(&failed, at(99), retry), LeaseDecision::Free);
}

#[test]
fn a_lease_makes_the_batch_due_after_its_end() {
    assert_eq!(opened().due_at, at(30) + CLOCK_SKEW_MAX + DUE_GRACE);
    let leased = must(&opened(), &lease("p", 30, 60));
    assert_eq!(leased.due_at, at(60) + DUE_GRACE);
}

#[test]
fn a_resent_ticket_moves_the_due_time_only_if_it_is_unchanged() {
    let record = opened();
    let resent = |was_due_at| BatchWrite::TicketResent {
        was_due_at,
        due_at: at(700),
    };
    assert_eq!(must(&record, &resent(record.due_at)).due_at, at(700));
    assert_eq!(apply(&record, &resent(record.due_at + SECOND)), None);
}

#[test]
fn an_operators_decision_counts_only_for_a_batch_in_error() {
    let leased = must(&opened(), &lease("p", 30, 60));
    let failed = must(&leased, &fail("p"));
    let word = |operator| BatchWrite::Lease {
        lease: lease_of("q", 90),
        at: at(70),
        operator,
    };
    let again = must(&failed, &word(Some(OperatorDecision::Retry)));
    assert_eq!((again.quarantine, again.error), (None, None));
    let aside = must(&failed, &word(Some(OperatorDecision::Quarantine)));
    assert_eq!(aside.quarantine.as_deref(), Some("no"));
    assert_eq!(apply(&failed, &word(None)), None);
    // The next owner sets the batch aside.
    let later = must(&aside, &lease("r", 99, 120));
    assert_eq!(later.quarantine, aside.quarantine);
    let expired = word(Some(OperatorDecision::Quarantine));
    assert_eq!(apply(&leased, &expired), None, "the batch is not in error");
    assert!(apply(&leased, &word(None)).is_some());
}
