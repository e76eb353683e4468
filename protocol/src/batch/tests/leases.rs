//! Sealing, leases, and the decisions of an operator.

use super::*;
use crate::limits::{CLOCK_SKEW_MAX, DUE_GRACE};

#[test]
fn only_an_open_batch_is_sealed() {
    let seal = seal(counts(1, 5, 0, 5));
    let sealed = must(&opened(), &seal);
    assert_eq!(sealed.status, Some(Status::Sealed));
    assert!(already_applied(&sealed, &seal));
    let taken = must(&opened(), &lease("p", 30, 60));
    assert_eq!(apply(&taken, &seal), None);
    assert!(!already_applied(&taken, &seal));
}

#[test]
fn a_processor_waits_for_the_window_the_seal_or_the_end_of_the_lease() {
    let open = opened();
    assert_eq!(
        may_lease(&open, at(29), None),
        LeaseDecision::TooEarly { closes_at: at(30) }
    );
    assert_eq!(may_lease(&open, at(30), None), LeaseDecision::Free);
    let sealed = must(&open, &seal(counts(1, 0, 0, 0)));
    assert_eq!(may_lease(&sealed, at(1), None), LeaseDecision::Free);
    let leased = must(&sealed, &lease("p", 1, 20));
    assert_eq!(
        may_lease(&leased, at(20), None),
        LeaseDecision::Held { until: at(20) }
    );
    assert_eq!(
        may_lease(&leased, at(22), None),
        LeaseDecision::Free,
        "the lease is free after its end and the clock skew"
    );
    assert!(already_applied(&leased, &lease("p", 1, 20)));
    assert!(!already_applied(&leased, &lease("q", 1, 20)));
    assert_eq!(
        may_lease(&must(&leased, &give_up("p")), at(2), None),
        LeaseDecision::Free
    );
    let failed = must(&leased, &fail("p"));
    assert_eq!(may_lease(&failed, at(99), None), LeaseDecision::InError);
    assert_eq!(
        may_lease(&failed, at(99), Some(OperatorDecision::Retry)),
        LeaseDecision::Free
    );
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
fn a_processor_that_lost_its_lease_can_change_nothing() {
    let taken_over = must(&must(&opened(), &lease("p", 30, 60)), &lease("q", 62, 90));
    for write in [
        freeze("p", 0, 0..3),
        deliver("p", 0, None),
        give_up("p"),
        fail("p"),
        complete("p", 0),
    ] {
        assert_eq!(apply(&taken_over, &write), None, "{write:?}");
    }
    assert_eq!(taken_over.attempts, 2);
}

#[test]
fn an_operators_decision_counts_only_for_a_batch_in_error() {
    let leased = must(&opened(), &lease("p", 30, 60));
    let failed = must(&leased, &fail("p"));
    let word = |operator| BatchWrite::Lease {
        lease: Lease {
            owner: owner("q"),
            until: at(90),
        },
        at: at(70),
        operator,
    };
    let again = must(&failed, &word(Some(OperatorDecision::Retry)));
    assert_eq!((again.quarantine, again.error), (None, None));
    let aside = must(&failed, &word(Some(OperatorDecision::Quarantine)));
    assert_eq!(aside.quarantine.as_deref(), Some("no"));
    assert_eq!(apply(&failed, &word(None)), None);
    let later = must(&aside, &lease("r", 99, 120));
    assert_eq!(
        later.quarantine, aside.quarantine,
        "the next owner sets the batch aside"
    );
    let expired = word(Some(OperatorDecision::Quarantine));
    assert_eq!(apply(&leased, &expired), None, "the batch is not in error");
    assert!(apply(&leased, &word(None)).is_some());
}
