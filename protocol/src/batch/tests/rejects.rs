use super::*;
use crate::invariants::parts_are_disjoint;

/// Returns a record with the seats 0 to 2 in a frozen part.
fn frozen() -> BatchRecord {
    let leased = must(&opened(), &lease("p", 30, 60));
    must(&leased, &freeze("p", 0, 0..3))
}

/// Returns a record with the seats 0 to 2 in a delivered part whose seat 1 was rejected, and the write that marked it. With
/// `shared`, the part keeps no set of its own.
fn with_rejects(shared: bool) -> (BatchRecord, BatchWrite) {
    let frozen = frozen();
    // Seat 9 is in no part.
    let rejected = [1, 9].into_iter().collect();
    let deliver = BatchWrite::Delivered {
        owner: owner("p"),
        index: 0,
        receipt: "r".to_owned(),
        at: at(31),
        rejects: frozen.rejects_with(0, &rejected),
        delivered: shared.then(|| (0..3).collect()),
    };
    (must(&frozen, &deliver), deliver)
}

#[test]
fn rejected_seats_are_kept_and_are_not_delivered() {
    for shared in [false, true] {
        let (record, _) = with_rejects(shared);
        assert_eq!(record.rejected(), [1].into_iter().collect());
        assert!(record.quarantined().is_empty());
        assert_eq!((record.parts[0].rejected, record.parts[0].taken()), (1, 2));
        assert_eq!(record.members(), (0..3).collect());
        assert_eq!(role(&record, 1), Role::Leftover, "never delivered again");
        let counts = record.counts_in(&Notice::of_completion(&record, at(40)));
        let expected = NoticeCounts {
            delivered: 2,
            rejected: 1,
            set_aside: 0,
        };
        assert_eq!(counts, expected);
    }
}

#[test]
fn seats_that_go_to_the_quarantine_later_are_distinguished_from_rejected_ones() {
    let (mut record, _) = with_rejects(false);
    let write = BatchWrite::SetAside {
        owner: owner("p"),
        part: None,
        set_aside: record.set_aside.union(&(5..7).collect()),
        set_asides: record.set_asides,
    };
    record = must(&record, &write);
    assert_eq!(record.rejected(), [1].into_iter().collect());
    assert_eq!(record.quarantined(), (5..7).collect());
    assert_eq!(Notice::of_completion(&record, at(40)).set_aside, 2);
}

#[test]
fn rejects_are_written_only_if_nothing_was_set_aside_since_the_record_was_read() {
    let frozen = frozen();
    let (_, deliver) = with_rejects(false);
    let changed = BatchRecord {
        set_asides: 1,
        ..frozen.clone()
    };
    assert_eq!(apply(&changed, &deliver), None);
    assert!(apply(&frozen, &deliver).is_some());
    assert_eq!(frozen.rejects_with(0, &SeqSet::new()), None);
    let of_no_part = frozen.rejects_with(1, &(0..3).collect());
    assert_eq!(of_no_part, None);
}

#[test]
fn a_part_of_an_earlier_version_has_the_number_of_rejects_alone() {
    let (mut record, _) = with_rejects(false);
    record.set_aside = SeqSet::new();
    assert_eq!(record_is_sound(&record), Ok(()));
    assert!(record.rejected().is_empty());
    assert_eq!(record.parts[0].taken(), 2);
}

#[test]
fn a_delivered_seat_that_was_not_rejected_is_never_set_aside() {
    let (mut record, _) = with_rejects(false);
    record.set_aside.insert(2);
    let found = parts_are_disjoint(&record).unwrap_err().found;
    assert!(found.contains("set aside delivered events"), "{found}");
}
