//! Compares every result of the allocator with a model that keeps each seat and computes every number anew.

use proptest::prelude::*;

use super::*;
use crate::batch::BatchRecord;
use crate::ids::{BodyHash, Seq};

const LIMITS: BatchLimits = BatchLimits {
    items_max: 4,
    bytes_max: 100,
    shards: 3,
    keys_max: 1,
    seats_max: 6,
    known_claims_max: 3,
};

/// A call of the allocator. A number selects one of the scopes, batches, attempts or claims that exist.
#[derive(Clone, Debug)]
enum Step {
    Seat(usize, Vec<u64>, Timestamp),
    Opened(usize, Timestamp),
    OpeningFailed(usize),
    Finish(usize, SeatEnd),
    Remember(usize, Candidate),
    Known(usize, Candidate, Timestamp),
    Count(usize),
    Counted(usize, u64),
    Retire(usize),
    RetirePast(Timestamp),
    TakeSealable,
}

/// A batch of the model: each seat with its bytes, and how its attempt ended, if it has.
#[derive(Clone, Debug)]
struct ModelBatch {
    scope: BatchScope,
    closes_at: Timestamp,
    seats: Vec<(u64, Option<SeatEnd>)>,
    known: Vec<(Candidate, u64)>,
    counts_version: u64,
    counted: u64,
    retired: Option<FlushReason>,
}

impl ModelBatch {
    fn count(&self, end: Option<SeatEnd>) -> u64 {
        self.seats.iter().filter(|(_, is)| *is == end).count() as u64
    }

    /// Returns the number and bytes of the seats whose attempt did not end as [`SeatEnd::Free`].
    fn taken(&self) -> (u64, u64) {
        let taken = self
            .seats
            .iter()
            .filter(|(_, end)| *end != Some(SeatEnd::Free));
        taken.fold((0, 0), |(places, sum), (bytes, _)| {
            (places + 1, sum + bytes)
        })
    }

    fn is_full(&self) -> bool {
        let (places, _) = self.taken();
        places - self.count(None) >= LIMITS.items_max
            || self.seats.len() >= LIMITS.seats_max as usize
    }

    fn counts(&mut self) -> BatchCounts {
        self.counts_version += 1;
        let settled = |end: &Option<SeatEnd>| matches!(end, Some(SeatEnd::Claimed | SeatEnd::Free));
        let seats = (0..).zip(&self.seats);
        let settled = seats
            .filter(|(_, (_, end))| settled(end))
            .map(|(seq, _)| seq);
        BatchCounts {
            confirmed: self.count(Some(SeatEnd::Claimed)),
            uncertain: self.count(Some(SeatEnd::Uncertain)),
            settled: settled.collect(),
            version: self.counts_version,
        }
    }
}

/// The current batch of each scope, `None` while it is being opened, and all batches.
#[derive(Debug, Default)]
struct Model {
    current: BTreeMap<BatchScope, Option<BatchId>>,
    batches: BTreeMap<BatchId, ModelBatch>,
}

/// A [`Seating`] that can be compared.
#[derive(Debug, PartialEq)]
enum Reply {
    Seats(Vec<Seat>),
    Open(BatchScope),
    Wait,
    TooManyKeys(usize),
}

impl From<Seating> for Reply {
    fn from(seating: Seating) -> Reply {
        match seating {
            Seating::Seats(seats) => Reply::Seats(seats),
            Seating::Open(opening) => Reply::Open(opening.scope),
            Seating::Wait => Reply::Wait,
            Seating::TooManyKeys { keys_max } => Reply::TooManyKeys(keys_max),
        }
    }
}

