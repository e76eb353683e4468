use std::time::Duration;

use proptest::prelude::*;

use super::super::entry::IdHash;
use super::*;
use crate::batch::{PartRecord, PartState};
use crate::bodies::{Bodies, ChunkPlace};

const WINDOW: Duration = Duration::from_millis(50);
const OPENED: Timestamp = Timestamp::from_ms(100);
const DELIVERED: Timestamp = Timestamp::from_ms(200);
/// When the event of a complete batch ends: its dedup window after the delivery.
const ENDED: Timestamp = Timestamp::from_ms(250);
const ENDS_AT: Timestamp = Timestamp::from_ms(900);

fn batch(number: u128) -> BatchId {
    BatchId::new(uuid::Uuid::from_u128(number))
}

fn of_batch(number: u128) -> Owner {
    Owner::Batch {
        batch: batch(number),
        ends_at: ENDS_AT,
    }
}

fn forget(number: u128) -> Owner {
    Owner::Forget {
        batch: batch(number),
        ends_at: ENDS_AT,
    }
}

/// The record of a complete batch that delivered its seat 0, set seat 1 aside, and has no other.
fn complete(number: u128) -> BatchRecord {
    let source = "arn:q".parse().unwrap();
    let record = BatchRecord::open(batch(number), source, None, 1, OPENED, OPENED);
    let mut record = record.with_bodies(Bodies::Log(ChunkPlace::Table), WINDOW);
    let mut part = PartRecord::frozen([0].into_iter().collect(), [0; 32], None);
    part.state = PartState::Delivered {
        receipt: String::new(),
        at: Some(DELIVERED),
    };
    record.parts.push(part);
    record.set_aside.insert(1);
    record.status = None;
    record.completed_at = Some(Timestamp::from_ms(300));
    record
}

fn entry(id: u128, owner: u32, seq: Seq) -> Entry {
    Entry {
        id: IdHash::new(id),
        owner,
        seq,
        message: 1,
        body: 2,
    }
}

type Run = (Vec<Owner>, Vec<[u8; ENTRY_BYTES]>);

fn run(owners: &[Owner], entries: &[Entry]) -> Run {
    let mut entries = entries.to_vec();
    entries.sort_unstable();
    (
        owners.to_vec(),
        entries.into_iter().map(Entry::to_bytes).collect(),
    )
}

/// Merges runs, of which each is read `step` entries at a time. Returns what is kept, each with its owner, and the latest end of
/// what was left out.
fn merged(
    runs: &[Run],
    records: &[BatchRecord],
    past: Timestamp,
    step: usize,
) -> (Vec<(IdHash, Owner, Seq)>, Timestamp) {
    let record_of = |id| records.iter().find(|record| record.batch_id == id);
    let mut merge = Merge::new(record_of, past);
    let mut ranges: Vec<_> = runs.iter().map(|_| (0, 0)).collect();
    let mut entries = Vec::new();
    loop {
        let mut blocks: Vec<Block<'_>> = Vec::new();
        for ((owners, of_run), (from, to)) in runs.iter().zip(&mut ranges) {
            *to = (*to + step).min(of_run.len());
            blocks.push(Block {
                owners,
                entries: &of_run[*from..*to],
                has_more: *to < of_run.len(),
            });
        }
        entries.extend(merge.advance(&mut blocks));
        for (block, (from, to)) in blocks.iter().zip(&mut ranges) {
            *from = *to - block.entries.len();
        }
        if blocks.iter().all(|block| !block.has_more) {
            assert!(blocks.iter().all(|block| block.entries.is_empty()));
            break;
        }
    }
    assert!(entries.is_sorted(), "{entries:?}");
    let (owners, left_out_until) = merge.finish();
    let kept = entries.into_iter().map(|entry| {
        let owner = owners[entry.owner as usize];
        (entry.id, owner, entry.seq)
    });
    let mut kept: Vec<_> = kept.collect();
    kept.sort_unstable();
    (kept, left_out_until)
}

fn id(number: u128) -> IdHash {
    IdHash::new(number)
}

