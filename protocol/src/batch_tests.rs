use std::time::Duration;

use super::*;
use crate::ids::{BatchId, LeaseOwner, Seq};
use crate::invariants::record_is_sound;
use crate::limits::{
    BATCH_RECORD_RETENTION, CLOCK_SKEW_MAX, DUE_GRACE, PART_MEMBERS_BYTES_MAX, PART_OVERHEAD_BYTES,
    RECORD_OVERHEAD_BYTES,
};
use crate::seqs::SeqSet;
use crate::time::Timestamp;

const SECOND: Duration = Duration::from_secs(1);

fn at(secs: u64) -> Timestamp {
    Timestamp::from_ms(secs * 1_000)
}

fn opened() -> BatchRecord {
    let id = BatchId::new(uuid::Uuid::from_u128(1));
    BatchRecord::open(id, "arn:q".parse().unwrap(), None, 10, at(0), at(30))
}

fn account(version: u64, confirmed: u64, uncertain: u64, settled: u32) -> Account {
    Account {
        confirmed,
        uncertain,
        settled: (0..settled).collect(),
        version,
    }
}

fn owner(name: &str) -> LeaseOwner {
    name.parse().unwrap()
}

fn lease(name: &str, now: u64, until: u64) -> BatchWrite {
    BatchWrite::Lease {
        lease: Lease {
            owner: owner(name),
            until: at(until),
        },
        at: at(now),
        operator: None,
    }
}

fn part(seqs: std::ops::Range<u32>) -> PartRecord {
    PartRecord::frozen(seqs.collect(), [7; 32], None)
}

fn witness(seqs: &[Seq], witnesses: u64) -> BatchWrite {
    BatchWrite::Witness {
        witnessed: seqs.iter().copied().collect(),
        witnesses,
    }
}

fn must(record: &BatchRecord, write: &BatchWrite) -> BatchRecord {
    let next = apply(record, write).unwrap_or_else(|| panic!("{write:?} must apply to {record:?}"));
    assert_eq!(record_is_sound(&next), Ok(()));
    next
}

fn delivered(record: &BatchRecord, seqs: std::ops::Range<u32>) -> BatchRecord {
    let index = record.parts.len();
    let frozen = must(
        record,
        &BatchWrite::Freeze {
            owner: owner("p"),
            index,
            part: part(seqs),
        },
    );
    must(
        &frozen,
        &BatchWrite::Delivered {
            owner: owner("p"),
            index,
            receipt: "r".to_owned(),
            delivered: frozen.delivered_with(index),
        },
    )
}

#[test]
fn statuses_have_the_names_that_the_table_has() {
    assert_eq!(
        Status::ALL.map(Status::as_str),
        ["open", "sealed", "processing", "error"]
    );
}

#[test]
fn a_late_account_never_overwrites_a_later_one() {
    let record = must(&opened(), &BatchWrite::Account(account(2, 5, 0, 5)));
    let stale = BatchWrite::Account(account(1, 3, 0, 3));
    assert_eq!(apply(&record, &stale), None);
    assert!(
        already_applied(&record, &stale),
        "the later account contains the earlier one"
    );
}

#[test]
fn only_an_open_batch_is_sealed() {
    let seal = BatchWrite::Seal {
        account: account(1, 5, 0, 5),
        at: at(10),
    };
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
        LeaseVerdict::TooEarly { closes_at: at(30) }
    );
    assert_eq!(may_lease(&open, at(30), None), LeaseVerdict::Free);
    let sealed = must(
        &open,
        &BatchWrite::Seal {
            account: account(1, 0, 0, 0),
            at: at(1),
        },
    );
    assert_eq!(may_lease(&sealed, at(1), None), LeaseVerdict::Free);
    let leased = must(&sealed, &lease("p", 1, 20));
    assert_eq!(
        may_lease(&leased, at(20), None),
        LeaseVerdict::Held { until: at(20) }
    );
    assert_eq!(
        may_lease(&leased, at(22), None),
        LeaseVerdict::Free,
        "after the end and the clock skew"
    );
    assert!(already_applied(&leased, &lease("p", 1, 20)));
    assert!(!already_applied(&leased, &lease("q", 1, 20)));
    let given = BatchWrite::GiveUp {
        owner: owner("p"),
        due_at: at(90),
        verify_at: None,
    };
    assert_eq!(
        may_lease(&must(&leased, &given), at(2), None),
        LeaseVerdict::Free
    );
    let failed = must(
        &leased,
        &BatchWrite::Fail {
            owner: owner("p"),
            error: "no".to_owned(),
        },
    );
    assert_eq!(may_lease(&failed, at(99), None), LeaseVerdict::InError);
    assert_eq!(
        may_lease(&failed, at(99), Some(OperatorWord::Retry)),
        LeaseVerdict::Free
    );
}

