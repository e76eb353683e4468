use std::time::Duration;

use super::super::entry::Entry;
use super::super::matching::tests::batch;
use super::*;
use crate::batch::{PartRecord, PartState};
use crate::bodies::{Bodies, ObjectPlace};
use crate::limits::ENTRY_EXTENSION_MAX;
use crate::quota::tests::quota;

const OWNER: u128 = 1;
const STORED: Timestamp = Timestamp::from_ms(1_000);
const ENDS_AT: Timestamp = Timestamp::from_ms(9_000);
const WINDOW: Duration = Duration::from_millis(100);

fn owner() -> Owner {
    Owner::Batch {
        batch: batch(OWNER),
        ends_at: ENDS_AT,
        events_end_at: None,
        place: None,
    }
}

/// A line of the event 5.
fn line(seq: Seq, message: u64, body: u64) -> Line {
    Line {
        id: IdHash::new(5),
        message,
        body,
        seq,
        stored_at: STORED,
        quota: None,
    }
}

/// Entries of the event 5: whose they are, the seq, the message and the body.
fn entries(entries: &[(Owner, Seq, u64, u64)]) -> Matches {
    let mut matches = Matches::of_ids([IdHash::new(5)]);
    for (owner, seq, message, body) in entries {
        let entry = Entry {
            id: IdHash::new(5),
            owner: 0,
            seq: *seq,
            message: *message,
            body: *body,
        };
        matches.add(&[*owner], &[entry.to_bytes()]).unwrap();
    }
    matches
}

/// The record of a resolved batch with the winners 0 to 3, none of them delivered.
fn record() -> BatchRecord {
    let source = "arn:q".parse().unwrap();
    let at = Timestamp::from_ms(1);
    let record = BatchRecord::open(batch(OWNER), source, None, 1, at, at);
    let mut record = record.with_bodies(Bodies::Log(ObjectPlace::Table), WINDOW);
    record.claimed = (0..4).collect();
    record
}

/// The record after its seat 0 was delivered at a time.
fn delivered(at: Timestamp) -> BatchRecord {
    let mut record = record();
    let mut part = PartRecord::frozen([0].into_iter().collect(), [0; 32], None);
    part.state = PartState::Delivered {
        receipt: String::new(),
        at: Some(at),
    };
    record.parts.push(part);
    record
}

fn set_aside() -> BatchRecord {
    let mut record = record();
    record.set_aside.insert(0);
    record
}

fn resolved(
    lines: &[Line],
    matches: &Matches,
    records: &[BatchRecord],
) -> Result<Decided, Unresolved> {
    let record_of = |id| records.iter().find(|record| record.batch_id == id);
    resolve(lines, matches, &RunList::default(), record_of, STORED)
}

/// Decides about one line with the message 1 and the body 1.
fn one(matches: &Matches, record: BatchRecord) -> LineDecision {
    decisions(&resolved(&[line(0, 1, 1)], matches, &[record]).unwrap(), 1)[0]
}

fn decisions(decided: &Decided, count: u32) -> Vec<LineDecision> {
    let of = |seq| {
        let sets = [
            (&decided.winners, LineDecision::Wins),
            (&decided.redelivered, LineDecision::Redelivered),
            (&decided.duplicates, LineDecision::Duplicate),
            (&decided.conflicts, LineDecision::Conflict),
            (&decided.beyond_quota, LineDecision::BeyondQuota),
        ];
        let mut of_seq = sets.into_iter().filter(|(seqs, _)| seqs.contains(seq));
        let (_, decision) = of_seq.next().unwrap();
        assert_eq!(of_seq.next(), None, "one decision a line");
        decision
    };
    (0..count).map(of).collect()
}

use LineDecision::{BeyondQuota, Conflict, Duplicate, Redelivered, Wins};

#[test]
fn without_an_entry_the_first_line_wins_and_the_others_follow_from_it() {
    let lines = [
        line(0, 1, 1),
        line(1, 1, 1),
        line(2, 2, 1),
        line(3, 3, 9),
        line(4, 3, 9),
    ];
    let decided = resolved(&lines, &Matches::of_ids([]), &[]).unwrap();
    // A conflict leaves no entry: the message of seq 3 is not remembered.
    let expected = [Wins, Redelivered, Duplicate, Conflict, Conflict];
    assert_eq!(decisions(&decided, 5), expected);
}

#[test]
fn events_of_other_ids_do_not_matter() {
    let other = Line {
        id: IdHash::new(6),
        ..line(1, 1, 1)
    };
    let matches = entries(&[(owner(), 0, 9, 1)]);
    let decided = resolved(&[line(0, 1, 1), other], &matches, &[record()]).unwrap();
    assert_eq!(decisions(&decided, 2), [Duplicate, Wins]);
}

