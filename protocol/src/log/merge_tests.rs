use std::time::Duration;

use proptest::prelude::*;

use super::super::matching::tests::{ENDS_AT, batch, block, entry, forget, of_batch};
use super::*;
use crate::bodies::{Bodies, ObjectPlace};
use crate::quota::Place;
use crate::quota::tests::quota;

const WINDOW: Duration = Duration::from_millis(50);
const OPENED: Timestamp = Timestamp::from_ms(100);
const COMPLETED: Timestamp = Timestamp::from_ms(200);
/// When the events of a complete batch end: its dedup window after the completion.
const ENDED: Timestamp = Timestamp::from_ms(250);

fn owner(number: u128, events_end_at: Option<Timestamp>) -> Owner {
    Owner::Batch {
        batch: batch(number),
        ends_at: ENDS_AT,
        events_end_at,
        place: None,
    }
}

fn complete(number: u128) -> BatchRecord {
    let source = "arn:q".parse().unwrap();
    let record = BatchRecord::open(batch(number), source, None, 1, OPENED, OPENED);
    let mut record = record.with_bodies(Bodies::Log(ObjectPlace::Table), WINDOW);
    record.status = None;
    record.completed_at = Some(COMPLETED);
    record
}

type Run = (RunHeader, Vec<[u8; ENTRY_BYTES]>);

fn run(owners: &[Owner], entries: &[Entry]) -> Run {
    let header = RunHeader {
        owners: owners.to_vec(),
        ..RunHeader::default()
    };
    (header, block(entries.to_vec()))
}

type Kept = (IdHash, Owner, Seq);

fn kept(owners: &[Owner], entries: impl IntoIterator<Item = Entry>) -> Vec<Kept> {
    let owned = |entry: Entry| (entry.id, owners[entry.owner as usize], entry.seq);
    let mut kept: Vec<_> = entries.into_iter().map(owned).collect();
    kept.sort_unstable();
    kept
}

/// Returns what a merge keeps, and the latest end of what it left out.
fn merged(runs: &[Run], records: &[BatchRecord], past: Timestamp) -> (Vec<Kept>, Timestamp) {
    let inputs: Vec<Input<'_>> = runs.iter().map(|run| (&run.0, &*run.1)).collect();
    let record_of = |id| records.iter().find(|record| record.batch_id == id);
    let merged = merge(&inputs, record_of, past + DECIDED_WITHIN).unwrap();
    assert!(merged.entries.is_sorted(), "{merged:?}");
    (kept(&merged.owners, merged.entries), merged.left_out_until)
}

fn id(number: u128) -> IdHash {
    IdHash::new(number)
}

fn before(at: Timestamp) -> Timestamp {
    at.saturating_sub(Duration::from_millis(1))
}

proptest! {
    #[test]
    fn a_merge_keeps_every_entry_of_owners_whose_events_have_not_ended(
        runs in prop::collection::vec(
            prop::collection::vec((0..20_u128, 0..2_u32, 5..9_u32), 0..30), 0..4,
        ),
    ) {
        let owners = [of_batch(7), of_batch(8)];
        let of_run = |entries: Vec<(u128, u32, Seq)>| {
            let entries = entries.into_iter().map(|(id, owner, seq)| entry(id, owner, seq));
            run(&owners, &entries.collect::<Vec<_>>())
        };
        let runs: Vec<Run> = runs.into_iter().map(of_run).collect();
        let entries = runs.iter().flat_map(|(_, entries)| entries.iter().map(Entry::from_bytes));
        let expected = kept(&owners, entries);
        prop_assert_eq!(merged(&runs, &[], Timestamp::EPOCH), (expected, Timestamp::EPOCH));
    }
}

#[test]
fn the_entries_of_a_batch_are_left_out_once_its_window_is_over_since_it_was_complete() {
    let runs = [run(&[of_batch(1)], &[entry(5, 0, 0)])];
    let records = [complete(1)];
    let known = vec![(id(5), owner(1, Some(ENDED)), 0)];
    let (still, left_out_until) = merged(&runs, &records, before(ENDED));
    assert_eq!((still, left_out_until), (known, Timestamp::EPOCH));
    assert_eq!(merged(&runs, &records, ENDED), (Vec::new(), ENDED));
    // The record is gone later, and the end is still known.
    let again = [run(&[owner(1, Some(ENDED))], &[entry(5, 0, 0)])];
    assert_eq!(merged(&again, &[], ENDED), (Vec::new(), ENDED));
    assert_eq!(merged(&again, &[], before(ENDED)).0.len(), 1);
}

