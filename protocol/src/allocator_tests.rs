use super::*;
use crate::batch::BatchRecord;
use crate::ids::BodyHash;

const DEADLINE: Timestamp = Timestamp::from_ms(15_000);
const CLOSES: Timestamp = Timestamp::from_ms(30_000);

fn limits(items_max: u64, bytes_max: u64) -> BatchLimits {
    BatchLimits {
        items_max,
        bytes_max,
        shards: 10,
        keys_max: 2,
        seats_max: 1_000,
        known_claims_max: 1_000,
    }
}

fn scope(source: &str, key: Option<&str>) -> BatchScope {
    BatchScope {
        period: None,
        source: source.parse().unwrap(),
        key: key.map(|key| key.parse().unwrap()),
    }
}

fn open(allocator: &mut Allocator, scope: &BatchScope, n: u128) -> BatchId {
    let id = BatchId::new(uuid::Uuid::from_u128(n));
    let (source, key) = (scope.source.clone(), scope.key.clone());
    let record = BatchRecord::open(id, source, key, 10, Timestamp::EPOCH, CLOSES);
    match allocator.seat(scope, &[1], DEADLINE) {
        Seating::Open(opening) => {
            allocator.opened(opening.record_acknowledged(&record).ticket_acknowledged())
        }
        other => panic!("expected to open, got {other:?}"),
    }
    id
}

fn seats(seating: Seating) -> Vec<Seat> {
    match seating {
        Seating::Seats(seats) => seats,
        other => panic!("expected seats, got {other:?}"),
    }
}

#[test]
fn other_invocations_wait_while_one_opens_a_batch() {
    let mut allocator = Allocator::new(limits(10, 1_000));
    let scope = scope("q", None);
    let Seating::Open(opening) = allocator.seat(&scope, &[1], DEADLINE) else {
        panic!("nothing is open")
    };
    assert!(matches!(
        allocator.seat(&scope, &[1], DEADLINE),
        Seating::Wait
    ));
    allocator.opening_failed(&opening.scope);
    assert!(matches!(
        allocator.seat(&scope, &[1], DEADLINE),
        Seating::Open(_)
    ));
}

#[test]
fn a_batch_gives_out_exactly_as_many_seats_as_it_has() {
    let few_seats = BatchLimits {
        seats_max: 3,
        ..limits(10, 1_000)
    };
    let mut allocator = Allocator::new(few_seats);
    let scope = scope("q", None);
    open(&mut allocator, &scope, 1);
    let seats = seats(allocator.seat(&scope, &[1; 6], DEADLINE));
    assert_eq!(seats.len(), 3);
    for seat in seats {
        allocator.finish(seat, 1, SeatEnd::Free);
    }
    // All places are free again, and no seq is given out a second time.
    assert!(!matches!(
        allocator.seat(&scope, &[1], DEADLINE),
        Seating::Seats(_)
    ));
}

#[test]
fn a_full_batch_holds_exactly_as_many_claims_as_it_may() {
    let mut allocator = Allocator::new(limits(4, 1_000));
    let scope = scope("q", None);
    let id = open(&mut allocator, &scope, 1);
    let first = seats(allocator.seat(&scope, &[1; 6], DEADLINE));
    assert_eq!(first.len(), 4);
    assert!(matches!(
        allocator.seat(&scope, &[1; 2], DEADLINE),
        Seating::Wait
    ));
    allocator.finish(first[0], 1, SeatEnd::Free);
    for seat in &first[1..] {
        allocator.finish(*seat, 1, SeatEnd::Claimed);
    }
    assert!(allocator.take_sealable().is_empty());
    let second = seats(allocator.seat(&scope, &[1; 2], DEADLINE));
    assert_eq!(
        second,
        [Seat {
            batch: id,
            seq: 4,
            shards: 10,
        }],
        "the place is given out again, and the seq is not"
    );
    allocator.finish(second[0], 1, SeatEnd::Claimed);
    let sealable = allocator.take_sealable();
    assert_eq!(sealable.len(), 1);
    let counts = &sealable[0].counts;
    assert_eq!(
        (counts.confirmed, counts.uncertain, counts.settled.len()),
        (4, 0, 5)
    );
    assert!(matches!(
        allocator.seat(&scope, &[1], DEADLINE),
        Seating::Open(_)
    ));
}