#[test]
fn an_event_that_is_alive_is_in_the_way_of_other_messages() {
    assert_eq!(one(&entries(&[(owner(), 0, 9, 1)]), record()), Duplicate);
    assert_eq!(one(&entries(&[(owner(), 0, 9, 2)]), record()), Conflict);
    let both = entries(&[(owner(), 0, 9, 2), (owner(), 1, 8, 1)]);
    assert_eq!(one(&both, record()), Duplicate, "the body of one of them");
    let both = entries(&[(owner(), 1, 8, 1), (owner(), 0, 9, 2)]);
    assert_eq!(one(&both, record()), Duplicate, "in any order");
}

#[test]
fn a_delivered_event_is_in_the_way_within_its_window_by_the_time_its_load_was_stored() {
    let entry = entries(&[(owner(), 0, 9, 1)]);
    let ended = STORED.saturating_sub(WINDOW);
    let within = ended + Duration::from_millis(1);
    assert_eq!(one(&entry, delivered(within)), Duplicate);
    assert_eq!(one(&entry, delivered(ended)), Wins);
    // It was delivered after the line came.
    let later = STORED + Duration::from_secs(60);
    assert_eq!(one(&entry, delivered(later)), Duplicate);
}

#[test]
fn an_event_that_was_set_aside_is_not_in_the_way() {
    assert_eq!(one(&entries(&[(owner(), 0, 9, 1)]), set_aside()), Wins);
    let other = entries(&[(owner(), 0, 9, 1), (owner(), 1, 8, 2)]);
    assert_eq!(one(&other, set_aside()), Conflict, "another one is");
}

#[test]
fn a_message_that_won_before_is_redelivered_also_past_the_window_or_set_aside() {
    let own = entries(&[(owner(), 0, 1, 1)]);
    let long_ago = Timestamp::from_ms(2);
    for record in [record(), delivered(long_ago), set_aside()] {
        assert_eq!(one(&own, record), Redelivered);
    }
    // The record is not needed for that.
    let decided = resolved(&[line(0, 1, 1)], &own, &[]).unwrap();
    assert_eq!(decisions(&decided, 1), [Redelivered]);
}

#[test]
fn what_is_primed_is_remembered_until_its_end_and_a_conflict_only_if_its_body_is_known() {
    let after = STORED + Duration::from_millis(1);
    let of_body = |until, body| entries(&[(Owner::Primed { until }, 0, 9, body)]);
    assert_eq!(one(&of_body(after, 1), record()), Duplicate);
    assert_eq!(one(&of_body(after, 7), record()), Conflict);
    assert_eq!(one(&of_body(STORED, 7), record()), Wins);
    let primed = |until| of_body(until, NO_BODY);
    assert_eq!(one(&primed(after), record()), Duplicate);
    assert_eq!(one(&primed(STORED), record()), Wins);
    let message = |until, message| entries(&[(Owner::PrimedMessage { until }, 0, message, 7)]);
    assert_eq!(one(&message(after, 1), record()), Redelivered);
    assert_eq!(one(&message(after, 9), record()), Wins);
    assert_eq!(one(&message(STORED, 1), record()), Wins);
}

#[test]
fn an_entry_that_has_ended_or_is_forgotten_is_not_looked_at() {
    let ended = Owner::Batch {
        batch: batch(OWNER),
        ends_at: STORED,
        events_end_at: None,
        place: None,
    };
    let no_record = |entry| resolved(&[line(0, 1, 1)], &entries(&[entry]), &[]);
    let decided = no_record((ended, 0, 1, 1)).unwrap();
    assert_eq!(decisions(&decided, 1), [Wins]);
    let forget = Owner::Forget {
        batch: batch(OWNER),
        ends_at: ENDS_AT,
    };
    let forgotten = entries(&[(owner(), 0, 9, 1), (forget, 0, 0, 0)]);
    assert_eq!(one(&forgotten, record()), Wins);
    let other_seat = entries(&[(owner(), 0, 9, 1), (forget, 1, 0, 0)]);
    assert_eq!(one(&other_seat, record()), Duplicate);
}

#[test]
fn an_entry_whose_batch_has_no_record_stops_the_batch() {
    let matches = entries(&[(owner(), 3, 9, 1)]);
    let error = resolved(&[line(7, 1, 1)], &matches, &[]).unwrap_err();
    let owner = batch(OWNER);
    assert_eq!(error, Unresolved::NoRecord { seq: 7, owner });
    assert!(error.to_string().contains(&owner.to_string()), "{error}");
}

