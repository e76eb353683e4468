use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use proptest::test_runner::TestCaseError;

use super::*;
use crate::batch::PartRecord;

fn batch(number: u128) -> BatchId {
    BatchId::new(uuid::Uuid::from_u128(number))
}

fn seats(seats: impl IntoIterator<Item = Seq>) -> SeqSet {
    seats.into_iter().collect()
}

/// Returns the record of a batch that is not complete.
fn record(number: u128) -> BatchRecord {
    let (source, at) = ("arn:q".parse().unwrap(), Timestamp::EPOCH);
    BatchRecord::open(batch(number), source, None, 10, at, at)
}

/// Returns the record of a complete batch with these members.
fn complete(number: u128, members: &SeqSet) -> BatchRecord {
    let mut record = record(number);
    record.status = None;
    record.delivered = members.clone();
    record
}

/// Returns an account with places for the seats 0 to 3 of batch 1.
fn reserved() -> QuotaAccount {
    let mut account = QuotaAccount::default();
    account.reserve(batch(1), 0..4, 10);
    account
}

#[test]
fn a_smaller_quota_takes_no_place_away() {
    let mut account = reserved();
    assert_eq!(account.reserve(batch(1), 2..9, 1), seats(2..4));
    assert_eq!((account.places(), account.is_full(1)), (4, true));
}

#[test]
fn a_batch_that_is_not_complete_finishes_nothing() {
    let mut account = reserved();
    let mut processing = record(1);
    processing.parts = vec![PartRecord::frozen(seats(0..2), [0; 32], None)];
    account.finish_ended(batch(1), Some(&processing));
    assert_eq!(account, reserved());
    account.finish_ended(batch(2), None);
    assert_eq!(account, reserved());
}

#[test]
fn members_of_a_complete_batch_take_their_places() {
    let mut ended = complete(1, &seats([0]));
    ended.set_aside = seats([1]);
    ended.parts = vec![PartRecord::frozen(seats([3, 9]), [0; 32], None)];
    let mut account = reserved();
    account.reserve(batch(2), 0..2, 10);
    account.finish_ended(batch(1), Some(&ended));
    account.finish_ended(batch(1), Some(&ended));
    assert_eq!(account.taken, 3);
    assert_eq!(account.reserved, BTreeMap::from([(batch(2), seats(0..2))]));
}

#[test]
fn a_place_in_a_lock_item_names_key_and_period() {
    let account = |key: &str, begins_ms, ends_ms| {
        let (begins, ends) = (Timestamp::from_ms(begins_ms), Timestamp::from_ms(ends_ms));
        let key = key.parse().unwrap();
        QuotaScope { key, begins, ends }.account()
    };
    // Only the beginning of a period is part of the name of its account.
    assert_eq!(account("k", 1, 2), account("k", 1, 9));
    for other in [account("k", 2, 3), account("l", 1, 2), account("1/k", 1, 2)] {
        assert_ne!(account("k", 1, 2), other);
    }
    // A hash may end with the byte that says that a place was taken over.
    for account in [account("k", 1, 2), AccountHash([1; 16])] {
        for is_taken_over in [false, true] {
            let place = Place {
                account,
                is_taken_over,
            };
            assert_eq!(Place::try_from(place.to_bytes().as_slice()), Ok(place));
        }
    }
    let taken_over = Place {
        account: account("k", 1, 2),
        is_taken_over: true,
    };
    let bytes = taken_over.to_bytes();
    for wrong in [&bytes[..15], &[&bytes[..], &[1]].concat(), &[0; 17], &[]] {
        let error = Place::try_from(wrong).unwrap_err().to_string();
        let got = format!("got `{} bytes`, expected 16 bytes, or 17", wrong.len());
        assert!(error.contains(&got), "{error}");
    }
}

/// The resolution of a seat that had a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Seated {
    Reserved,
    Claimed,
    Free,
}

#[derive(Clone, Debug)]
enum Operation {
    Reserve(Vec<Seq>),
    Finish {
        claimed: BTreeSet<Seq>,
        free: BTreeSet<Seq>,
    },
    Incomplete,
    Complete(BTreeSet<Seq>),
    Expired,
}