#[test]
fn bytes_fill_a_batch_and_one_body_always_fits() {
    let mut allocator = Allocator::new(limits(10, 100));
    let scope = scope("q", None);
    open(&mut allocator, &scope, 1);
    let large = seats(allocator.seat(&scope, &[150, 10], DEADLINE));
    assert_eq!(large.len(), 1);
    assert!(matches!(
        allocator.seat(&scope, &[10], DEADLINE),
        Seating::Wait
    ));
    allocator.finish(large[0], 150, SeatEnd::Claimed);
    assert!(matches!(
        allocator.seat(&scope, &[10], DEADLINE),
        Seating::Open(_)
    ));
    assert_eq!(
        allocator.take_sealable().len(),
        1,
        "a batch into which no further body fits is sealed"
    );
}

#[test]
fn an_invocation_that_outlives_the_window_opens_its_own_batch() {
    let mut allocator = Allocator::new(limits(10, 1_000));
    let scope = scope("q", None);
    let id = open(&mut allocator, &scope, 1);
    let seat = seats(allocator.seat(&scope, &[1], Timestamp::from_ms(29_999)))[0];
    allocator.retire_past(CLOSES);
    assert!(
        allocator.take_sealable().is_empty(),
        "an attempt is still in flight"
    );
    assert!(matches!(
        allocator.seat(&scope, &[1], CLOSES),
        Seating::Open(_)
    ));
    allocator.finish(seat, 1, SeatEnd::Claimed);
    let sealable = allocator.take_sealable();
    assert_eq!(sealable[0].id, id);
    assert_eq!(sealable[0].counts.confirmed, 1);
    assert_eq!(
        allocator.counts(id),
        None,
        "the batch was removed with its final counts"
    );
}

#[test]
fn an_uncertain_seat_keeps_its_place_and_is_not_settled() {
    let mut allocator = Allocator::new(limits(2, 1_000));
    let scope = scope("q", None);
    let id = open(&mut allocator, &scope, 1);
    let both = seats(allocator.seat(&scope, &[1, 1], DEADLINE));
    allocator.finish(both[0], 1, SeatEnd::Uncertain);
    let counts = allocator.counts(id).unwrap();
    assert_eq!(
        (
            counts.confirmed,
            counts.uncertain,
            counts.settled.len(),
            counts.version
        ),
        (0, 1, 0, 1)
    );
    allocator.finish(both[1], 1, SeatEnd::Claimed);
    let counts = &allocator.take_sealable()[0].counts;
    assert_eq!(
        (counts.confirmed, counts.uncertain, counts.version),
        (1, 1, 2)
    );
}

#[test]
fn a_retired_batch_is_sealed_and_another_batch_is_opened() {
    let mut allocator = Allocator::new(limits(10, 1_000));
    let scope = scope("q", None);
    open(&mut allocator, &scope, 1);
    let seat = seats(allocator.seat(&scope, &[1], DEADLINE))[0];
    allocator.finish(seat, 1, SeatEnd::Claimed);
    assert!(allocator.take_sealable().is_empty());
    allocator.retire(&scope, FlushReason::Full);
    assert_eq!(allocator.take_sealable()[0].counts.confirmed, 1);
    assert!(matches!(
        allocator.seat(&scope, &[1], DEADLINE),
        Seating::Open(_)
    ));
}

#[test]
fn only_keyed_batches_are_limited_in_number() {
    let mut allocator = Allocator::new(limits(10, 1_000));
    open(&mut allocator, &scope("q", Some("a")), 1);
    open(&mut allocator, &scope("q", Some("b")), 2);
    let third = allocator.seat(&scope("q", Some("c")), &[1], DEADLINE);
    assert!(matches!(third, Seating::TooManyKeys { keys_max: 2 }));
    open(&mut allocator, &scope("q", None), 3);
    allocator.retire_past(CLOSES);
    assert!(matches!(
        allocator.seat(&scope("q", Some("c")), &[1], CLOSES),
        Seating::Open(_)
    ));
}

