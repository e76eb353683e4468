//! The conditions of writes, and how a retry recognises an earlier attempt.

use super::*;
use crate::chain::Link;
use crate::limits::BATCH_RECORD_RETENTION;

#[test]
fn a_note_is_written_only_to_the_batch_as_the_operator_saw_it() {
    let record = opened();
    let note = |attempts, notes_count| BatchWrite::Note {
        status: Some(Status::Open),
        attempts,
        notes_count,
        notes: vec![OperatorNote::new(at(5), "me", "retry", "solved")],
    };
    let noted = must(&record, &note(0, 0));
    assert_eq!((noted.notes.len(), noted.notes_count), (1, 1));
    assert!(already_applied(&noted, &note(0, 0)), "its reply was lost");
    for stale in [note(1, 1), note(0, 0), note(0, 2)] {
        assert_eq!(apply(&noted, &stale), None, "{stale:?}");
    }
    let complete = BatchRecord {
        status: None,
        completed_at: Some(at(9)),
        ..record
    };
    assert_eq!(apply(&complete, &note(0, 0)), None);
}

/// Returns a write that counts claims and has a witness.
fn witnessing() -> BatchWrite {
    let mut write = count(5, 3, 4);
    if let BatchWrite::Count { counts, .. } = &mut write {
        counts.witnessed = [4].into_iter().collect();
    }
    write
}

/// Returns writes of `p`, each with the record after it: `p` has the lease, and part 0 is frozen where the write needs
/// it.
fn applied() -> Vec<(BatchRecord, BatchWrite)> {
    let leased = must(&opened(), &lease("p", 30, 60));
    let with_seats = must(&with_seats(5), &lease("p", 30, 60));
    let freeze = freeze("p", 0, 0..3);
    let frozen = must(&leased, &freeze);
    let number = BatchWrite::Number {
        owner: owner("p"),
        index: 0,
        number: 7,
        link: Some(Link::after(None, at(5))),
    };
    let of_log = log::leased();
    let resolved = must(&of_log, &log::resolve());
    [
        (&leased, freeze),
        (&frozen, accept()),
        (&frozen, number),
        (&frozen, deliver("p", 0, None)),
        (&frozen, set_aside(Some(0), 0)),
        (&leased, fail("p")),
        (&with_seats, witnessing()),
        (&of_log, log::resolve()),
        (&resolved, log::reported()),
    ]
    .map(|(record, write)| (must(record, &write), write))
    .into()
}

#[test]
fn a_write_is_recognised_where_it_applied_and_nowhere_else() {
    type Change = fn(&mut BatchRecord);
    let another_owner: Change = |record| record.lease = Some(lease_of("q", 90));
    let frozen: Change = |record| record.parts[0].state = PartState::Frozen;
    let delivered: Change = |record| {
        record.parts[0].state = PartState::Delivered {
            receipt: "r".to_owned(),
            at: None,
        };
    };
    let other_members: Change = |record| record.parts[0].members = (0..2).collect();
    let other_hash: Change = |record| record.parts[0].hash = [8; 32];
    let other_sink: Change = |record| record.parts[0].sink = Some("a third".to_owned());
    let other_number: Change = |record| record.parts[0].file_number = Some(8);
    let other_link: Change = |record| record.parts[0].link = None;
    let no_parts: Change = |record| record.parts.clear();
    let less_set_aside: Change = |record| record.set_aside = (0..2).collect();
    let not_in_error: Change = |record| record.status = Some(Status::Processing);
    let other_error: Change = |record| record.error = Some("never".to_owned());
    let not_counted: Change = |record| record.reservations = Some(Reservations::default());
    let other_settled: Change = |record| record.settled = (0..2).collect();
    let not_witnessed: Change = |record| record.witnessed = SeqSet::new();
    let other_winners: Change = |record| record.claimed = (0..2).collect();
    let other_duplicates: Change = |record| log::resolution_of(record).duplicates = SeqSet::new();
    let other_conflicts: Change = |record| log::resolution_of(record).conflicts = SeqSet::new();
    let other_beyond_quota: Change = |record| log::resolution_of(record).beyond_quota.insert(4);
    let not_reported: Change = |record| log::resolution_of(record).is_reported = false;
    for (record, write) in applied() {
        assert!(already_applied(&record, &write), "{write:?}");
        let changes: &[Change] = match &write {
            BatchWrite::Freeze { .. } => &[
                another_owner,
                delivered,
                other_members,
                other_hash,
                no_parts,
            ],
            BatchWrite::AcceptSink { .. } => &[another_owner, delivered, other_sink, no_parts],
            BatchWrite::Number { .. } => {
                &[another_owner, delivered, other_number, other_link, no_parts]
            }
            BatchWrite::Delivered { .. } => &[another_owner, frozen, no_parts],
            BatchWrite::SetAside { .. } => &[another_owner, less_set_aside],
            BatchWrite::Fail { .. } => &[not_in_error, other_error],
            BatchWrite::Count { .. } => &[another_owner, not_counted, other_settled, not_witnessed],
            BatchWrite::Resolve { .. } => &[
                another_owner,
                other_winners,
                other_duplicates,
                other_conflicts,
                other_beyond_quota,
            ],
            BatchWrite::Reported { .. } => &[another_owner, not_reported],
            other => panic!("{other:?} is not among them"),
        };
        for (number, change) in changes.iter().enumerate() {
            let mut changed = record.clone();
            change(&mut changed);
            let is_recognised = already_applied(&changed, &write);
            assert!(!is_recognised, "{write:?} after change {number}");
        }
    }
}

