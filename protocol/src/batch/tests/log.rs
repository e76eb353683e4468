//! Reservations, and the writes of a batch of the log.

use super::*;
use crate::limits::SLOTS_MAX;

const LIMITS: BatchLimits = BatchLimits {
    items_max: 5,
    bytes_max: 100,
};

fn opened_log() -> BatchRecord {
    opened().with_bodies("log:table".parse().unwrap(), SECOND)
}

/// Returns the record of a closed batch with five lines, of which `p` has the lease.
pub(super) fn leased() -> BatchRecord {
    let reserved = must(&opened_log(), &reserve(5, 30, 3));
    must(&reserved, &lease("p", 30, 60))
}

fn reservation(seats: u64, bytes: u64, secs: u64) -> Reservation {
    Reservation {
        seats,
        bytes,
        at: at(secs),
        until: at(secs + 9),
        limits: LIMITS,
    }
}

fn reserve(seats: u64, bytes: u64, secs: u64) -> BatchWrite {
    BatchWrite::Reserve(reservation(seats, bytes, secs))
}

fn resolution() -> Resolution {
    Resolution {
        duplicates: [1].into_iter().collect(),
        conflicts: [3].into_iter().collect(),
        beyond_quota: SeqSet::new(),
        is_reported: false,
    }
}

pub(super) fn resolve() -> BatchWrite {
    BatchWrite::Resolve {
        owner: owner("p"),
        winners: [0, 2].into_iter().collect(),
        resolution: resolution(),
    }
}

pub(super) fn reported() -> BatchWrite {
    BatchWrite::Reported { owner: owner("p") }
}

pub(super) fn resolution_of(record: &mut BatchRecord) -> &mut Resolution {
    record
        .reservations
        .as_mut()
        .unwrap()
        .resolution
        .as_mut()
        .unwrap()
}

/// Returns the state with this many lines and bytes reserved.
fn with_reserved((reserved, reserved_bytes): (u64, u64)) -> Reservations {
    Reservations {
        reserved,
        reserved_bytes,
        ..Reservations::default()
    }
}

#[test]
fn a_reservation_fits_within_the_limits_and_one_large_body_with_any_bytes() {
    for (reserved, seats, bytes, fits) in [
        ((0, 0), 5, 100, true),
        ((0, 0), 6, 1, false),
        ((0, 0), 1, 101, true),
        ((1, 40), 4, 60, true),
        ((1, 40), 5, 10, false),
        ((1, 40), 1, 61, false),
        ((1, 40), 1, 100, false),
        // It fits no batch better.
        ((1, 40), 1, 101, true),
        ((5, 40), 1, 101, false),
    ] {
        let (log, wanted) = (with_reserved(reserved), reservation(seats, bytes, 0));
        assert_eq!(log.has_room(&wanted), fits, "{log:?}, {wanted:?}");
    }
}

#[test]
fn as_many_bodies_fit_as_the_limits_allow_and_the_first_with_any_bytes() {
    let fit = |log: Reservations, sizes: &[u64]| log.room(sizes.iter().copied(), LIMITS);
    let empty = || with_reserved((0, 0));
    assert_eq!(fit(empty(), &[1; 9]), 5);
    assert_eq!(fit(empty(), &[40, 60, 1]), 2);
    assert_eq!(fit(empty(), &[101, 1]), 1);
    let with_some = || with_reserved((2, 40));
    assert_eq!(fit(with_some(), &[1; 9]), 3);
    assert_eq!(fit(with_some(), &[20, 40, 1]), 2);
    assert_eq!(fit(with_some(), &[61]), 0);
    assert_eq!(fit(with_some(), &[101, 1]), 1);
    let of_many = Reservations {
        slots: SLOTS_MAX,
        ..with_some()
    };
    assert_eq!(fit(of_many, &[1]), 0);
}

