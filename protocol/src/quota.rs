//! Quotas: at most so many distinct events of a quota key and a period are delivered.
//!
//! One account for each quota key and period counts places. An aggregator reserves a place for each seat before it makes a claim
//! in the seat, so a claim without a place never exists. Once it is known whether the claim was made, the seat is finished: its
//! place is taken permanently, or given back.
//!
//! A place belongs to a seat, and a seat is used for one claim at most. So a write that is sent again, or a message that comes
//! again, changes nothing: a seat that is reserved already keeps its place, and a seat that is finished already is left alone.
//!
//! The place of a claim that was set aside or rejected stays taken. The lock item says which account has it ([`Place`]), and the claim
//! that replaces this item takes the place over: the account is not asked, so its counts stay as they are. One claim at most can
//! replace an item.
//!
//! At any time, the claims of the scope that can ever be delivered are at most as many as the places that are taken or reserved,
//! and these are at most as many as the quota has.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::batch::BatchRecord;
use crate::ids::{BatchId, BodyHash, IdError, QuotaKey, Seq};
use crate::seqs::SeqSet;
use crate::time::Timestamp;

/// The events that have places in common: those of a quota key and a period.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct QuotaScope {
    pub key: QuotaKey,
    /// The beginning of the period. With the key, it names the account.
    pub begins: Timestamp,
    /// The end of the period, which is no part of it.
    pub ends: Timestamp,
}

impl QuotaScope {
    /// Returns the hash that stands for the account of this scope in lock items.
    pub fn account(&self) -> AccountHash {
        let name = format!("{}/{}", self.begins.as_ms(), self.key);
        AccountHash(*BodyHash::of(name.as_bytes()).as_bytes())
    }
}

/// A hash of a quota key and the beginning of its period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AccountHash([u8; 16]);

/// The place that a claim has in the account of a quota, as the lock item says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    pub account: AccountHash,
    /// Whether the claim took the place over from an earlier claim of its event. Then the account knows nothing of its seat.
    pub is_taken_over: bool,
}

impl Place {
    /// Returns the form in lock items: the hash, and a byte more, 1, if the place was taken over.
    pub fn to_bytes(self) -> Vec<u8> {
        let mut bytes = self.account.0.to_vec();
        bytes.extend(self.is_taken_over.then_some(1));
        bytes
    }
}

impl TryFrom<&[u8]> for Place {
    type Error = IdError;

    fn try_from(bytes: &[u8]) -> Result<Place, IdError> {
        let (hash, is_taken_over) = match bytes {
            [hash @ .., 1] if hash.len() == 16 => (hash, true),
            hash => (hash, false),
        };
        let hash = <[u8; 16]>::try_from(hash).map_err(|_| IdError::Malformed {
            what: "place in a quota",
            value: format!("{} bytes", bytes.len()),
            form: "16 bytes, or 17 bytes with a last byte of 1",
        })?;
        Ok(Place {
            account: AccountHash(hash),
            is_taken_over,
        })
    }
}

/// The places of one scope.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct QuotaAccount {
    /// How many places are taken permanently: those of claims that certainly were made, or that may have been.
    pub taken: u64,
    /// The seats that have a place while it is not known whether their claims were made. No batch has an empty set.
    pub reserved: BTreeMap<BatchId, SeqSet>,
}

impl QuotaAccount {
    /// Returns the number of places that no other seat may get.
    pub fn places(&self) -> u64 {
        // An item that was edited by hand may have any number. It must not wrap to a small one.
        let reserved = self.reserved.values().map(SeqSet::len);
        reserved.fold(self.taken, u64::saturating_add)
    }

    /// Returns whether a quota of `max` places has none left. A seat that is given back later may free one.
    pub fn is_full(&self, max: u64) -> bool {
        self.places() >= max
    }

    /// Reserves a place for each seat of `batch`, the first seats first, until `max` places are taken or reserved. Returns the
    /// seats that have a place, also earlier ones. A seat that was finished must not be reserved again: it would
    /// get a second place.
    pub fn reserve(
        &mut self,
        batch: BatchId,
        seats: impl Iterator<Item = Seq>,
        max: u64,
    ) -> SeqSet {
        // A smaller quota may have been configured since places were reserved.
        let mut left = max.saturating_sub(self.places());
        let reserved = self.reserved.entry(batch).or_default();
        let mut with_place = SeqSet::new();
        for seq in seats {
            if !reserved.contains(seq) {
                if left == 0 {
                    continue;
                }
                left -= 1;
                reserved.insert(seq);
            }
            with_place.insert(seq);
        }
        self.without_empty(batch);
        with_place
    }

    /// Finishes reserved seats of `batch`: those in `claimed` take their places permanently, those in `free` give them back. A seat
    /// that is in both counts as claimed. A seat that is not reserved is left alone.
    pub fn finish(&mut self, batch: BatchId, claimed: &SeqSet, free: &SeqSet) {
        let reserved = self.reserved.entry(batch).or_default();
        let claims = reserved.intersection_len(claimed);
        self.taken = self.taken.saturating_add(claims);
        reserved.remove_from(claimed);
        reserved.remove_from(free);
        self.without_empty(batch);
    }

    /// Finishes all reserved seats of `batch` if it has ended. `record` is the record of the batch, read after the seats were.
    ///
    /// A seat of a complete batch takes its place if it is a member. The others give theirs back, because no claim of a complete
    /// batch is ever delivered later.
    pub fn finish_ended(&mut self, batch: BatchId, record: Option<&BatchRecord>) {
        let Some(mut rest) = self.reserved.get(&batch).cloned() else {
            return;
        };
        let Some(record) = record else {
            // The record has expired, long after the batch was complete, and which seats were members is not known any more. A
            // place that is taken without need delivers one event less; a place that is given back without need, one too many.
            return self.finish(batch, &rest, &SeqSet::new());
        };
        if record.status.is_some() {
            return;
        }
        let members = record.members();
        rest.remove_from(&members);
        self.finish(batch, &members, &rest);
    }

    fn without_empty(&mut self, batch: BatchId) {
        if self.reserved.get(&batch).is_some_and(SeqSet::is_empty) {
            self.reserved.remove(&batch);
        }
    }
}

#[cfg(test)]
mod tests;