/// An operation of a batch, which is sent again or not.
fn steps() -> impl Strategy<Value = Vec<(u128, Operation, bool)>> {
    let set = || prop::collection::btree_set(0..8_u32, 0..6);
    let operation = prop_oneof![
        4 => prop::collection::vec(0..8_u32, 0..6).prop_map(Operation::Reserve),
        4 => (set(), set()).prop_map(|(claimed, free)| Operation::Finish { claimed, free }),
        1 => Just(Operation::Incomplete),
        1 => set().prop_map(Operation::Complete),
        1 => Just(Operation::Expired),
    ];
    prop::collection::vec((1..4_u128, operation, any::<bool>()), 0..40)
}

/// Every seat that ever had a place.
#[derive(Default)]
struct Model(BTreeMap<(u128, Seq), Seated>);

impl Model {
    fn count(&self, seated: Seated) -> u64 {
        self.0.values().filter(|one| **one == seated).count() as u64
    }

    fn places(&self) -> u64 {
        self.count(Seated::Reserved) + self.count(Seated::Claimed)
    }

    fn reserved(&self) -> BTreeMap<BatchId, SeqSet> {
        let mut reserved: BTreeMap<BatchId, SeqSet> = BTreeMap::new();
        for ((number, seq), seated) in &self.0 {
            if *seated == Seated::Reserved {
                reserved.entry(batch(*number)).or_default().insert(*seq);
            }
        }
        reserved
    }

    /// Changes each reserved seat of a batch.
    fn finish(&mut self, number: u128, resolution: impl Fn(Seq) -> Seated) {
        for ((of, seq), seated) in &mut self.0 {
            if *of == number && *seated == Seated::Reserved {
                *seated = resolution(*seq);
            }
        }
    }

    /// Does the same to the model and to the account.
    fn take(
        &mut self,
        account: &mut QuotaAccount,
        max: u64,
        (number, operation): (u128, &Operation),
    ) -> Result<(), TestCaseError> {
        use Seated::{Claimed, Free, Reserved};
        let id = batch(number);
        match operation {
            Operation::Reserve(asked) => {
                // A seat is used once.
                let unfinished = |seq: &Seq| {
                    let seated = self.0.get(&(number, *seq));
                    seated.is_none_or(|seated| *seated == Reserved)
                };
                let asked: Vec<Seq> = asked.iter().copied().filter(unfinished).collect();
                let mut expected = SeqSet::new();
                for seq in &asked {
                    let seat = (number, *seq);
                    if self.0.contains_key(&seat) || self.places() < max {
                        self.0.insert(seat, Reserved);
                        expected.insert(*seq);
                    }
                }
                prop_assert_eq!(account.reserve(id, asked.into_iter(), max), expected);
            }
            Operation::Finish { claimed, free } => {
                account.finish(id, &seats(claimed.clone()), &seats(free.clone()));
                self.finish(number, |seq| {
                    match (claimed.contains(&seq), free.contains(&seq)) {
                        (true, _) => Claimed,
                        (false, true) => Free,
                        (false, false) => Reserved,
                    }
                });
            }
            Operation::Incomplete => account.finish_ended(id, Some(&record(number))),
            Operation::Complete(members) => {
                let record = complete(number, &seats(members.clone()));
                account.finish_ended(id, Some(&record));
                self.finish(number, |seq| match members.contains(&seq) {
                    true => Claimed,
                    false => Free,
                });
            }
            Operation::Expired => {
                account.finish_ended(id, None);
                self.finish(number, |_| Claimed);
            }
        }
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn an_account_counts_each_claimed_seat_once_and_never_exceeds_its_quota(max in 0..14_u64, steps in steps()) {
        let (mut account, mut model) = (QuotaAccount::default(), Model::default());
        for (number, operation, again) in &steps {
            for _ in 0..=usize::from(*again) {
                model.take(&mut account, max, (*number, operation))?;
                prop_assert!(account.places() <= max);
                prop_assert_eq!(account.taken, model.count(Seated::Claimed));
                prop_assert_eq!(&account.reserved, &model.reserved());
                prop_assert_eq!(account.places(), model.places());
                prop_assert_eq!(account.is_full(max), model.places() >= max);
            }
        }
    }
}