#[test]
fn a_claim_is_known_once_it_is_counted_and_until_its_batch_closes() {
    let mut allocator = Allocator::new(limits(2, 1_000));
    let scope = scope("q", None);
    let batch = open(&mut allocator, &scope, 1);
    let candidate = |message: &str, body: &str| Candidate {
        event_id: "e".parse().unwrap(),
        sqs_message_id: message.parse().unwrap(),
        body_hash: BodyHash::of(body.as_bytes()),
        body: body.into(),
        compressed: None,
        source: scope.source.clone(),
        sent_at: Timestamp::EPOCH,
        attributes: None,
        quota: None,
    };
    let first = candidate("m1", "b");
    let seat = seats(allocator.seat(&scope, &[1], DEADLINE))[0];
    let early = allocator.counts(batch).unwrap();
    allocator.finish(seat, 1, SeatEnd::Claimed);
    allocator.remember(seat, &first);
    allocator.counted(batch, early.version);
    assert_eq!(
        allocator.known(&scope, &first, DEADLINE),
        None,
        "the counts are older than the claim"
    );
    let counts = allocator.counts(batch).unwrap();
    assert_eq!(
        allocator.known(&scope, &first, DEADLINE),
        None,
        "the counts are not in the record yet"
    );
    allocator.counted(batch, counts.version);
    let known = |candidate: Candidate| allocator.known(&scope, &candidate, DEADLINE);
    assert_eq!(known(first.clone()), Some(ExistingClaim::Redelivered));
    assert_eq!(known(candidate("m2", "b")), Some(ExistingClaim::Duplicate));
    assert_eq!(known(candidate("m2", "c")), None);
    assert_eq!(allocator.known(&scope, &first, CLOSES), None);
    allocator.retire(&scope, FlushReason::Full);
    assert_eq!(allocator.known(&scope, &first, DEADLINE), None);
}

#[test]
fn a_batch_with_claims_and_no_attempt_in_flight_is_idle() {
    let mut allocator = Allocator::new(limits(10, 1_000));
    let scopes = [scope("q", None), scope("q", Some("a")), scope("r", None)];
    for (n, scope) in (1..).zip(&scopes) {
        open(&mut allocator, scope, n);
    }
    let source = &scopes[0].source;
    assert_eq!(allocator.idle(source, Timestamp::EPOCH), []);
    let seated: Vec<Seat> = scopes
        .iter()
        .flat_map(|scope| seats(allocator.seat(scope, &[1], DEADLINE)))
        .collect();
    allocator.finish(seated[1], 1, SeatEnd::Claimed);
    allocator.finish(seated[2], 1, SeatEnd::Claimed);
    assert_eq!(
        allocator.idle(source, Timestamp::EPOCH),
        [scopes[1].clone()]
    );
    allocator.finish(seated[0], 1, SeatEnd::Free);
    assert_eq!(
        allocator.idle(source, Timestamp::EPOCH),
        [scopes[1].clone()]
    );
    allocator.retire(&scopes[1], FlushReason::Drained);
    assert_eq!(allocator.idle(source, Timestamp::EPOCH), []);
    let sealable = allocator.take_sealable();
    assert_eq!((sealable.len(), sealable[0].counts.confirmed), (1, 1));
}

#[test]
fn a_batch_is_flushed_for_the_reason_that_ended_it() {
    let scope = scope("q", None);
    let flushed = |end: &dyn Fn(&mut Allocator)| {
        let mut allocator = Allocator::new(limits(2, 10));
        open(&mut allocator, &scope, 1);
        let seat = seats(allocator.seat(&scope, &[6], DEADLINE))[0];
        allocator.finish(seat, 6, SeatEnd::Claimed);
        end(&mut allocator);
        allocator.take_sealable()[0].reason
    };
    let one_more = |allocator: &mut Allocator, bytes| {
        for seat in seats(allocator.seat(&scope, &[bytes], DEADLINE)) {
            allocator.finish(seat, bytes, SeatEnd::Claimed);
        }
    };
    let too_large = |allocator: &mut Allocator| {
        let seating = allocator.seat(&scope, &[5], DEADLINE);
        assert!(matches!(seating, Seating::Open(_)));
    };
    assert_eq!(flushed(&too_large), FlushReason::Bytes);
    assert_eq!(flushed(&|a| one_more(a, 4)), FlushReason::Full);
    assert_eq!(flushed(&|a| a.retire_past(CLOSES)), FlushReason::Window);
    let too_late = |allocator: &mut Allocator| {
        let seating = allocator.seat(&scope, &[1], CLOSES);
        assert!(matches!(seating, Seating::Open(_)));
    };
    assert_eq!(flushed(&too_late), FlushReason::Window);
    let drained = |allocator: &mut Allocator| allocator.retire(&scope, FlushReason::Drained);
    assert_eq!(flushed(&drained), FlushReason::Drained);
    let full_and_drained = |allocator: &mut Allocator| {
        let seat = seats(allocator.seat(&scope, &[1], DEADLINE))[0];
        allocator.retire(&scope, FlushReason::Drained);
        allocator.finish(seat, 1, SeatEnd::Claimed);
    };
    assert_eq!(flushed(&full_and_drained), FlushReason::Full);
}