#[test]
fn the_entries_of_a_batch_that_is_not_complete_or_has_no_record_are_kept_until_they_end() {
    let runs = [run(&[of_batch(1)], &[entry(5, 0, 7)])];
    let mut unfinished = complete(1);
    unfinished.completed_at = None;
    for records in [vec![], vec![unfinished]] {
        let still = vec![(id(5), of_batch(1), 7)];
        let (all, left_out_until) = merged(&runs, &records, before(ENDS_AT));
        assert_eq!((all, left_out_until), (still, Timestamp::EPOCH));
        assert_eq!(merged(&runs, &records, ENDS_AT), (vec![], ENDS_AT));
    }
}

#[test]
fn no_end_is_later_than_that_of_the_entries() {
    let mut late = complete(1);
    late.completed_at = Some(ENDS_AT);
    let late = [late];
    let with_end = of_batch(1).with_events_end(|id| late.iter().find(|one| one.batch_id == id));
    assert_eq!(with_end, owner(1, Some(ENDS_AT)));
    assert_eq!(with_end.events_end_at(), ENDS_AT);
    assert_eq!(owner(1, Some(ENDED)).events_end_at(), ENDED);
    assert_eq!(owner(1, Some(ENDED)).ends_at(), ENDS_AT);
}

#[test]
fn what_is_primed_is_left_out_when_it_is_over() {
    let until = Timestamp::from_ms(40);
    let owners = [Owner::Primed { until }, Owner::PrimedMessage { until }];
    let runs = [run(&owners, &[entry(5, 0, 0), entry(5, 1, 0)])];
    assert_eq!(merged(&runs, &[], before(until)).0.len(), 2);
    assert_eq!(merged(&runs, &[], until), (Vec::new(), until));
}

#[test]
fn a_forget_entry_goes_with_its_target_or_when_it_ends() {
    let target = run(&[of_batch(1)], &[entry(5, 0, 3), entry(5, 0, 4)]);
    let forgets = run(&[forget(1)], &[entry(5, 0, 3)]);
    let others = run(&[of_batch(2), forget(2)], &[entry(5, 0, 3), entry(6, 1, 3)]);
    let past = Timestamp::from_ms(1);
    let still = vec![
        (id(5), of_batch(1), 4),
        (id(5), of_batch(2), 3),
        (id(6), forget(2), 3),
    ];
    let all = [target, forgets.clone(), others];
    assert_eq!(merged(&all, &[], past), (still, Timestamp::EPOCH));
    let alone = [forgets];
    let still = vec![(id(5), forget(1), 3)];
    assert_eq!(merged(&alone, &[], past), (still, Timestamp::EPOCH));
    assert_eq!(merged(&alone, &[], ENDS_AT), (Vec::new(), ENDS_AT));
}

#[test]
fn the_ends_of_what_was_left_out_and_of_what_is_kept_are_noted() {
    let primed = |ms| Owner::Primed {
        until: Timestamp::from_ms(ms),
    };
    let owners = [primed(30), primed(40), primed(60), owner(1, Some(ENDED))];
    let entries = [0, 1, 2, 3].map(|number| entry(number.into(), number, 0));
    let (header, bytes) = run(&owners, &entries);
    let now = Timestamp::from_ms(50) + DECIDED_WITHIN;
    let result = merge(&[(&header, &bytes)], |_| None, now).unwrap();
    assert_eq!(result.owners, owners[2..]);
    assert_eq!(result.left_out_until, Timestamp::from_ms(40));
    assert_eq!(result.events_end_at(), Some(ENDED));
    assert_eq!(result.ends_at(), Some(ENDS_AT));
    assert_eq!(Merged::default().ends_at(), None);
}

#[test]
fn an_entry_without_its_owner_stops_the_merge() {
    let (header, entries) = run(&[of_batch(1)], &[entry(5, 1, 0)]);
    let result = merge(&[(&header, &entries)], |_| None, Timestamp::EPOCH);
    let (run, error) = result.unwrap_err();
    let words = "run: entry 0 names owner 1: expected fewer than 1";
    assert_eq!((run, &*error.to_string()), (0, words));
}