#[test]
fn an_entry_that_its_record_contradicts_stops_the_batch() {
    let mut record = record();
    record.status = None;
    record.completed_at = Some(STORED);
    let matches = entries(&[(owner(), 3, 9, 1)]);
    let error = resolved(&[line(7, 1, 1)], &matches, &[record]).unwrap_err();
    let (owner, owner_seq) = (batch(OWNER), 3);
    assert_eq!(error, Unresolved::OtherRecord { owner, owner_seq });
}

#[test]
fn a_batch_with_a_line_from_before_what_was_left_out_stops() {
    let lines = [
        line(0, 1, 1),
        Line {
            stored_at: Timestamp::from_ms(900),
            ..line(1, 2, 2)
        },
    ];
    let at = |ms| {
        let list = RunList::ended(Timestamp::from_ms(ms));
        resolve(&lines, &Matches::of_ids([]), &list, |_| None, STORED)
    };
    assert!(at(900).is_ok());
    let left_out = Unresolved::LeftOut {
        stored_at: Timestamp::from_ms(900),
        left_out_until: Timestamp::from_ms(901),
    };
    assert_eq!(at(901), Err(left_out));
}

/// A line of an event with a quota for the key `a`.
fn counted(seq: Seq, id: u128, max: u64) -> Line {
    Line {
        id: IdHash::new(id),
        quota: Some(LineQuota::from(&quota("a", 0, max))),
        ..line(seq, u64::from(seq) + 1, 1)
    }
}

fn tally(key: &str, count: u64) -> Tally {
    let quota = quota(key, 0, 1);
    Tally {
        account: quota.account(),
        ends_at: quota.tally_ends_at(),
        count,
    }
}

/// Adds the tallies of a run to the entries of the event 5.
fn with_tallies(matches: Matches, tallies: &[Tally]) -> Matches {
    let mut matches = matches.with_accounts([quota("a", 0, 1).account()]);
    matches.add_tallies(tallies);
    matches
}

#[test]
fn a_line_wins_while_its_account_has_a_place_for_it_and_takes_it() {
    let lines = [
        counted(0, 10, 3),
        line(1, 9, 9),
        counted(2, 11, 3),
        counted(3, 12, 3),
        counted(4, 13, 4),
        // Another message of the first event, and of one that is beyond the quota.
        counted(5, 10, 3),
        counted(6, 12, 3),
    ];
    let matches = with_tallies(Matches::of_ids([]), &[tally("a", 1), tally("b", 9)]);
    let decided = resolved(&lines, &matches, &[]).unwrap();
    // The line of an aggregator with a larger quota has a place.
    let expected = [Wins, Wins, Wins, BeyondQuota, Wins, Duplicate, BeyondQuota];
    assert_eq!(decisions(&decided, 7), expected);
    assert_eq!(decided.tallies, [tally("a", 3)]);
}

#[test]
fn an_account_that_may_be_counted_in_part_has_no_place_left() {
    let line = counted(0, 10, 3);
    let ends_at = line.quota.unwrap().ends_at;
    let decide = |counted_from| {
        let list = RunList {
            counted_from,
            ..RunList::default()
        };
        let matches = with_tallies(Matches::of_ids([]), &[]);
        let decided = resolve(&[line], &matches, &list, |_| None, STORED).unwrap();
        decisions(&decided, 1)[0]
    };
    assert_eq!(decide(ends_at), Wins);
    assert_eq!(decide(ends_at + Duration::from_millis(1)), BeyondQuota);
}

#[test]
fn the_tallies_of_all_runs_count() {
    let of = |runs: &[&[Tally]]| {
        let mut matches = with_tallies(Matches::of_ids([]), &[]);
        runs.iter().for_each(|run| matches.add_tallies(run));
        let decided = resolved(&[counted(0, 10, 3)], &matches, &[]).unwrap();
        decisions(&decided, 1)[0]
    };
    assert_eq!(of(&[&[tally("a", 1)], &[tally("a", 1)]]), Wins);
    assert_eq!(of(&[&[tally("a", 1)], &[tally("a", 2)]]), BeyondQuota);
}

#[test]
fn a_redelivery_a_duplicate_and_a_conflict_are_not_beyond_a_full_quota() {
    let full = |entry| with_tallies(entries(&[entry]), &[tally("a", 9)]);
    let line = counted(0, 5, 1);
    let decide = |entry| {
        let decided = resolved(&[line], &full(entry), &[record()]).unwrap();
        assert_eq!(decided.tallies, []);
        decisions(&decided, 1)[0]
    };
    assert_eq!(decide((owner(), 0, 1, 1)), Redelivered);
    assert_eq!(decide((owner(), 0, 9, 1)), Duplicate);
    assert_eq!(decide((owner(), 0, 9, 7)), Conflict);
}

