//! The fields and the size of a record.

use super::*;
use crate::limits::{
    LISTED_SEATS_MAX, LISTING_RECORD_BYTES_MAX, NOTE_OVERHEAD_BYTES, NOTICE_OVERHEAD_BYTES,
    PART_MEMBERS_BYTES_MAX, PART_OVERHEAD_BYTES, RECORD_OVERHEAD_BYTES,
};

#[test]
fn statuses_have_the_names_in_the_table() {
    let names = ["open", "sealed", "processing", "error"];
    assert_eq!(Status::ALL.map(Status::as_str), names);
}

#[test]
fn the_ticket_comes_after_the_window_and_within_what_sqs_can_delay() {
    let closing = |secs| Closing {
        closes_at: at(secs),
    };
    // The delay is rounded up and includes the clock skew.
    let delay = closing(315).ticket_delay(Timestamp::from_ms(1));
    assert_eq!(delay, 317 * SECOND);
    assert_eq!(closing(897).ticket_delay(at(0)), 899 * SECOND);
    assert!(!closing(897).is_beyond_delays(at(0)) && closing(898).is_beyond_delays(at(0)));
    assert_eq!(closing(898).ticket_delay(at(0)), 900 * SECOND);
    assert_eq!(closing(9_000).ticket_delay(at(0)), 900 * SECOND);
}

#[test]
fn the_parts_decide_the_role_of_a_collected_seq() {
    let record = delivered(&must(&opened(), &lease("p", 30, 60)), 0..3);
    let record = must(&record, &freeze("p", 1, 3..5));
    assert_eq!(role(&record, 2), Role::Leftover);
    assert_eq!(role(&record, 3), Role::Frozen);
    assert_eq!(role(&record, 5), Role::New);
    assert_eq!(record.frozen_part().map(|(index, _)| index), Some(1));
}

#[test]
fn seqs_that_were_set_aside_or_delivered_are_leftovers() {
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
    let bytes = record.parts[0].members.to_bytes().len();
    assert_eq!(bytes, PART_MEMBERS_BYTES_MAX);
    assert_eq!(record.delivered_with(0), None);
    record.parts = vec![part_of(seqs + 16)];
    let mut shared = record.parts[0].members.clone();
    shared.insert(9_999);
    assert_eq!(record.delivered_with(0), Some(shared));
    assert_eq!(record.delivered_with(1), None);
}

/// Returns the record of a batch of the log with this many lines, of which every twentieth is a duplicate. One delivered part has
/// all winners.
fn record_of_log(lines: u32) -> BatchRecord {
    let place = "log:s3://a-bucket-with-a-long-name/and/a/prefix/";
    let mut record = opened().with_bodies(place.parse().unwrap(), 3_600 * SECOND);
    let (duplicates, claimed): (Vec<Seq>, Vec<Seq>) = (0..lines).partition(|seq| seq % 20 == 7);
    record.claimed = claimed.into_iter().collect();
    let log = record.reservations.as_mut().expect("it is of the log");
    log.resolution = Some(Resolution {
        duplicates: duplicates.into_iter().collect(),
        ..Resolution::default()
    });
    record.parts = vec![PartRecord::frozen(record.claimed.clone(), [7; 32], None)];
    record.delivered = record.delivered_with(0).expect("the set is large");
    record
}

#[test]
fn the_record_of_a_batch_of_the_log_with_50_000_lines_is_small() {
    let record = record_of_log(50_000);
    assert_eq!(record.claimed.len(), 47_500);
    assert!(record.bytes() < 32_000, "{} bytes", record.bytes());
}

#[test]
fn the_largest_record_of_a_batch_of_the_log_in_one_part_is_within_its_limit() {
    let mut record = record_of_log(LISTED_SEATS_MAX);
    record.set_aside = record.claimed.clone();
    let bytes = record.bytes();
    assert!(bytes < LISTING_RECORD_BYTES_MAX, "{bytes} bytes");
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
    record.lease = Some(lease_of("seven77", 1));
    record.last_failure = Some(Failure {
        at: at(1),
        text: "eleven 1111".to_owned(),
    });
    expected += 2 + 3 + 5 + 7 + 11;
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
    record.notes = vec![OperatorNote::new(at(5), "me", "retry", "solved")];
    expected += NOTE_OVERHEAD_BYTES + 2 + 5 + 6;
    assert_eq!(record.bytes(), expected);
    record.notices = vec![
        Notice::of_error(&record, "thirteen 1313", at(5)),
        Notice::of_completion(&record, at(6)),
    ];
    expected += 2 * NOTICE_OVERHEAD_BYTES + 13;
    assert_eq!(record.bytes(), expected);
    let sink = Some("sink".to_owned());
    record.parts = vec![PartRecord::frozen(set.clone(), [7; 32], sink)];
    expected += PART_OVERHEAD_BYTES + set.to_bytes().len() + "sink".len();
    assert_eq!(record.bytes(), expected);
    record.parts[0].state = PartState::Delivered {
        receipt: "receipt".to_owned(),
        at: None,
    };
    assert_eq!(record.bytes(), expected + "receipt".len());
}