#[test]
fn runs_are_made_of_entries_with_their_owners_and_each_is_small_enough_to_stay() {
    let count = RUN_ENTRIES_MAX as u128 + 1;
    let owner_of = |id: u128| of_batch(id % 2);
    let entries = (0..count).rev().map(|id| (owner_of(id), entry(id, 7, 3)));
    let runs = runs_of(entries.collect(), &[]);
    let sizes = Vec::from_iter(runs.iter().map(|run| run.entries.len() as u64));
    assert_eq!(sizes, [RUN_ENTRIES_MAX, 1]);
    assert_eq!(runs[0].owners, [of_batch(0), of_batch(1)]);
    assert_eq!(runs[0].ends_at(), Some(ENDS_AT));
    let ids = (0..).map(IdHash::new);
    for (entry, id) in runs.iter().flat_map(|run| &run.entries).zip(ids) {
        assert_eq!(entry.id, id);
    }
    assert!(runs.iter().all(|run| run.entries.is_sorted()));
    let second = runs[0].entries[1];
    assert_eq!(runs[0].owners[second.owner as usize], of_batch(1));
    assert!(runs_of(Vec::new(), &[]).is_empty());
}

fn tally(key: &str, ends_at: u64, count: u64) -> Tally {
    Tally {
        account: quota(key, 0, 1).account(),
        ends_at: Timestamp::from_ms(ends_at),
        count,
    }
}

#[test]
fn tallies_are_summed_until_they_end_whatever_became_of_the_entries() {
    let counted = |tallies: &[Tally]| {
        let (mut header, entries) = run(&[owner(1, Some(ENDED))], &[entry(5, 0, 0)]);
        header.tallies = tallies.to_vec();
        (header, entries)
    };
    let now = ENDED + DECIDED_WITHIN;
    let ends_at = now.as_ms() + 1;
    let runs = [
        counted(&[tally("a", ends_at, 2), tally("b", ends_at, 1)]),
        counted(&[tally("a", ends_at, 3), tally("c", now.as_ms(), 9)]),
    ];
    let inputs: Vec<Input<'_>> = runs.iter().map(|run| (&run.0, &*run.1)).collect();
    let merged = merge(&inputs, |_| None, now).unwrap();
    assert_eq!((merged.entries, merged.owners), (vec![], vec![]));
    let mut expected = [tally("a", ends_at, 5), tally("b", ends_at, 1)];
    expected.sort_unstable_by_key(|tally| tally.account);
    assert_eq!(merged.tallies, expected);
}

#[test]
fn entries_of_one_batch_keep_their_places_in_a_merge() {
    let place = |taken_in| Place {
        account: quota("a", 0, 1).account(),
        taken_in,
    };
    let places = [None, Some(place(None)), Some(place(Some(batch(9))))];
    let owners = places.map(|place| of_batch(1).with_place(place));
    let entries = [entry(5, 0, 0), entry(6, 1, 1), entry(7, 2, 2)];
    let (header, entries) = run(&owners, &entries);
    let merged = merge(&[(&header, &entries)], |_| None, Timestamp::EPOCH).unwrap();
    let of = |entry: &Entry| {
        let place = merged.owners[entry.owner as usize].place();
        place.map(|(_, place)| place)
    };
    assert_eq!(Vec::from_iter(merged.entries.iter().map(of)), places);
}

#[test]
fn tallies_of_an_operator_have_runs_of_their_own() {
    let tallies = [tally("a", 9, 1), tally("b", 9, 1)];
    let runs = runs_of(vec![(of_batch(1), entry(5, 0, 0))], &tallies);
    assert_eq!(runs.len(), 2);
    assert!(runs[0].tallies.is_empty() && runs[1].entries.is_empty());
    assert_eq!(runs[1].tallies, tallies);
}

#[test]
fn an_owner_without_entries_is_left_out() {
    let runs = [
        run(&[of_batch(1), of_batch(2)], &[entry(5, 1, 0)]),
        run(&[of_batch(3)], &[]),
    ];
    let inputs: Vec<Input<'_>> = runs.iter().map(|run| (&run.0, &*run.1)).collect();
    let merged = merge(&inputs, |_| None, Timestamp::EPOCH).unwrap();
    assert_eq!(merged.owners, [of_batch(2)]);
    assert_eq!(merged.entries, [entry(5, 0, 0)]);
}