#[test]
fn who_lost_the_lease_can_change_nothing() {
    let taken_over = must(&must(&opened(), &lease("p", 30, 60)), &lease("q", 62, 90));
    let p = owner("p");
    for write in [
        BatchWrite::Freeze {
            owner: p.clone(),
            index: 0,
            part: part(0..3),
        },
        BatchWrite::Delivered {
            owner: p.clone(),
            index: 0,
            receipt: String::new(),
            delivered: None,
        },
        BatchWrite::GiveUp {
            owner: p.clone(),
            due_at: at(0),
            verify_at: None,
        },
        BatchWrite::Fail {
            owner: p.clone(),
            error: String::new(),
        },
        BatchWrite::Complete {
            owner: p,
            accounts: 0,
            witnesses: 0,
            parts: 0,
            at: at(70),
        },
    ] {
        assert_eq!(apply(&taken_over, &write), None, "{write:?}");
    }
    assert_eq!(taken_over.attempts, 2);
}

#[test]
fn claims_nobody_counted_never_stand_in_for_counted_ones() {
    // Seqs 0..10 are settled and all of them claims; 10..20 belong to an invocation that died.
    let record = must(&opened(), &BatchWrite::Account(account(1, 10, 0, 10)));
    let shown: SeqSet = (5..20).collect();
    assert_eq!(
        lag(&record, &shown),
        Some(Lag {
            confirmed: 10,
            found: 5,
            witnessed_missing: 0
        })
    );
    assert_eq!(lag(&record, &(0..10).collect()), None);
}

#[test]
fn a_witnessed_claim_must_be_found_before_anything_is_delivered() {
    let record = must(&opened(), &witness(&[12], 0));
    assert!(lag(&record, &(0..5).collect()).is_some());
    assert_eq!(lag(&record, &[12].into_iter().collect()), None);
}

#[test]
fn completion_waits_for_accounts_and_witnesses_that_came_meanwhile() {
    let leased = must(&opened(), &lease("p", 30, 60));
    let complete = BatchWrite::Complete {
        owner: owner("p"),
        accounts: 0,
        witnesses: 0,
        parts: 0,
        at: at(40),
    };
    let witnessed = must(&leased, &witness(&[3], 0));
    assert_eq!(apply(&witnessed, &complete), None);
    let counted = must(&leased, &BatchWrite::Account(account(1, 1, 0, 1)));
    assert_eq!(apply(&counted, &complete), None);
    let done = must(&leased, &complete);
    assert_eq!((done.status, done.completed_at), (None, Some(at(40))));
    assert_eq!(apply(&done, &witness(&[3], 0)), None);
    assert_eq!(
        apply(&done, &BatchWrite::Account(account(1, 1, 0, 1))),
        None
    );
}

#[test]
fn a_batch_is_proven_only_when_sealed_certain_delivered_and_released() {
    let sealed = |uncertain| {
        must(
            &opened(),
            &BatchWrite::Seal {
                account: account(1, 5, uncertain, 5),
                at: at(1),
            },
        )
    };
    let whole = delivered(&must(&sealed(0), &lease("p", 1, 30)), 0..5);
    let all: SeqSet = (0..5).collect();
    assert!(proven(&whole, &all));
    assert!(
        !proven(&whole, &(0..4).collect()),
        "one release was not acknowledged"
    );
    let unsure = delivered(&must(&sealed(1), &lease("p", 1, 30)), 0..5);
    assert!(!proven(&unsure, &all));
    let open = must(&opened(), &BatchWrite::Account(account(1, 5, 0, 5)));
    assert!(
        !proven(&delivered(&must(&open, &lease("p", 30, 60)), 0..5), &all),
        "never sealed"
    );
    let short = delivered(&must(&sealed(0), &lease("p", 1, 30)), 0..4);
    assert!(!proven(&short, &all));
}