/// Decides about a line of the event 5 in a full quota, after entries of the event.
fn after(found: &[(Owner, Seq, u64, u64)], records: &[BatchRecord]) -> LineDecision {
    let matches = with_tallies(entries(found), &[tally("a", 9)]);
    let line = counted(0, 5, 1);
    let decided = resolved(&[line], &matches, records).unwrap();
    assert_eq!(
        decided.tallies,
        [],
        "a place that is taken over counts once"
    );
    let decision = decisions(&decided, 1)[0];
    let (_, place) = decided.owner_of(&line, owner()).place().unwrap();
    assert_eq!(place.taken_in.is_some(), decision == Wins);
    decision
}

/// Returns the place of an event of this key, which took it over from the first winner in this batch.
fn place(key: &str, taken_in: Option<BatchId>) -> Option<Place> {
    Some(Place {
        account: quota(key, 0, 1).account(),
        taken_in,
    })
}

#[test]
fn a_line_takes_over_the_place_of_its_event_that_was_set_aside_in_the_same_account() {
    let one = |place| after(&[(owner().with_place(place), 0, 9, 1)], &[set_aside()]);
    assert_eq!(one(place("a", None)), Wins);
    assert_eq!(one(place("b", None)), BeyondQuota);
    assert_eq!(one(None), BeyondQuota);
    let long_ago = delivered(Timestamp::from_ms(2));
    let used = owner().with_place(place("a", None));
    assert_eq!(after(&[(used, 0, 9, 1)], &[long_ago]), BeyondQuota);
}

#[test]
fn a_place_is_passed_on_until_one_is_delivered_with_it() {
    let second = |place| Owner::Batch {
        batch: batch(2),
        ends_at: ENDS_AT,
        events_end_at: None,
        place,
    };
    let as_second = |record| BatchRecord {
        batch_id: batch(2),
        ..record
    };
    let (aside, long_ago) = (set_aside(), delivered(Timestamp::from_ms(2)));
    let both = |of_second, records: [&BatchRecord; 2]| {
        let first = owner().with_place(place("a", None));
        let found = [(first, 0, 9, 1), (second(of_second), 0, 8, 1)];
        let records = [records[0].clone(), as_second(records[1].clone())];
        after(&found, &records)
    };
    let (taken, over) = (place("a", None), place("a", Some(batch(1))));
    assert_eq!(both(over, [&aside, &aside]), Wins);
    assert_eq!(both(over, [&aside, &long_ago]), BeyondQuota);
    // An event that is delivered again takes another place.
    assert_eq!(both(taken, [&long_ago, &aside]), Wins);
    assert_eq!(both(taken, [&long_ago, &long_ago]), BeyondQuota);
    // A delivery in another account did not use the place.
    assert_eq!(both(place("b", None), [&aside, &long_ago]), Wins);
    // The entry of the place that was used has ended, and the event has taken another one since.
    let of_ended = place("a", Some(batch(3)));
    assert_eq!(both(of_ended, [&aside, &long_ago]), Wins);
    // A merge has left out the entry of the batch that took the place first.
    let only = |record| after(&[(second(over), 0, 8, 1)], &[as_second(record)]);
    assert_eq!(only(aside), Wins);
    assert_eq!(only(long_ago), BeyondQuota);
}

#[test]
fn an_entry_ends_no_sooner_than_the_one_whose_place_it_took_over() {
    let first = owner().with_place(place("a", None));
    let matches = with_tallies(entries(&[(first, 0, 9, 1)]), &[tally("a", 9)]);
    let line = counted(0, 5, 1);
    let decided = resolved(&[line], &matches, &[set_aside()]).unwrap();
    let own = |ends_at| Owner::Batch {
        batch: batch(2),
        ends_at,
        events_end_at: None,
        place: None,
    };
    let ends_at = |own_end| decided.owner_of(&line, own(own_end)).ends_at();
    let second = Duration::from_secs(1);
    let (sooner, later) = (ENDS_AT.saturating_sub(second), ENDS_AT + second);
    assert_eq!(ends_at(sooner), ENDS_AT);
    assert_eq!(ends_at(later), later);
    // Another batch took the place over before, and its entry ends later.
    let other = owner()
        .with_place(place("a", Some(batch(1))))
        .that_outlives(later);
    let found = entries(&[(first, 0, 9, 1), (other, 0, 8, 1)]);
    let matches = with_tallies(found, &[tally("a", 9)]);
    let decided = resolved(&[line], &matches, &[set_aside()]).unwrap();
    assert_eq!(decided.owner_of(&line, own(sooner)).ends_at(), later);
    let long_after = ENDS_AT + ENTRY_EXTENSION_MAX * 2;
    let ends_at = own(ENDS_AT).that_outlives(long_after).ends_at();
    assert_eq!(ends_at, ENDS_AT + ENTRY_EXTENSION_MAX);
}