#[test]
fn a_reservation_takes_the_next_slot_and_seqs_of_an_open_batch_with_room() {
    let got = |slot, first_seq| Some(Reserved { slot, first_seq });
    assert_eq!(opened_log().reserved(0), None);
    let first = must(&opened_log(), &reserve(2, 30, 3));
    assert_eq!(first.reserved(2), got(0, 0));
    let second = must(&first, &reserve(3, 50, 4));
    assert_eq!(second.reserved(3), got(1, 2));
    let reservations = Reservations {
        slots: 2,
        last_at: at(4),
        busy_until: at(13),
        ..with_reserved((5, 80))
    };
    let expected = BatchRecord {
        reservations: Some(reservations),
        ..opened_log()
    };
    assert_eq!(second, expected);
    let closed = must(&first, &lease("p", 30, 60));
    for record in [&second, &closed, &opened()] {
        assert_eq!(apply(record, &reserve(1, 1, 5)), None, "{record:?}");
    }
    // Only its reply says which slot it got.
    assert!(!already_applied(&second, &reserve(3, 50, 4)));
}

#[test]
fn a_batch_is_sealed_once_and_as_idle_only_without_later_reservations() {
    let seal = |secs, idle_since: Option<u64>| BatchWrite::Seal {
        at: at(secs),
        due_at: Some(at(50)),
        idle_since: idle_since.map(at),
    };
    let open = must(&opened_log(), &reserve(2, 30, 7));
    assert_eq!(apply(&open, &seal(9, Some(6))), None);
    let sealed = BatchRecord {
        status: Some(Status::Sealed),
        sealed_at: Some(at(9)),
        due_at: at(50),
        ..open.clone()
    };
    for idle_since in [None, Some(7), Some(8)] {
        assert_eq!(must(&open, &seal(9, idle_since)), sealed);
    }
    assert_eq!(apply(&sealed, &seal(9, None)), None);
    assert!(already_applied(&sealed, &seal(9, None)));
    assert!(!already_applied(&sealed, &seal(8, None)), "of another");
}

#[test]
fn the_lines_are_decided_once_by_the_owner_of_the_lease_and_reported_then() {
    let leased = leased();
    let of_another = must(&leased, &lease("q", 62, 90));
    for record in [&leased, &of_another] {
        assert_eq!(apply(record, &reported()), None, "{record:?}");
    }
    assert_eq!(apply(&of_another, &resolve()), None);
    let resolved = must(&leased, &resolve());
    let with = |resolution: Resolution| {
        let reservations = leased.reservations.clone().unwrap();
        BatchRecord {
            claimed: [0, 2].into_iter().collect(),
            confirmed: 2,
            reservations: Some(Reservations {
                resolution: Some(resolution),
                ..reservations
            }),
            ..leased.clone()
        }
    };
    assert_eq!(resolved, with(resolution()));
    assert_eq!(resolution().quarantined(), [3].into_iter().collect());
    assert_eq!(apply(&resolved, &resolve()), None);
    let done = must(&resolved, &reported());
    let reported = Resolution {
        is_reported: true,
        ..resolution()
    };
    assert_eq!(done, with(reported));
    let known = |record: &BatchRecord| (record.is_resolved(), record.is_reported());
    assert_eq!(known(&leased), (false, false));
    assert_eq!(known(&resolved), (true, false));
    assert_eq!([&done, &opened()].map(known), [(true, true); 2]);
}

#[test]
fn a_count_is_a_witness_and_leaves_the_seats_uncertain_that_no_slot_names() {
    let leased = must(&with_seats(5), &lease("p", 30, 60));
    let witnessed = must(&leased, &witness(&[4], 0));
    assert_eq!(witnessed.witnesses, 1);
    let counts = ClaimCounts {
        confirmed: 2,
        settled: (0..3).collect(),
        witnessed: witnessed.witnessed.clone(),
    };
    assert_eq!(witnessed.uncertain_beside(&counts), 2);
    assert_eq!(opened().uncertain_beside(&ClaimCounts::default()), 0);
    let count = BatchWrite::Count {
        owner: owner("p"),
        counts: counts.clone(),
        uncertain: 2,
        witnesses: 1,
    };
    let counted = must(&witnessed, &count);
    assert_eq!((counted.witnesses, counted.uncertain), (2, 2));
    assert_eq!(counted.settled, counts.settled);
}