#[test]
fn a_proven_batch_needs_no_second_look() {
    let seal = BatchWrite::Seal {
        account: account(1, 5, 0, 5),
        at: at(1),
    };
    let whole = delivered(&must(&must(&opened(), &seal), &lease("p", 1, 30)), 0..5);
    let look = |released: &SeqSet| empty_look(&whole, released, at(2), 60 * SECOND);
    assert_eq!(look(&(0..5).collect()), EmptyLook::Complete);
    assert_eq!(look(&(0..4).collect()), EmptyLook::VerifyAt(at(62)));
}

#[test]
fn an_unproven_batch_is_looked_at_twice() {
    let record = must(&opened(), &lease("p", 30, 60));
    let none = SeqSet::new();
    let look = |record: &BatchRecord, now| empty_look(record, &none, at(now), 60 * SECOND);
    assert_eq!(look(&record, 31), EmptyLook::VerifyAt(at(91)));
    let given = BatchWrite::GiveUp {
        owner: owner("p"),
        due_at: at(200),
        verify_at: Some(at(91)),
    };
    let again = must(&must(&record, &given), &lease("q", 50, 80));
    assert_eq!(
        look(&again, 50),
        EmptyLook::VerifyAt(at(91)),
        "an early ticket does not move it"
    );
    assert_eq!(look(&again, 91), EmptyLook::Complete);
    let found = must(
        &again,
        &BatchWrite::Freeze {
            owner: owner("q"),
            index: 0,
            part: part(0..1),
        },
    );
    assert_eq!(found.verify_at, None, "a straggler starts the wait anew");
}

#[test]
fn the_ticket_comes_after_the_window_and_within_what_sqs_can_delay() {
    let closing = Closing::plan(at(0), at(15), 300 * SECOND).unwrap();
    assert_eq!(closing.closes_at, at(315));
    assert_eq!(
        closing.ticket_delay(Timestamp::from_ms(1)),
        317 * SECOND,
        "rounded up, skew included"
    );
    let cut = Closing::plan(at(0), at(800), 300 * SECOND).unwrap();
    assert_eq!(cut.closes_at, at(897));
    assert_eq!(cut.ticket_delay(Timestamp::from_ms(0)), 899 * SECOND);
    let error = Closing::plan(at(0), at(897), 300 * SECOND).unwrap_err();
    assert!(error.to_string().contains("`897` s") && error.to_string().contains("900 s"));
}

#[test]
fn what_a_collected_seq_is_follows_from_the_parts() {
    let record = delivered(&must(&opened(), &lease("p", 30, 60)), 0..3);
    let record = must(
        &record,
        &BatchWrite::Freeze {
            owner: owner("p"),
            index: 1,
            part: part(3..5),
        },
    );
    assert_eq!(role(&record, 2), Role::Leftover);
    assert_eq!(role(&record, 3), Role::Frozen);
    assert_eq!(role(&record, 5), Role::New);
    assert_eq!(record.frozen_part().map(|(index, _)| index), Some(1));
}

#[test]
fn repro_a_late_lease_and_a_late_completion_ended_a_batch_with_a_frozen_part() {
    // p finds nothing and completes; the write is under way for long, and p gives up.
    let leased = must(&opened(), &lease("p", 30, 60));
    let complete = BatchWrite::Complete {
        owner: owner("p"),
        accounts: 0,
        witnesses: 0,
        parts: 0,
        at: at(40),
    };
    let given_up = must(
        &leased,
        &BatchWrite::GiveUp {
            owner: owner("p"),
            due_at: at(50),
            verify_at: None,
        },
    );
    // q finds a claim, freezes it, and gives up before the sink has it.
    let frozen = must(
        &must(&given_up, &lease("q", 41, 60)),
        &BatchWrite::Freeze {
            owner: owner("q"),
            index: 0,
            part: PartRecord::frozen([3].into_iter().collect(), [7; 32], None),
        },
    );
    let given_up = must(
        &frozen,
        &BatchWrite::GiveUp {
            owner: owner("q"),
            due_at: at(50),
            verify_at: None,
        },
    );
    // Now p's repeated request for the lease arrives, and then its completion.
    let leased_again = must(&given_up, &lease("p", 30, 60));
    assert_eq!(apply(&leased_again, &complete), None);
}