impl Model {
    fn seat(&mut self, scope: &BatchScope, sizes: &[u64], deadline: Timestamp) -> Reply {
        match self.current.get(scope) {
            Some(None) => return Reply::Wait,
            Some(Some(id)) => {
                let batch = self.batches.get_mut(id).unwrap();
                let mut reason = FlushReason::Window;
                if deadline < batch.closes_at && !batch.is_full() {
                    let mut seats = Vec::new();
                    for bytes in sizes {
                        let (places, sum) = batch.taken();
                        let seq = batch.seats.len() as Seq;
                        if places >= LIMITS.items_max
                            || seq >= LIMITS.seats_max
                            || (places > 0 && sum + bytes > LIMITS.bytes_max)
                        {
                            break;
                        }
                        batch.seats.push((*bytes, None));
                        seats.push(Seat {
                            batch: *id,
                            seq,
                            shards: LIMITS.shards,
                        });
                    }
                    if !seats.is_empty() {
                        return Reply::Seats(seats);
                    }
                    if batch.count(None) > 0 {
                        return Reply::Wait;
                    }
                    reason = FlushReason::Bytes;
                }
                batch.retired = Some(reason);
                self.current.remove(scope);
            }
            None => {}
        }
        let keyed = self
            .current
            .keys()
            .filter(|scope| scope.key.is_some())
            .count();
        if scope.key.is_some() && keyed >= LIMITS.keys_max {
            return Reply::TooManyKeys(LIMITS.keys_max);
        }
        self.current.insert(scope.clone(), None);
        Reply::Open(scope.clone())
    }

    fn known(
        &self,
        scope: &BatchScope,
        candidate: &Candidate,
        deadline: Timestamp,
    ) -> Option<ExistingClaim> {
        let batch = &self.batches[&(*self.current.get(scope)?)?];
        let mut known = batch.known.iter();
        let (claimed, counts) = known.find(|(known, _)| known.event_id == candidate.event_id)?;
        if deadline >= batch.closes_at || *counts > batch.counted {
            None
        } else if claimed.sqs_message_id == candidate.sqs_message_id {
            Some(ExistingClaim::Redelivered)
        } else {
            (claimed.body_hash == candidate.body_hash).then_some(ExistingClaim::Duplicate)
        }
    }

    fn retire(&mut self, reason: FlushReason, retires: impl Fn(&BatchScope, &ModelBatch) -> bool) {
        let batches = &mut self.batches;
        self.current.retain(|scope, current| {
            let batch = current.and_then(|id| batches.get_mut(&id));
            let Some(batch) = batch.filter(|batch| retires(scope, batch)) else {
                return true;
            };
            batch.retired = Some(reason);
            false
        });
    }

    fn idle(&self, source: &SourceArn) -> Vec<BatchScope> {
        let is_idle = |id: &BatchId| {
            let batch = &self.batches[id];
            batch.count(None) == 0 && batch.taken().0 > 0
        };
        let scopes = self.current.iter();
        scopes
            .filter(|(scope, id)| scope.source == *source && id.as_ref().is_some_and(is_idle))
            .map(|(scope, _)| scope.clone())
            .collect()
    }

    fn take_sealable(&mut self) -> Vec<Sealable> {
        let mut taken = Vec::new();
        self.batches.retain(|id, batch| {
            let done = (batch.retired.is_some() || batch.is_full()) && batch.count(None) == 0;
            if done {
                let retired = batch.retired.filter(|_| !batch.is_full());
                let (scope, counts) = (batch.scope.clone(), batch.counts());
                taken.push(Sealable {
                    id: *id,
                    scope,
                    closes_at: batch.closes_at,
                    counts,
                    reason: retired.unwrap_or(FlushReason::Full),
                });
            }
            !done
        });
        let batches = &self.batches;
        self.current
            .retain(|_, current| current.is_none_or(|id| batches.contains_key(&id)));
        taken
    }

    fn known_count(&self) -> usize {
        self.batches.values().map(|batch| batch.known.len()).sum()
    }
}

/// An allocator and its model, with the attempts in flight and the claims that may be remembered.
struct Both {
    allocator: Allocator,
    model: Model,
    attempts: Vec<(Seat, u64)>,
    claims: Vec<Seat>,
    ids: u128,
}

impl Both {
    fn new() -> Both {
        Both {
            allocator: Allocator::new(LIMITS),
            model: Model::default(),
            attempts: Vec::new(),
            claims: Vec::new(),
            ids: 0,
        }
    }

