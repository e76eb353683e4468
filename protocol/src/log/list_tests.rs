use std::time::Duration;

use super::*;
use crate::bodies::ObjectPlace;
use crate::quota::Quota;

fn batch(number: u128) -> BatchId {
    BatchId::new(Uuid::from_u128(number))
}

fn run(number: u128, entries: u64) -> RunRef {
    RunRef {
        run: Uuid::from_u128(number),
        hash: [0; 16],
        bodies: Bodies::Log(ObjectPlace::Table),
        entries,
        ends_at: Timestamp::from_ms(100),
        events_end_at: Timestamp::from_ms(90),
        tallies_end_at: Timestamp::EPOCH,
        rows: 1,
        batch: Some(batch(number)),
    }
}

fn list(runs: Vec<RunRef>) -> RunList {
    RunList {
        runs,
        left_out_until: Timestamp::from_ms(5),
        counted_from: Timestamp::EPOCH,
    }
}

fn record() -> BatchRecord {
    let source = "arn:q".parse().unwrap();
    let at = Timestamp::from_ms(1);
    BatchRecord::open(batch(2), source, None, 1, at, at)
        .with_bodies(Bodies::Log(ObjectPlace::Table), Duration::ZERO)
}

#[test]
fn a_header_has_rows_of_owners_and_tallies_and_ends_with_its_last_tally() {
    let empty = RunHeader::default();
    assert_eq!(
        (empty.rows(), empty.tallies_end_at()),
        (0, Timestamp::EPOCH)
    );
    let quota = Quota {
        key: "k".parse().unwrap(),
        begins: Timestamp::EPOCH,
        ends: Timestamp::from_ms(5),
        max: 1,
    };
    let tally = |ends_at| Tally {
        account: quota.account(),
        ends_at: Timestamp::from_ms(ends_at),
        count: 1,
    };
    let until = Timestamp::from_ms(3);
    let header = RunHeader {
        owners: vec![Owner::Primed { until }],
        tallies: vec![tally(7), tally(9), tally(8)],
        ..RunHeader::default()
    };
    let ends_at = Timestamp::from_ms(9);
    assert_eq!((header.rows(), header.tallies_end_at()), (4, ends_at));
}

#[test]
fn a_batch_adopts_what_it_has_committed_and_else_resolves() {
    let mut record = record();
    assert_eq!(begin(&list(vec![run(1, 9)]), &record), Begin::Resolve);
    let committed = list(vec![run(1, 9), run(2, 9)]);
    assert_eq!(begin(&committed, &record), Begin::Adopt(&run(2, 9)));
    let merged = RunRef {
        batch: None,
        ..run(2, 9)
    };
    assert_eq!(begin(&list(vec![merged]), &record), Begin::Resolve);
    record.reservations.as_mut().unwrap().resolution = Some(Default::default());
    assert_eq!(begin(&committed, &record), Begin::Resolved);
    assert_eq!(begin(&list(Vec::new()), &record), Begin::Resolved);
}

#[test]
fn a_commit_adds_its_run_and_leaves_out_what_has_ended() {
    let at = Timestamp::from_ms;
    let long_after = |ms| at(ms) + DECIDED_WITHIN;
    let next = list(vec![run(1, 9)]).with(run(2, 0), long_after(89));
    assert_eq!(next.runs, [run(1, 9), run(2, 0)]);
    assert_eq!(next.left_out_until, at(5));
    let later = RunRef {
        events_end_at: at(200),
        ..run(3, 1)
    };
    let next = next.with(later.clone(), long_after(90));
    assert_eq!(next.runs, [later]);
    assert_eq!(next.left_out_until, at(90));
    // The bound of an earlier merge stays in force.
    let next = list(vec![run(1, 9)]).with_merged(&[], None, at(150));
    let next = next.unwrap().with(run(2, 0), long_after(100));
    assert_eq!(next.left_out_until, at(150));
}

/// Returns a run with tallies that end at a time.
fn with_tallies(run: RunRef, ends_at: Timestamp) -> RunRef {
    RunRef {
        tallies_end_at: ends_at,
        ..run
    }
}

#[test]
fn a_run_stays_while_a_tally_has_not_ended_and_leaves_out_nothing_by_that() {
    let at = Timestamp::from_ms;
    let ends = at(500) + DECIDED_WITHIN;
    let counted = with_tallies(run(1, 9), ends);
    let before = list(vec![counted.clone()]);
    let early = ends.saturating_sub(Duration::from_millis(1));
    assert_eq!(before.with(run(2, 0), early).runs[0], counted);
    assert_eq!(before.with(run(2, 0), early).left_out_until, at(5));
    let next = before.with(run(2, 0), ends);
    assert_eq!((next.runs.len(), next.left_out_until), (1, at(90)));
}