/// Writes of `p`, each with a record to which it was applied: `p` has the lease, and part 0 is frozen where it needs one.
fn applied() -> Vec<(BatchRecord, BatchWrite)> {
    let p = || owner("p");
    let seal = BatchWrite::Seal {
        account: account(1, 5, 0, 5),
        at: at(10),
    };
    let leased = must(&must(&opened(), &seal), &lease("p", 30, 60));
    let freeze = BatchWrite::Freeze {
        owner: p(),
        index: 0,
        part: part(0..3),
    };
    let frozen = must(&leased, &freeze);
    let accept = BatchWrite::AcceptSink {
        owner: p(),
        index: 0,
        sink: "another".to_owned(),
    };
    let deliver = BatchWrite::Delivered {
        owner: p(),
        index: 0,
        receipt: "r".to_owned(),
        delivered: None,
    };
    let set_aside = BatchWrite::SetAside {
        owner: p(),
        part: Some(0),
        set_aside: (0..3).collect(),
        set_asides: 0,
    };
    let fail = BatchWrite::Fail {
        owner: p(),
        error: "no".to_owned(),
    };
    [
        (&leased, freeze),
        (&frozen, accept),
        (&frozen, deliver),
        (&frozen, set_aside),
        (&leased, fail),
    ]
    .map(|(record, write)| (must(record, &write), write))
    .into()
}

#[test]
fn a_write_is_recognised_where_it_applied_and_nowhere_else() {
    type Change = fn(&mut BatchRecord);
    let another_owner: Change = |record| {
        record.lease = Some(Lease {
            owner: owner("q"),
            until: at(90),
        });
    };
    let frozen: Change = |record| record.parts[0].state = PartState::Frozen;
    let delivered: Change = |record| {
        record.parts[0].state = PartState::Delivered {
            receipt: "r".to_owned(),
        };
    };
    let other_members: Change = |record| record.parts[0].members = (0..2).collect();
    let other_hash: Change = |record| record.parts[0].hash = [8; 32];
    let other_sink: Change = |record| record.parts[0].sink = Some("a third".to_owned());
    let no_parts: Change = |record| record.parts.clear();
    let less_set_aside: Change = |record| record.set_aside = (0..2).collect();
    let not_in_error: Change = |record| record.status = Some(Status::Processing);
    let other_error: Change = |record| record.error = Some("never".to_owned());
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
            BatchWrite::Delivered { .. } => &[another_owner, frozen, no_parts],
            BatchWrite::SetAside { .. } => &[another_owner, less_set_aside],
            BatchWrite::Fail { .. } => &[not_in_error, other_error],
            other => panic!("{other:?} is not among them"),
        };
        for (number, change) in changes.iter().enumerate() {
            let mut changed = record.clone();
            change(&mut changed);
            assert!(
                !already_applied(&changed, &write),
                "{write:?} is recognised after change {number}"
            );
        }
    }
}

#[test]
fn a_seal_is_recognised_by_its_counts_and_its_seal() {
    let seal = |version| BatchWrite::Seal {
        account: account(version, 5, 0, 5),
        at: at(10),
    };
    let counted = must(&opened(), &BatchWrite::Account(account(2, 5, 0, 5)));
    assert!(!already_applied(&counted, &seal(1)), "never sealed");
    let sealed = must(&opened(), &seal(1));
    assert!(already_applied(&sealed, &seal(1)));
    assert!(
        !already_applied(&sealed, &seal(2)),
        "sealed with other counts"
    );
    let account = |version| BatchWrite::Account(account(version, 5, 0, 5));
    assert!(already_applied(&sealed, &account(1)));
    assert!(!already_applied(&sealed, &account(2)));
}

#[test]
fn a_witness_is_recognised_by_what_is_witnessed() {
    let witnessed = must(&opened(), &witness(&[3, 4], 0));
    assert!(already_applied(&witnessed, &witness(&[3], 0)));
    assert!(!already_applied(&witnessed, &witness(&[3, 5], 0)));
    assert_eq!(
        apply(&witnessed, &witness(&[3, 5], 0)),
        None,
        "others told of theirs since the record was read"
    );
}

