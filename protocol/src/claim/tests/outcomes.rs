//! The response to an outcome, and the outcomes of later messages of the same event.

use super::*;

#[test]
fn the_response_to_an_outcome_follows_the_rule() {
    use Outcome::{BeyondQuota, Claimed, Conflict, Duplicate, Failed, Redelivered, Unstorable};
    use Response::{Failure, Quarantine, Success};
    let table = [
        (Claimed, Success, Success),
        (Redelivered, Success, Success),
        (Duplicate, Success, Failure),
        (Conflict, Quarantine, Failure),
        (Unstorable, Quarantine, Quarantine),
        (BeyondQuota, Quarantine, Quarantine),
        (Failed, Failure, Failure),
    ];
    for (outcome, drop, requeue) in table {
        assert_eq!(outcome.response(DuplicateRule::Drop), drop, "{outcome:?}");
        assert_eq!(
            outcome.response(DuplicateRule::Requeue),
            requeue,
            "{outcome:?}"
        );
    }
}

#[test]
fn a_message_relies_on_a_claim_if_it_is_acknowledged_for_it() {
    use DuplicateRule::{Drop, Requeue};
    for (existing, rule, relies) in [
        (ExistingClaim::Redelivered, Drop, true),
        (ExistingClaim::Redelivered, Requeue, true),
        (ExistingClaim::Duplicate, Drop, true),
        (ExistingClaim::Duplicate, Requeue, false),
        (ExistingClaim::Conflict, Drop, false),
        (ExistingClaim::Conflict, Requeue, false),
    ] {
        assert_eq!(existing.relies_on_it(rule), relies, "{existing:?} {rule:?}");
        let response = existing.outcome().response(rule);
        assert_eq!(
            response == Response::Success,
            relies,
            "{existing:?} {rule:?}"
        );
    }
}

#[test]
fn a_repeat_is_never_acknowledged_if_the_first_failed() {
    let (m1, m2, m3) = (message("m1", "a"), message("m2", "a"), message("m3", "b"));
    assert_eq!(
        classify_repeat(&m2, &m1, Outcome::Failed, None),
        Outcome::Failed
    );
    assert_eq!(
        classify_repeat(&m2, &m1, Outcome::Unstorable, None),
        Outcome::Failed
    );
    assert_eq!(
        classify_repeat(&m2, &m1, Outcome::Claimed, None),
        Outcome::Duplicate
    );
    assert_eq!(
        classify_repeat(&m3, &m1, Outcome::Claimed, None),
        Outcome::Conflict
    );
    let again = message("m1", "a");
    assert_eq!(
        classify_repeat(&again, &m1, Outcome::Claimed, None),
        Outcome::Claimed
    );
    let winner = tombstone(&m3, 2_000_000);
    assert_eq!(
        classify_repeat(&m2, &m1, Outcome::Conflict, Some(&winner)),
        Outcome::Conflict
    );
    assert_eq!(
        classify_repeat(&m3, &m1, Outcome::Conflict, Some(&winner)),
        Outcome::Failed
    );
}

#[test]
fn repro_a_duplicate_beside_a_late_redelivery_of_a_forgotten_event_was_dropped() {
    let (first, second) = (message("m1", "body"), message("m2", "body"));
    let forgotten = tombstone(&first, NOW.as_ms());
    let outcome = match classify(&first, None, &forgotten, &DROP, NOW) {
        Decision::Done(outcome) => outcome,
        other => panic!("{other:?}"),
    };
    assert_eq!(outcome, Outcome::RedeliveredLate);
    assert_eq!(outcome.response(DuplicateRule::Drop), Response::Success);
    // Both are in one SQS event: the second must be redelivered and claim the event itself.
    assert_eq!(
        classify_repeat(&second, &first, outcome, Some(&forgotten)),
        Outcome::Failed
    );
}
