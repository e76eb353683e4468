//! The response to an outcome, and the outcomes of later messages of the same event.

use super::*;

#[test]
fn the_response_to_an_outcome_follows_the_rule() {
    use Outcome::{Claimed, Conflict, Duplicate, Failed, Redelivered, Unstorable};
    use Response::{Failure, Quarantine, Success};
    let table = [
        (Claimed, Success, Success),
        (Redelivered, Success, Success),
        (Duplicate, Success, Failure),
        (Conflict, Quarantine, Failure),
        (Unstorable, Quarantine, Quarantine),
        (Failed, Failure, Failure),
    ];
    for (outcome, drop, requeue) in table {
        let rules = [DuplicateRule::Drop, DuplicateRule::Requeue];
        let responses = rules.map(|rule| outcome.response(rule));
        assert_eq!(responses, [drop, requeue], "{outcome:?}");
    }
}

#[test]
fn a_message_relies_on_a_claim_unless_it_comes_back() {
    use DuplicateRule::{Drop, Requeue};
    for (existing, rule, relies) in [
        (ExistingClaim::Redelivered, Drop, true),
        (ExistingClaim::Redelivered, Requeue, true),
        (ExistingClaim::Duplicate, Drop, true),
        (ExistingClaim::Duplicate, Requeue, false),
        (ExistingClaim::Conflict, Drop, true),
        (ExistingClaim::Conflict, Requeue, false),
    ] {
        assert_eq!(existing.relies_on_it(rule), relies, "{existing:?} {rule:?}");
        let is_done = existing.outcome().response(rule) != Response::Failure;
        assert_eq!(is_done, relies, "{existing:?} {rule:?}");
    }
}

#[test]
fn a_repeat_is_never_acknowledged_if_the_first_failed() {
    use Outcome::{Claimed, Conflict, Duplicate, Failed, Unstorable};
    let (m1, m2, m3) = (message("m1", "a"), message("m2", "a"), message("m3", "b"));
    let again = message("m1", "a");
    let winner = tombstone(&m3, 2_000_000);
    for (repeat, first_outcome, winner, expected) in [
        (&m2, Failed, None, Failed),
        (&m2, Unstorable, None, Failed),
        (&m2, Claimed, None, Duplicate),
        (&m3, Claimed, None, Conflict),
        (&again, Claimed, None, Claimed),
        (&m2, Conflict, Some(&winner), Conflict),
        (&m3, Conflict, Some(&winner), Failed),
    ] {
        let outcome = classify_repeat(repeat, &m1, first_outcome, winner);
        assert_eq!(outcome, expected, "{repeat:?} after {first_outcome:?}");
    }
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
    let repeat = classify_repeat(&second, &first, outcome, Some(&forgotten));
    assert_eq!(repeat, Outcome::Failed);
}