#[test]
fn claims_are_counted_once_and_only_as_the_witnesses_were_read() {
    let leased = must(&with_seats(5), &lease("p", 30, 60));
    let record = must(&leased, &witnessing());
    let counts = (record.confirmed, record.uncertain, record.settled.len());
    assert_eq!(counts, (3, 1, 4));
    assert_eq!(record.witnessed, [4].into_iter().collect());
    assert!(record.has_final_counts() && record.is_resolved() && record.is_reported());
    assert_eq!(apply(&record, &count(5, 3, 4)), None);
    let witnessed = must(&leased, &witness(&[2], 0));
    assert_eq!(apply(&witnessed, &witnessing()), None);
}

#[test]
fn a_witness_is_recognised_by_the_seqs_it_witnesses() {
    let witnessed = must(&opened(), &witness(&[3, 4], 0));
    assert!(already_applied(&witnessed, &witness(&[3], 0)));
    assert!(!already_applied(&witnessed, &witness(&[3, 5], 0)));
    // Another invocation wrote a witness since the record was read.
    assert_eq!(apply(&witnessed, &witness(&[3, 5], 0)), None);
}

#[test]
fn giving_up_is_recognised_by_the_owner_of_the_lease() {
    let leased = must(&opened(), &lease("p", 30, 60));
    assert!(!already_applied(&leased, &give_up("p")));
    assert!(already_applied(&leased, &give_up("q")));
    let given_up = must(&leased, &give_up("p"));
    assert_eq!((&given_up.lease, given_up.due_at), (&None, at(90)));
    assert!(already_applied(&given_up, &give_up("p")));
}

#[test]
fn the_last_failure_stays_until_a_part_is_delivered() {
    let leased = must(&opened(), &lease("p", 30, 60));
    let failure = Failure {
        at: at(35),
        text: "HTTP 503".to_owned(),
    };
    let text = |record: &BatchRecord| record.last_failure.clone().map(|failure| failure.text);
    let failed = must(&leased, &give_up_with("p", None, Some(failure)));
    assert_eq!(text(&failed).as_deref(), Some("HTTP 503"));
    let again = must(&failed, &lease("q", 40, 60));
    let paused = must(&again, &give_up("q"));
    assert_eq!(text(&paused).as_deref(), Some("HTTP 503"));
    let again = must(&paused, &lease("r", 50, 70));
    let frozen = must(&again, &freeze("r", 0, 0..1));
    let delivered = must(&frozen, &deliver("r", 0, None));
    assert_eq!(text(&delivered), None);
}

#[test]
fn a_completion_is_recognised_by_the_completed_record() {
    let leased = must(&opened(), &lease("p", 30, 60));
    let complete = complete("p", 0);
    assert!(!already_applied(&leased, &complete));
    let done = must(&leased, &complete);
    assert!(already_applied(&done, &complete));
    assert_eq!(done.expires_at, Some(Timestamp::EPOCH));
    let kept_until = leased.kept_until(at(40));
    assert_eq!(kept_until, at(40) + BATCH_RECORD_RETENTION);
}

fn accept() -> BatchWrite {
    BatchWrite::AcceptSink {
        owner: owner("p"),
        index: 0,
        sink: "another".to_owned(),
    }
}

fn set_aside(part: Option<usize>, set_asides: u64) -> BatchWrite {
    BatchWrite::SetAside {
        owner: owner("p"),
        part,
        set_aside: (0..3).collect(),
        set_asides,
    }
}

#[test]
fn a_write_that_misses_any_of_its_conditions_does_not_apply() {
    let leased = must(&opened(), &lease("p", 30, 60));
    let frozen = must(&leased, &freeze("p", 0, 0..3));
    let ended = delivered(&leased, 0..3);
    let of_another = must(&frozen, &lease("q", 62, 90));
    let counted = counted(5, 5, 5);
    let seats_of_another = must(&with_seats(5), &lease("q", 30, 60));
    for (record, write) in [
        (&of_another, deliver("p", 0, None)),
        (&ended, deliver("p", 0, None)),
        (&leased, deliver("p", 0, None)),
        (&of_another, accept()),
        (&ended, accept()),
        (&leased, accept()),
        (&of_another, set_aside(Some(0), 0)),
        (&ended, set_aside(Some(0), 0)),
        (&leased, set_aside(Some(0), 0)),
        (&frozen, set_aside(Some(0), 1)),
        (&of_another, set_aside(None, 0)),
        (&of_another, freeze("p", 1, 3..5)),
        (&frozen, freeze("p", 0, 3..5)),
        (&frozen, freeze("p", 2, 3..5)),
        (&of_another, give_up("p")),
        (&of_another, fail("p")),
        (&of_another, complete("p", 1)),
        (&ended, complete("p", 0)),
        (&counted, count(5, 3, 3)),
        (&seats_of_another, count(5, 5, 5)),
        (&leased, count(5, 5, 5)),
        (&log::leased(), count(5, 5, 5)),
    ] {
        assert_eq!(apply(record, &write), None, "{write:?} to {record:?}");
    }
    assert_eq!(of_another.attempts, 2);
    assert!(apply(&frozen, &set_aside(Some(0), 0)).is_some());
    assert!(apply(&ended, &set_aside(None, 0)).is_some());
    assert!(apply(&ended, &complete("p", 1)).is_some());
}