#[test]
fn giving_up_is_recognised_by_who_has_the_lease() {
    let leased = must(&opened(), &lease("p", 30, 60));
    let give_up = |name| BatchWrite::GiveUp {
        owner: owner(name),
        due_at: at(90),
        verify_at: None,
    };
    assert!(!already_applied(&leased, &give_up("p")));
    assert!(already_applied(&leased, &give_up("q")));
    let given_up = must(&leased, &give_up("p"));
    assert_eq!((&given_up.lease, given_up.due_at), (&None, at(90)));
    assert!(already_applied(&given_up, &give_up("p")));
}

#[test]
fn a_completion_is_recognised_by_its_end() {
    let leased = must(&opened(), &lease("p", 30, 60));
    let complete = BatchWrite::Complete {
        owner: owner("p"),
        accounts: 0,
        witnesses: 0,
        parts: 0,
        at: at(40),
    };
    assert!(!already_applied(&leased, &complete));
    let done = must(&leased, &complete);
    assert!(already_applied(&done, &complete));
    assert_eq!(done.expires_at, Some(at(40) + BATCH_RECORD_RETENTION));
}

#[test]
fn a_write_that_misses_any_of_its_conditions_does_not_apply() {
    let p = || owner("p");
    let leased = must(&opened(), &lease("p", 30, 60));
    let frozen = must(
        &leased,
        &BatchWrite::Freeze {
            owner: p(),
            index: 0,
            part: part(0..3),
        },
    );
    let ended = delivered(&leased, 0..3);
    let of_another = must(&frozen, &lease("q", 62, 90));
    let deliver = BatchWrite::Delivered {
        owner: p(),
        index: 0,
        receipt: String::new(),
        delivered: None,
    };
    let accept = BatchWrite::AcceptSink {
        owner: p(),
        index: 0,
        sink: "another".to_owned(),
    };
    let set_aside = |part, set_asides| BatchWrite::SetAside {
        owner: p(),
        part,
        set_aside: (0..3).collect(),
        set_asides,
    };
    let freeze_at = |index| BatchWrite::Freeze {
        owner: p(),
        index,
        part: part(3..5),
    };
    let complete = |parts| BatchWrite::Complete {
        owner: p(),
        accounts: 0,
        witnesses: 0,
        parts,
        at: at(40),
    };
    for (record, write) in [
        (&of_another, deliver.clone()),
        (&ended, deliver.clone()),
        (&leased, deliver),
        (&of_another, accept.clone()),
        (&ended, accept.clone()),
        (&leased, accept),
        (&of_another, set_aside(Some(0), 0)),
        (&ended, set_aside(Some(0), 0)),
        (&leased, set_aside(Some(0), 0)),
        (&frozen, set_aside(Some(0), 1)),
        (&of_another, set_aside(None, 0)),
        (&of_another, freeze_at(1)),
        (&frozen, freeze_at(0)),
        (&frozen, freeze_at(2)),
        (&of_another, complete(1)),
        (&ended, complete(0)),
    ] {
        assert_eq!(apply(record, &write), None, "{write:?} to {record:?}");
    }
    assert!(apply(&frozen, &set_aside(Some(0), 0)).is_some());
    assert!(apply(&ended, &set_aside(None, 0)).is_some());
    assert!(apply(&ended, &complete(1)).is_some());
}

#[test]
fn a_reminder_moves_the_due_time_it_read_and_no_other() {
    let record = opened();
    let remind = |was_due_at| BatchWrite::Reminded {
        was_due_at,
        due_at: at(700),
    };
    assert_eq!(must(&record, &remind(record.due_at)).due_at, at(700));
    assert_eq!(apply(&record, &remind(record.due_at + SECOND)), None);
}

#[test]
fn a_lease_makes_the_batch_due_after_its_end() {
    assert_eq!(opened().due_at, at(30) + CLOCK_SKEW_MAX + DUE_GRACE);
    let leased = must(&opened(), &lease("p", 30, 60));
    assert_eq!(leased.due_at, at(60) + DUE_GRACE);
}