#[test]
fn a_list_is_read_while_a_tally_has_not_ended() {
    let at = Timestamp::from_ms;
    let log = Bodies::Log(ObjectPlace::Table);
    let ends = at(500) + DECIDED_WITHIN;
    let list = list(vec![with_tallies(run(1, 0), ends), run(2, 1)]);
    let manifest = Manifest::default().with_list(Uuid::nil(), &log, &list);
    assert_eq!((manifest.ends_at, manifest.tallies_end_at), (at(100), ends));
    let early = ends.saturating_sub(Duration::from_millis(1));
    assert_eq!(manifest.list_for(early, early), Some(Uuid::nil()));
    assert_eq!(manifest.list_for(ends, ends), None);
    // Lines of other events do not need the tallies.
    let needed = |tally, now| list.runs_for(at(99), tally, now).count();
    assert_eq!(needed(Some(ends), early), 2);
    assert_eq!(needed(Some(early), early), 2);
    assert_eq!(needed(Some(ends), ends), 1);
    assert_eq!(needed(None, early), 1);
    let later = ends + Duration::from_millis(1);
    assert_eq!(needed(Some(later), early), 1, "of a later period");
}

#[test]
fn a_list_of_an_index_that_was_lost_is_read_until_every_account_is_counted_again() {
    let at = Timestamp::from_ms;
    let log = Bodies::Log(ObjectPlace::Table);
    let list = RunList {
        counted_from: at(900) + DECIDED_WITHIN,
        ..RunList::ended(at(5))
    };
    let manifest = Manifest::default().with_list(Uuid::nil(), &log, &list);
    let early = at(899) + DECIDED_WITHIN;
    assert_eq!(manifest.list_for(early, early), Some(Uuid::nil()));
    assert_eq!(list.with(run(1, 1), early).counted_from, list.counted_from);
}

#[test]
fn a_run_with_many_owners_or_tallies_is_not_merged_once_more() {
    let of_rows = |rows| {
        let runs = (1..10).map(|number| RunRef {
            rows,
            ..run(number, 9)
        });
        list(runs.collect())
    };
    assert!(crowded(&of_rows(RUN_ROWS_MAX)).is_empty());
    let list = of_rows(RUN_ROWS_MAX - 1);
    let runs = crowded(&list).remove(0);
    let mut complete = record();
    complete.completed_at = Some(Timestamp::from_ms(9));
    let merged = mergeable(&runs, |_| Some(&complete)).unwrap();
    assert_eq!(merged.len(), 8, "as many as fit into a header");
}

#[test]
fn a_manifest_says_when_the_last_entry_of_its_list_ends() {
    let at = Timestamp::from_ms;
    let name = Uuid::from_u128(7);
    let log = Bodies::Log(ObjectPlace::Table);
    let before = Manifest {
        secret: vec![1; 32],
        ..Manifest::default()
    };
    let of = |list: &RunList| before.with_list(name, &log, list);
    let manifest = of(&list(vec![run(1, 9), run(2, 0)]));
    assert_eq!((manifest.ends_at, &manifest.bodies), (at(100), &log));
    assert_eq!(manifest.secret(), Some(IndexSecret::new([1; 32])));
    let long_after = at(100) + DECIDED_WITHIN;
    let before = long_after.saturating_sub(Duration::from_millis(1));
    assert_eq!(manifest.list_for(before, before), Some(name));
    assert_eq!(manifest.list_for(long_after, long_after), None);
    assert_eq!(of(&RunList::ended(at(300))).ends_at, at(300));
    assert_eq!(Manifest::default().list_for(at(0), at(0)), None);
    assert_eq!(Manifest::default().secret(), None);
    assert_eq!(RunList::ended(at(300)).left_out_until, at(300));
}

#[test]
fn others_wait_for_the_turn_of_a_batch_until_it_ends_or_commits() {
    let now = Timestamp::from_ms(1_000);
    let manifest = Manifest::default().with_turn(batch(1), now);
    let until = now + COMMIT_TURN;
    assert!(manifest.is_turn_of_another(batch(2), now));
    assert!(!manifest.is_turn_of_another(batch(2), until));
    let behind = now.saturating_sub(Duration::from_millis(1));
    assert!(!manifest.is_turn_of_another(batch(2), behind));
    assert!(!manifest.is_turn_of_another(batch(1), now));
    assert!(!Manifest::default().is_turn_of_another(batch(2), now));
    let log = Bodies::Log(ObjectPlace::Table);
    let committed = manifest.with_list(Uuid::nil(), &log, &RunList::default());
    assert_eq!(committed.turn, None);
}