proptest! {
    #[test]
    fn a_merge_keeps_every_entry_that_has_not_ended_however_runs_are_read(
        runs in prop::collection::vec(
            prop::collection::vec((0..20_u128, 0..2_u32, 5..9_u32), 0..30), 0..4,
        ),
        step in 1..12_usize,
    ) {
        let owners = [of_batch(7), of_batch(8)];
        let runs: Vec<Run> = runs
            .into_iter()
            .map(|entries| {
                let entries = entries.into_iter().map(|(id, owner, seq)| entry(id, owner, seq));
                run(&owners, &entries.collect::<Vec<_>>())
            })
            .collect();
        let mut expected: Vec<_> = runs
            .iter()
            .flat_map(|(owners, entries)| entries.iter().map(move |bytes| {
                let entry = Entry::from_bytes(bytes);
                (entry.id, owners[entry.owner as usize], entry.seq)
            }))
            .collect();
        expected.sort_unstable();
        let (kept, left_out_until) = merged(&runs, &[], Timestamp::EPOCH, step);
        prop_assert_eq!(kept, expected);
        prop_assert_eq!(left_out_until, Timestamp::EPOCH);
    }
}

#[test]
fn an_entry_is_left_out_once_its_window_is_over_since_the_delivery() {
    let runs = [run(&[of_batch(1)], &[entry(5, 0, 0)])];
    let records = [complete(1)];
    let before = ENDED.saturating_sub(Duration::from_millis(1));
    let kept = vec![(id(5), of_batch(1), 0)];
    assert_eq!(
        merged(&runs, &records, before, 9),
        (kept.clone(), Timestamp::EPOCH)
    );
    assert_eq!(merged(&runs, &records, ENDED, 9), (Vec::new(), ENDED));
    let mut unfinished = complete(1);
    unfinished.completed_at = None;
    let far = Timestamp::FAR_FUTURE;
    assert_eq!(
        merged(&runs, &[unfinished], far, 9),
        (kept, Timestamp::EPOCH)
    );
}

#[test]
fn an_event_that_was_set_aside_ends_its_window_after_the_completion() {
    let runs = [run(&[of_batch(1)], &[entry(5, 0, 1)])];
    let ended = Timestamp::from_ms(350);
    let before = ended.saturating_sub(Duration::from_millis(1));
    assert_eq!(merged(&runs, &[complete(1)], before, 9).0.len(), 1);
    assert_eq!(merged(&runs, &[complete(1)], ended, 9), (Vec::new(), ended));
}

#[test]
fn an_entry_without_a_record_or_without_its_seat_is_kept_until_it_ends() {
    let runs = [run(&[of_batch(1)], &[entry(5, 0, 7)])];
    let before = ENDS_AT.saturating_sub(Duration::from_millis(1));
    for records in [vec![], vec![complete(1)]] {
        assert_eq!(merged(&runs, &records, before, 9).0.len(), 1);
        assert_eq!(merged(&runs, &records, ENDS_AT, 9), (vec![], ENDS_AT));
    }
}

#[test]
fn what_is_primed_is_left_out_when_it_is_over() {
    let until = Timestamp::from_ms(40);
    let owners = [Owner::Primed { until }, Owner::PrimedMessage { until }];
    let runs = [run(&owners, &[entry(5, 0, 0), entry(5, 1, 0)])];
    assert_eq!(merged(&runs, &[], Timestamp::from_ms(39), 9).0.len(), 2);
    assert_eq!(merged(&runs, &[], until, 9), (Vec::new(), until));
}

#[test]
fn a_forget_entry_goes_with_its_target_or_when_it_ends() {
    let target = run(&[of_batch(1)], &[entry(5, 0, 3), entry(5, 0, 4)]);
    let forgets = run(&[forget(1)], &[entry(5, 0, 3)]);
    let others = run(&[of_batch(2), forget(2)], &[entry(5, 0, 3), entry(6, 1, 3)]);
    let past = Timestamp::from_ms(1);
    let kept = vec![
        (id(5), of_batch(1), 4),
        (id(5), of_batch(2), 3),
        (id(6), forget(2), 3),
    ];
    let all = [target, forgets.clone(), others];
    assert_eq!(merged(&all, &[], past, 1), (kept, Timestamp::EPOCH));
    let alone = [forgets];
    let kept = vec![(id(5), forget(1), 3)];
    assert_eq!(merged(&alone, &[], past, 9), (kept, Timestamp::EPOCH));
    assert_eq!(merged(&alone, &[], ENDS_AT, 9), (Vec::new(), ENDS_AT));
}

#[test]
fn the_latest_end_of_what_was_left_out_is_noted() {
    let primed = |ms| Owner::Primed {
        until: Timestamp::from_ms(ms),
    };
    let owners = [primed(30), primed(40), primed(60)];
    let entries = [entry(1, 1, 0), entry(2, 0, 0), entry(3, 2, 0)];
    let (kept, left_out_until) = merged(&[run(&owners, &entries)], &[], Timestamp::from_ms(50), 1);
    assert_eq!(kept, [(id(3), primed(60), 0)]);
    assert_eq!(left_out_until, Timestamp::from_ms(40));
}