    fn step(&mut self, step: Step) -> Result<(), TestCaseError> {
        let scopes = scopes();
        let batches: Vec<BatchId> = self.model.batches.keys().copied().collect();
        let batch = |number: usize| batches.get(number % batches.len().max(1)).copied();
        match step {
            Step::Seat(scope, sizes, deadline) => {
                let reply = self.allocator.seat(&scopes[scope], &sizes, deadline).into();
                if let Reply::Seats(seats) = &reply {
                    self.attempts
                        .extend(seats.iter().copied().zip(sizes.iter().copied()));
                }
                prop_assert_eq!(reply, self.model.seat(&scopes[scope], &sizes, deadline));
            }
            Step::Opened(scope, closes_at) => self.opened(&scopes[scope], closes_at),
            Step::OpeningFailed(scope) => {
                let scope = &scopes[scope];
                self.allocator.opening_failed(scope);
                self.model
                    .current
                    .retain(|other, id| other != scope || id.is_some());
            }
            Step::Finish(number, end) => self.finish(number, end),
            Step::Remember(number, candidate) => self.remember(number, candidate),
            Step::Known(scope, candidate, deadline) => prop_assert_eq!(
                self.allocator.known(&scopes[scope], &candidate, deadline),
                self.model.known(&scopes[scope], &candidate, deadline)
            ),
            Step::Count(number) => {
                if let Some(id) = batch(number) {
                    let counts = self.model.batches.get_mut(&id).map(ModelBatch::counts);
                    prop_assert_eq!(self.allocator.counts(id), counts);
                }
            }
            Step::Counted(number, version) => {
                if let Some(id) = batch(number) {
                    let batch = self.model.batches.get_mut(&id).unwrap();
                    let version = version.min(batch.counts_version);
                    batch.counted = batch.counted.max(version);
                    self.allocator.counted(id, version);
                }
            }
            Step::Retire(scope) => {
                let reason = FlushReason::Drained;
                self.allocator.retire(&scopes[scope], reason);
                self.model
                    .retire(reason, |other, _| *other == scopes[scope]);
            }
            Step::RetirePast(deadline) => {
                self.allocator.retire_past(deadline);
                let is_over = |_: &BatchScope, batch: &ModelBatch| deadline >= batch.closes_at;
                self.model.retire(FlushReason::Window, is_over);
            }
            Step::TakeSealable => {
                prop_assert_eq!(self.allocator.take_sealable(), self.model.take_sealable());
            }
        }
        self.compare()
    }

    fn opened(&mut self, scope: &BatchScope, closes_at: Timestamp) {
        if self.model.current.get(scope) == Some(&None) {
            self.ids += 1;
            let id = BatchId::new(uuid::Uuid::from_u128(self.ids));
            let opening = Opening {
                scope: scope.clone(),
            };
            let (source, key) = (scope.source.clone(), scope.key.clone());
            let record = BatchRecord::open(id, source, key, 1, Timestamp::EPOCH, closes_at);
            let recorded = opening.record_acknowledged(&record);
            self.allocator.opened(recorded.ticket_acknowledged());
            self.model.current.insert(scope.clone(), Some(id));
            let batch = ModelBatch {
                scope: scope.clone(),
                closes_at,
                seats: Vec::new(),
                known: Vec::new(),
                counts_version: 0,
                counted: 0,
                retired: None,
            };
            self.model.batches.insert(id, batch);
        }
    }

    fn finish(&mut self, number: usize, end: SeatEnd) {
        if !self.attempts.is_empty() {
            let (seat, bytes) = self.attempts.swap_remove(number % self.attempts.len());
            self.allocator.finish(seat, bytes, end);
            let batch = self.model.batches.get_mut(&seat.batch).unwrap();
            batch.seats[seat.seq as usize].1 = Some(end);
            if end == SeatEnd::Claimed {
                self.claims.push(seat);
            }
        }
    }

    fn remember(&mut self, number: usize, candidate: Candidate) {
        if !self.claims.is_empty() {
            let seat = self.claims.swap_remove(number % self.claims.len());
            self.allocator.remember(seat, &candidate);
            let room = self.model.known_count() < LIMITS.known_claims_max;
            if let Some(batch) = self.model.batches.get_mut(&seat.batch).filter(|_| room) {
                let counts = batch.counts_version + 1;
                batch
                    .known
                    .retain(|(known, _)| known.event_id != candidate.event_id);
                batch.known.push((candidate, counts));
            }
        }
    }