#[test]
fn a_merge_replaces_its_inputs_and_only_while_all_are_listed() {
    let before = list(vec![run(1, 9), run(2, 9), run(3, 9)]);
    let merged = || {
        Some(RunRef {
            batch: None,
            ..run(9, 18)
        })
    };
    let inputs = [Uuid::from_u128(1), Uuid::from_u128(3)];
    let at = Timestamp::from_ms;
    let next = before.with_merged(&inputs, merged(), at(8)).unwrap();
    assert_eq!(next.runs, [run(2, 9), merged().unwrap()]);
    assert_eq!(next.left_out_until, at(8));
    let earlier = before.with_merged(&inputs, merged(), at(3)).unwrap();
    assert_eq!(earlier.left_out_until, at(5));
    assert_eq!(next.with_merged(&inputs, merged(), at(8)), None);
}

#[test]
fn an_operator_adds_runs_and_takes_one_out_that_is_listed() {
    let before = list(vec![run(1, 9)]);
    let next = before.with_all(vec![run(2, 9), run(3, 9)]);
    assert_eq!(next.runs, [run(1, 9), run(2, 9), run(3, 9)]);
    assert_eq!(next.left_out_until, before.left_out_until);
    let left = next.without(Uuid::from_u128(2)).unwrap();
    assert_eq!(left.runs, [run(1, 9), run(3, 9)]);
    assert_eq!(left.without(Uuid::from_u128(2)), None);
}

#[test]
fn a_run_that_has_ended_or_is_empty_is_not_read() {
    let empty = run(1, 0);
    let list = list(vec![empty, run(2, 1)]);
    let needed = |ms| {
        Vec::from_iter(
            list.runs_for(Timestamp::from_ms(ms), None, Timestamp::EPOCH)
                .map(|run| run.run),
        )
    };
    assert_eq!(needed(99), [Uuid::from_u128(2)]);
    assert!(needed(100).is_empty());
}

#[test]
fn more_than_eight_runs_of_one_size_are_crowded() {
    let runs = |numbers: std::ops::Range<u128>, entries| numbers.map(move |n| run(n, entries));
    let sizes = |list: &RunList| Vec::from_iter(crowded(list).iter().map(Vec::len));
    let eight = list(runs(1..9, 9).collect());
    assert!(crowded(&eight).is_empty());
    // 9 and 63 entries are of one size, 64 are of another; 0 have their own.
    let mixed = runs(1..9, 9).chain(runs(9..10, 64));
    let small = runs(10..18, 0).chain(runs(18..19, 1));
    assert!(crowded(&list(mixed.chain(small).collect())).is_empty());
    let two = runs(1..9, 9).chain(runs(9..10, 63)).chain(runs(20..30, 1));
    assert_eq!(sizes(&list(two.collect())), [10, 9]);
    assert_eq!(
        sizes(&list(runs(1..100, 9).collect())),
        [RUNS_INCOMPLETE_MAX]
    );
    let full = list(runs(1..20, RUN_ENTRIES_MAX).collect());
    assert!(crowded(&full).is_empty());
}

#[test]
fn runs_of_complete_batches_are_merged_and_of_many_those_of_decided_ones_too() {
    let record = |number: u128, is_resolved: bool, is_complete: bool| {
        let mut record = record();
        record.batch_id = batch(number);
        record.reservations.as_mut().unwrap().resolution =
            bool::then(is_resolved, Default::default);
        record.completed_at = is_complete.then(|| Timestamp::from_ms(9));
        record
    };
    let merged = |count: u128, records: &[BatchRecord], entries| {
        let list = list((1..=count).map(|n| run(n, entries)).collect());
        let record_of = |id| records.iter().find(|record| record.batch_id == id);
        let runs: Vec<&RunRef> = list.runs.iter().collect();
        mergeable(&runs, record_of).map(|runs| runs.len())
    };
    let complete = |count: u128| Vec::from_iter((1..=count).map(|n| record(n, true, true)));
    let resolved = |count: u128| Vec::from_iter((1..=count).map(|n| record(n, true, false)));
    let undecided = |count: u128| Vec::from_iter((1..=count).map(|n| record(n, false, false)));
    assert_eq!(merged(9, &complete(9), 9), Some(9));
    assert_eq!(merged(9, &complete(8), 9), Some(8));
    assert_eq!(merged(9, &complete(7), 9), None);
    assert_eq!(merged(9, &resolved(9), 9), None);
    assert_eq!(merged(64, &resolved(63), 9), Some(63));
    assert_eq!(merged(64, &resolved(1), 9), None);
    assert_eq!(merged(64, &undecided(64), 9), None);
    assert_eq!(merged(64, &[], 9), None);
    // As many as fit into memory.
    assert_eq!(merged(20, &complete(20), RUN_ENTRIES_MAX / 2), Some(16));
    let of_merged = RunRef {
        batch: None,
        ..run(1, 9)
    };
    let runs = vec![&of_merged; 9];
    assert_eq!(mergeable(&runs, |_| None).map(|runs| runs.len()), Some(9));
}