#[test]
fn what_an_operator_says_is_heard_of_a_batch_in_error_alone() {
    let leased = must(&opened(), &lease("p", 30, 60));
    let failed = must(
        &leased,
        &BatchWrite::Fail {
            owner: owner("p"),
            error: "no".to_owned(),
        },
    );
    let word = |operator| BatchWrite::Lease {
        lease: Lease {
            owner: owner("q"),
            until: at(90),
        },
        at: at(70),
        operator,
    };
    let again = must(&failed, &word(Some(OperatorWord::Retry)));
    assert_eq!((again.quarantine, again.error), (None, None));
    let aside = must(&failed, &word(Some(OperatorWord::Quarantine)));
    assert_eq!(aside.quarantine.as_deref(), Some("no"));
    assert_eq!(apply(&failed, &word(None)), None);
    let later = must(&aside, &lease("r", 99, 120));
    assert_eq!(
        later.quarantine, aside.quarantine,
        "whoever goes on with it sets it aside"
    );
    let expired = word(Some(OperatorWord::Quarantine));
    assert_eq!(apply(&leased, &expired), None, "it is not in error");
    assert!(apply(&leased, &word(None)).is_some());
}

#[test]
fn what_was_set_aside_and_what_a_shared_set_has_is_left_over() {
    let mut record = must(&opened(), &lease("p", 30, 60));
    record.delivered = (0..2).collect();
    record.set_aside = (2..4).collect();
    let roles = [0, 1, 2, 3, 4].map(|seq| role(&record, seq));
    use Role::{Leftover, New};
    assert_eq!(roles, [Leftover, Leftover, Leftover, Leftover, New]);
    assert_eq!(record.members(), (0..4).collect());
    record.witnessed = [7].into_iter().collect();
    record.settled = [9].into_iter().collect();
    let unknown = record.unknown_of(&(0..12).collect());
    assert_eq!(unknown, [4, 5, 6, 8, 10, 11].into_iter().collect());
}

#[test]
fn members_of_a_part_are_shared_when_their_set_is_large() {
    // Every other seq: a bitmap of one byte for eight of them.
    let part_of = |seqs: u32| PartRecord::frozen((0..seqs).step_by(2).collect(), [7; 32], None);
    let mut record = opened();
    record.delivered = [9_999].into_iter().collect();
    let mut seqs = 2;
    while part_of(seqs).members.to_bytes().len() < PART_MEMBERS_BYTES_MAX {
        seqs += 2;
    }
    record.parts = vec![part_of(seqs)];
    assert_eq!(
        record.parts[0].members.to_bytes().len(),
        PART_MEMBERS_BYTES_MAX
    );
    assert_eq!(record.delivered_with(0), None);
    record.parts = vec![part_of(seqs + 16)];
    let mut shared = record.parts[0].members.clone();
    shared.insert(9_999);
    assert_eq!(record.delivered_with(0), Some(shared));
    assert_eq!(record.delivered_with(1), None);
}

#[test]
fn a_record_counts_every_byte_that_grows() {
    let mut record = opened();
    let empty_set = SeqSet::new().to_bytes().len();
    let mut expected = RECORD_OVERHEAD_BYTES + "arn:q".len() + 4 * empty_set;
    assert_eq!(record.bytes(), expected);
    record.error = Some("no".to_owned());
    record.quarantine = Some("why".to_owned());
    record.batch_key = Some("five5".parse().unwrap());
    record.lease = Some(Lease {
        owner: owner("seven77"),
        until: at(1),
    });
    expected += 2 + 3 + 5 + 7;
    assert_eq!(record.bytes(), expected);
    let set: SeqSet = (0..100).collect();
    for grows in [
        |record: &mut BatchRecord, set: SeqSet| record.settled = set,
        |record: &mut BatchRecord, set: SeqSet| record.witnessed = set,
        |record: &mut BatchRecord, set: SeqSet| record.delivered = set,
        |record: &mut BatchRecord, set: SeqSet| record.set_aside = set,
    ] {
        grows(&mut record, set.clone());
        expected += set.to_bytes().len() - empty_set;
        assert_eq!(record.bytes(), expected);
    }
    let sink = Some("sink".to_owned());
    record.parts = vec![PartRecord::frozen(set.clone(), [7; 32], sink)];
    let part = PART_OVERHEAD_BYTES + set.to_bytes().len();
    assert_eq!(record.bytes(), expected + part + "sink".len());
    record.parts[0].state = PartState::Delivered {
        receipt: "receipt".to_owned(),
    };
    assert_eq!(
        record.bytes(),
        expected + part + "sink".len() + "receipt".len()
    );
}