    /// Compares everything that can be read without a change.
    fn compare(&self) -> Result<(), TestCaseError> {
        for scope in scopes() {
            prop_assert_eq!(
                self.allocator.idle(&scope.source, Timestamp::EPOCH),
                self.model.idle(&scope.source)
            );
        }
        prop_assert_eq!(self.allocator.batches.len(), self.model.batches.len());
        prop_assert_eq!(self.allocator.known_count, self.model.known_count());
        for (id, model) in &self.model.batches {
            let batch = &self.allocator.batches[id];
            let of_model = [
                model.taken().0,
                LIMITS.items_max,
                model.count(Some(SeatEnd::Claimed)) + model.count(Some(SeatEnd::Free)),
                model.count(Some(SeatEnd::Uncertain)),
                model.count(None),
                model.seats.len() as u64,
            ];
            let of_batch = [
                batch.taken(),
                batch.items_max(),
                batch.settled_len(),
                batch.uncertain(),
                batch.in_flight(),
                batch.seats_given(),
            ];
            prop_assert_eq!((batch.id(), of_batch), (*id, of_model));
        }
        Ok(())
    }
}

fn scopes() -> [BatchScope; 4] {
    [("q", None), ("q", Some("a")), ("q", Some("b")), ("r", None)].map(|(source, key)| BatchScope {
        period: None,
        source: source.parse().unwrap(),
        key: key.map(|key| key.parse().unwrap()),
    })
}

fn candidate(event: u8, message: u8, body: u8) -> Candidate {
    let body = format!("body {body}");
    Candidate {
        event_id: format!("e{event}").parse().unwrap(),
        sqs_message_id: format!("m{message}").parse().unwrap(),
        body_hash: BodyHash::of(body.as_bytes()),
        body: body.into(),
        compressed: None,
        source: "q".parse().unwrap(),
        sent_at: Timestamp::EPOCH,
        attributes: None,
        quota: None,
    }
}

fn steps() -> impl Strategy<Value = Step> {
    // Only four times, so that a deadline often equals the end of a batch's window.
    let time = || (0..4_u64).prop_map(Timestamp::from_ms);
    let scope = || 0..scopes().len();
    let candidates = || (0..2_u8, 0..2_u8, 0..2_u8).prop_map(|(e, m, b)| candidate(e, m, b));
    let ends = prop_oneof![
        4 => Just(SeatEnd::Claimed),
        3 => Just(SeatEnd::Free),
        1 => Just(SeatEnd::Uncertain),
    ];
    let sizes = prop::collection::vec(prop_oneof![Just(0_u64), 20..60_u64, Just(100)], 1..4);
    prop_oneof![
        8 => (scope(), sizes, time()).prop_map(|(scope, sizes, by)| Step::Seat(scope, sizes, by)),
        6 => (scope(), time()).prop_map(|(scope, closes_at)| Step::Opened(scope, closes_at)),
        1 => scope().prop_map(Step::OpeningFailed),
        12 => (any::<usize>(), ends).prop_map(|(number, end)| Step::Finish(number, end)),
        4 => (any::<usize>(), candidates()).prop_map(|(number, c)| Step::Remember(number, c)),
        4 => (scope(), candidates(), time()).prop_map(|(scope, c, by)| Step::Known(scope, c, by)),
        3 => any::<usize>().prop_map(Step::Count),
        3 => (any::<usize>(), 0..5_u64).prop_map(|(number, v)| Step::Counted(number, v)),
        1 => scope().prop_map(Step::Retire),
        1 => time().prop_map(Step::RetirePast),
        2 => Just(Step::TakeSealable),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3_000))]

    #[test]
    fn the_allocator_returns_what_a_model_of_every_seat_returns(
        steps in prop::collection::vec(steps(), 1..120),
    ) {
        let mut both = Both::new();
        for step in steps {
            both.step(step)?;
        }
    }
}
