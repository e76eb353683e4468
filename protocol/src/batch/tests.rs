mod completion;
mod leases;
mod log;
mod notices;
mod records;
mod rejects;
mod writes;

use std::time::Duration;

use super::*;
use crate::ids::{BatchId, LeaseOwner, Seq};
use crate::invariants::record_is_sound;
use crate::seqs::SeqSet;
use crate::slot::ClaimCounts;
use crate::time::Timestamp;

const SECOND: Duration = Duration::from_secs(1);

pub(super) fn at(secs: u64) -> Timestamp {
    Timestamp::from_ms(secs * 1_000)
}

pub(super) fn opened() -> BatchRecord {
    let id = BatchId::new(uuid::Uuid::from_u128(1));
    BatchRecord::open(id, "arn:q".parse().unwrap(), None, 10, at(0), at(30))
}

/// Returns the record of an open batch in which this many seats are reserved.
pub(super) fn with_seats(seats: u64) -> BatchRecord {
    let reservations = Reservations {
        reserved: seats,
        slots: 1,
        ..Reservations::default()
    };
    BatchRecord {
        reservations: Some(reservations),
        ..opened()
    }
}

/// Returns the write of `p` that counts claims of the first of these seats.
fn count(seats: u64, confirmed: u64, settled: u32) -> BatchWrite {
    BatchWrite::Count {
        owner: owner("p"),
        counts: ClaimCounts {
            confirmed,
            settled: (0..settled).collect(),
            witnessed: SeqSet::new(),
        },
        uncertain: seats - u64::from(settled),
        witnesses: 0,
    }
}

/// Returns the record of a batch whose claims `p` has counted.
fn counted(seats: u64, confirmed: u64, settled: u32) -> BatchRecord {
    let leased = must(&with_seats(seats), &lease("p", 30, 60));
    must(&leased, &count(seats, confirmed, settled))
}

fn owner(name: &str) -> LeaseOwner {
    name.parse().unwrap()
}

fn lease_of(name: &str, until: u64) -> Lease {
    Lease {
        owner: owner(name),
        until: at(until),
    }
}

fn lease(name: &str, now: u64, until: u64) -> BatchWrite {
    BatchWrite::Lease {
        lease: lease_of(name, until),
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

fn seal() -> BatchWrite {
    BatchWrite::Seal {
        at: at(1),
        due_at: None,
        idle_since: None,
    }
}

fn freeze(name: &str, index: usize, seqs: std::ops::Range<u32>) -> BatchWrite {
    BatchWrite::Freeze {
        owner: owner(name),
        index,
        part: part(seqs),
    }
}

fn deliver(name: &str, index: usize, delivered: Option<SeqSet>) -> BatchWrite {
    BatchWrite::Delivered {
        owner: owner(name),
        index,
        receipt: "r".to_owned(),
        delivered,
        at: Timestamp::EPOCH,
        rejects: None,
    }
}

fn give_up(name: &str) -> BatchWrite {
    give_up_with(name, None, None)
}

fn give_up_with(name: &str, verify_at: Option<Timestamp>, failure: Option<Failure>) -> BatchWrite {
    BatchWrite::GiveUp {
        owner: owner(name),
        due: Due {
            verify_at,
            ..Due::at(at(90))
        },
        failure,
    }
}

fn fail(name: &str) -> BatchWrite {
    BatchWrite::Fail {
        owner: owner(name),
        error: "no".to_owned(),
        notice: None,
    }
}

fn complete(name: &str, parts: usize) -> BatchWrite {
    BatchWrite::Complete {
        owner: owner(name),
        counts_version: 0,
        witnesses: 0,
        parts,
        at: at(40),
        expires_at: Timestamp::EPOCH,
        notice: None,
    }
}

fn delivered(record: &BatchRecord, seqs: std::ops::Range<u32>) -> BatchRecord {
    let index = record.parts.len();
    let frozen = must(record, &freeze("p", index, seqs));
    must(&frozen, &deliver("p", index, frozen.delivered_with(index)))
}
