use super::*;
use crate::batch::{BatchRecord, PartRecord, PartState};
use crate::bodies::{Bodies, ObjectPlace};
use crate::seqs::SeqSet;

const READERS_WINDOW: Duration = Duration::from_secs(60);

fn record() -> BatchRecord {
    let source = "arn:q".parse().unwrap();
    BatchRecord::open(batch(1), source, None, 10, Timestamp::EPOCH, NOW)
}

fn complete(mut record: BatchRecord) -> BatchRecord {
    record.status = None;
    record.completed_at = Some(NOW);
    record
}

fn part(seqs: &[Seq], state: PartState) -> PartRecord {
    PartRecord {
        state,
        ..PartRecord::frozen(seqs.iter().copied().collect(), [0; 32], None)
    }
}

fn delivered(at: Option<Timestamp>) -> PartState {
    PartState::Delivered {
        receipt: String::new(),
        at,
    }
}

/// Returns the resolution of a live claim.
fn of_claim(record: Option<&BatchRecord>, seq: Seq) -> SeatResolution {
    let shard = seat(1, seq).shard();
    seat_resolution(record, &LockState::Live { shard, seq }, READERS_WINDOW, NOW)
}

/// Returns the record of a batch of the log.
fn of_log(record: BatchRecord) -> BatchRecord {
    record.with_bodies(Bodies::Log(ObjectPlace::Table), WINDOW)
}

#[test]
fn a_claim_is_classified_by_the_status_of_its_batch() {
    let mut record = record();
    record.delivered = [1].into_iter().collect();
    assert_eq!(of_claim(Some(&record), 1), SeatResolution::Alive);
    record.set_aside = [5].into_iter().collect();
    record.parts = vec![part(&[2], delivered(Some(Timestamp::EPOCH)))];
    let record = complete(record);
    let record = Some(&record);
    let until = NOW + READERS_WINDOW;
    let delivered = SeatResolution::Delivered { until };
    assert_eq!([1, 2].map(|seq| of_claim(record, seq)), [delivered; 2]);
    assert_eq!(of_claim(record, 5), SeatResolution::SetAside { until });
    assert_eq!(of_claim(record, 3), SeatResolution::Orphan);
    assert_eq!(of_claim(None, 3), SeatResolution::Expired);
}

#[test]
fn a_seat_of_the_log_is_classified_by_its_part_and_the_window_of_its_batch() {
    let mut record = of_log(record());
    let at = Timestamp::from_ms(7);
    record.parts = vec![
        part(&[1, 2], delivered(Some(at))),
        part(&[3], PartState::Frozen),
    ];
    let (until, alive) = (at + WINDOW, SeatResolution::Alive);
    let resolved =
        |record: &BatchRecord| [2, 3, 4].map(|seq| listed_seat_resolution(record, seq, NOW));
    let delivered_then = SeatResolution::Delivered { until };
    assert_eq!(resolved(&record), [delivered_then, alive, alive]);
    record.parts[1] = part(&[], PartState::SetAside);
    record.set_aside = [3].into_iter().collect();
    // The part has no time of its own.
    record.parts[0].state = delivered(None);
    let until = NOW + WINDOW;
    let expected = [
        SeatResolution::Delivered { until },
        SeatResolution::SetAside { until },
        SeatResolution::Orphan,
    ];
    assert_eq!(resolved(&complete(record)), expected);
}

#[test]
fn a_seq_whose_part_keeps_no_set_was_delivered_with_the_last_such_part() {
    let mut record = of_log(record());
    let (first, last) = (Timestamp::from_ms(7), Timestamp::from_ms(9));
    record.delivered = (0..4).collect::<SeqSet>();
    record.parts = vec![
        part(&[], delivered(Some(first))),
        part(&[], delivered(Some(last))),
        part(&[8], delivered(Some(NOW))),
    ];
    let until = last + WINDOW;
    let resolution = listed_seat_resolution(&record, 3, NOW);
    assert_eq!(resolution, SeatResolution::Delivered { until });
}

#[test]
fn a_claim_whose_record_is_of_the_log_proves_nothing() {
    let log = of_log(record());
    assert_eq!(of_claim(Some(&log), 1), SeatResolution::Unknown);
}

#[test]
fn a_seat_that_was_set_aside_or_rejected_has_ended_also_before_its_batch_is_complete() {
    let mut items = record();
    items.parts = vec![part(&[1, 2], delivered(Some(Timestamp::EPOCH)))];
    items.set_aside = [2, 5].into_iter().collect();
    let set_aside = |window| SeatResolution::SetAside {
        until: NOW + window,
    };
    let aside = set_aside(READERS_WINDOW);
    let expected = [SeatResolution::Alive, aside, aside];
    assert_eq!([1, 2, 5].map(|seq| of_claim(Some(&items), seq)), expected);
    let log = of_log(items.clone());
    for record in [log.clone(), complete(log)] {
        let of_seat = |seq| listed_seat_resolution(&record, seq, NOW);
        assert_eq!(of_seat(2), set_aside(WINDOW));
        let until = Timestamp::EPOCH + WINDOW;
        let delivered = SeatResolution::Delivered { until };
        assert_eq!(of_seat(1), delivered);
    }
    assert_eq!(of_claim(Some(&complete(items)), 2), aside);
}
