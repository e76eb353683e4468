//! Notices, and the record as they show it.

use super::*;
use crate::limits::{BATCH_LIFE_MAX, DUE_GRACE, NOTICES_MAX};

/// Returns the write after which the quarantine has these seats, which are in no part.
fn set_aside(seats: std::ops::Range<u32>, set_asides: u64) -> BatchWrite {
    BatchWrite::SetAside {
        owner: owner("p"),
        part: None,
        set_aside: seats.collect(),
        set_asides,
    }
}

#[test]
fn a_notice_names_its_batch_and_the_lease_that_ended_in_an_error() {
    let leased = must(&opened(), &lease("p", 30, 60));
    let id = leased.batch_id;
    let complete = Notice::of_completion(&leased, at(40));
    assert_eq!(complete.id(id), format!("{id}/complete"));
    let error = Notice::of_error(&leased, "no", at(40));
    assert_eq!(error.id(id), format!("{id}/error/1"));
}

#[test]
fn a_batch_in_error_is_due_for_its_notice_then_at_the_end_of_its_life_and_then_once_a_day() {
    let leased = must(&opened(), &lease("p", 30, 60));
    let fail = BatchWrite::Fail {
        owner: owner("p"),
        error: "no".to_owned(),
        notice: Some(Notice::of_error(&leased, "no", at(40))),
    };
    let failed = must(&leased, &fail);
    assert_eq!(failed.due_at, at(40) + DUE_GRACE);
    let life_ends = at(0) + BATCH_LIFE_MAX;
    assert_eq!(failed.error_due_at(at(41)), life_ends);
    let a_day_later = life_ends + 86_400 * SECOND;
    assert_eq!(failed.error_due_at(life_ends), a_day_later);
}

#[test]
fn a_record_has_room_for_few_notices_of_errors() {
    let mut record = opened();
    let notice = Notice::of_error(&record, "no", at(40));
    let takes = [0, NOTICES_MAX - 1, NOTICES_MAX].map(|waiting| {
        record.notices = vec![notice.clone(); waiting];
        record.takes_notice()
    });
    assert_eq!(takes, [true, true, false]);
}

#[test]
fn a_notice_shows_the_batch_as_it_was_whatever_happens_later() {
    let leased = must(&opened(), &lease("p", 30, 60));
    let record = must(&delivered(&leased, 0..3), &set_aside(10..12, 0));
    let record = must(&record, &freeze("p", 1, 3..5));
    let notice = Notice::of_error(&record, "no", at(40));
    let shown = |record: &BatchRecord| {
        let states = [0, 1].map(|index| record.part_state_in(&notice, index));
        (states, record.counts_in(&notice))
    };
    let states = [record.parts[0].state.clone(), PartState::Frozen];
    let counts = NoticeCounts {
        delivered: 3,
        rejected: 0,
        set_aside: 2,
    };
    assert_eq!(shown(&record), (states.clone(), counts));
    let later = must(&record, &deliver("p", 1, None));
    let later = must(&delivered(&later, 5..9), &set_aside(10..14, 1));
    assert_eq!(shown(&later), (states, counts));
}
