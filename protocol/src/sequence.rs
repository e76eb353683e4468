//! Numbers of parts: 1, 2, 3 and so on for each source and batch key, without gaps and in the order of delivery.
//!
//! One item for each source and key has the last number and the part that holds it. A processor takes the next number for a
//! frozen part before the sink sees the part, and writes the number to the batch record, which it may do only with the lease.
//! The number that counts is the one in the record. So a part has the same number at every attempt, and a processor that
//! lost its lease cannot use the number that it took.
//!
//! With links ([`chain`](crate::chain)), a part's link comes from the sequence, and is written to the record together with the
//! number. The sequence has the hash of the last link that is known. Who takes the number of a part that has ended writes the hash
//! in that part's receipt to the sequence with the same write. So the link that a part gets depends on the sequence alone, and an
//! attempt that died before the record had the link loses nothing.
//!
//! While a part holds the last number, no other part gets one: part N+1 is never at the sink before part N. The holder
//! removes itself once its delivery is in the record, and before its batch is complete. Until then, the next part reads the
//! holder's record.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::batch::{BatchRecord, PartRecord, PartState};
use crate::chain::{ChainEnd, Link, hash_in};
use crate::ids::{BatchId, BatchKey, SourceArn};
use crate::time::Timestamp;

/// The parts that have numbers in common: those of a source and a batch key.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SequenceScope {
    pub source: SourceArn,
    pub batch_key: Option<BatchKey>,
}

impl SequenceScope {
    /// Returns the scope of a batch.
    pub fn of(record: &BatchRecord) -> SequenceScope {
        SequenceScope {
            source: record.source.clone(),
            batch_key: record.batch_key.clone(),
        }
    }
}

/// A part of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct PartId {
    pub batch: BatchId,
    pub part: usize,
}

impl fmt::Display for PartId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.batch, self.part)
    }
}

/// A text that is not the id of a part.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("part: got `{0}`, expected `<batch id>/<number>`")]
pub struct MalformedPartId(String);

impl From<PartId> for String {
    fn from(part: PartId) -> String {
        part.to_string()
    }
}

impl TryFrom<String> for PartId {
    type Error = MalformedPartId;

    fn try_from(text: String) -> Result<PartId, MalformedPartId> {
        let read = || {
            let (batch, part) = text.split_once('/')?;
            Some(PartId {
                batch: batch.parse().ok()?,
                part: part.parse().ok()?,
            })
        };
        read().ok_or(MalformedPartId(text))
    }
}

/// The numbers of one scope.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sequence {
    /// The last number that a part got; 0 if there was none.
    pub last: u64,
    /// The part that got it, until the part is known to be delivered or set aside.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holder: Option<PartId>,
    /// The last link whose hash is known. A version or a configuration without links moves `last`, and leaves this as it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chain: Option<ChainEnd>,
}

impl Sequence {
    /// Returns the link of the part that holds the last number, if it takes the number `now`.
    pub fn link(&self, now: Timestamp) -> Link {
        Link::after(self.chain, now)
    }
}

/// The resolution of the holder of the last number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HolderResolution {
    /// Its delivery has still to end.
    Waiting,
    /// It was delivered with the number. Its link, if the hash is known.
    Delivered(Option<ChainEnd>),
    /// It never was delivered with the number, which the next part gets.
    Unused,
}

/// Returns what became of `holder`, which took the number `last`. `record` is the record of its batch.
pub fn holder_resolution(
    holder: PartId,
    last: u64,
    record: Option<&BatchRecord>,
) -> HolderResolution {
    // The record has expired, long after its batch was complete. Hardly any part is set aside, and a gap can be explained: two
    // parts with one number cannot.
    let Some(record) = record else {
        return HolderResolution::Delivered(None);
    };
    let Some(part) = record.parts.get(holder.part) else {
        return match record.status {
            Some(_) => HolderResolution::Waiting,
            None => HolderResolution::Unused,
        };
    };
    match (&part.state, part.file_number == Some(last)) {
        (PartState::Delivered { receipt, .. }, true) => {
            HolderResolution::Delivered(chain_end(part, last, receipt))
        }
        (PartState::Frozen, true) => HolderResolution::Waiting,
        (PartState::Frozen, false) if part.file_number.is_none() => HolderResolution::Waiting,
        // A processor that had lost its lease took the number.
        (PartState::Frozen | PartState::Delivered { .. }, false) => HolderResolution::Unused,
        (PartState::SetAside, _) => HolderResolution::Unused,
    }
}

fn chain_end(part: &PartRecord, number: u64, receipt: &str) -> Option<ChainEnd> {
    Some(ChainEnd {
        number,
        taken_at: part.link?.taken_at,
        hash: hash_in(receipt)?,
    })
}

/// How a part gets its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NextNumber {
    /// An earlier attempt took it.
    Taken(u64),
    /// The sequence must be replaced by this one first, whose last number is the part's then.
    Take(Sequence),
    /// Another part must be delivered or set aside first.
    Wait(PartId),
}

/// Returns how `part` gets its number. `resolution` is what became of the holder, if there is one.
pub fn next_number(sequence: Sequence, part: PartId, resolution: HolderResolution) -> NextNumber {
    let take = |last, chain: Option<ChainEnd>| {
        NextNumber::Take(Sequence {
            last,
            holder: Some(part),
            chain: chain.or(sequence.chain),
        })
    };
    match (sequence.holder, resolution) {
        (None, _) => take(sequence.last + 1, None),
        (Some(holder), _) if holder == part => NextNumber::Taken(sequence.last),
        (Some(_), HolderResolution::Delivered(chain)) => take(sequence.last + 1, chain),
        (Some(_), HolderResolution::Unused) => take(sequence.last, None),
        (Some(holder), HolderResolution::Waiting) => NextNumber::Wait(holder),
    }
}

/// Returns the sequence once `part` was delivered or set aside, which `record` says. `None` if another part holds the last number, or
/// if this one has still to end.
pub fn without_holder(sequence: Sequence, part: PartId, record: &BatchRecord) -> Option<Sequence> {
    if sequence.holder != Some(part) {
        return None;
    }
    let (last, chain) = match holder_resolution(part, sequence.last, Some(record)) {
        HolderResolution::Waiting => return None,
        HolderResolution::Delivered(chain) => (sequence.last, chain),
        HolderResolution::Unused => (sequence.last.saturating_sub(1), None),
    };
    Some(Sequence {
        last,
        holder: None,
        chain: chain.or(sequence.chain),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chain::{ChainHash, with_hash};

    fn part(number: u128) -> PartId {
        PartId {
            batch: BatchId::new(uuid::Uuid::from_u128(number)),
            part: 0,
        }
    }

    fn sequence(last: u64, holder: Option<u128>) -> Sequence {
        Sequence {
            last,
            holder: holder.map(part),
            chain: None,
        }
    }

    /// Returns the record of batch 1, whose part 0 has this state and number.
    fn record(state: PartState, number: Option<u64>) -> BatchRecord {
        let (source, at) = ("arn:q".parse().unwrap(), Timestamp::EPOCH);
        let mut record = BatchRecord::open(part(1).batch, source, None, 10, at, at);
        let members = (0..3).collect();
        record.parts = vec![PartRecord {
            state,
            file_number: number,
            ..PartRecord::frozen(members, [0; 32], None)
        }];
        record
    }

    fn delivered() -> PartState {
        PartState::Delivered {
            receipt: "r".to_owned(),
            at: None,
        }
    }

    #[test]
    fn a_holder_holds_its_number_until_it_is_delivered_or_set_aside() {
        use HolderResolution::{Delivered, Unused, Waiting};
        let delivered_without = Delivered(None);
        for (state, number, expected) in [
            (PartState::Frozen, Some(7), Waiting),
            (PartState::Frozen, None, Waiting),
            (PartState::Frozen, Some(6), Unused),
            (delivered(), Some(7), delivered_without),
            (delivered(), Some(6), Unused),
            (delivered(), None, Unused),
            (PartState::SetAside, Some(7), Unused),
            (PartState::SetAside, None, Unused),
        ] {
            let record = record(state.clone(), number);
            let resolution = holder_resolution(part(1), 7, Some(&record));
            assert_eq!(resolution, expected, "{state:?} with {number:?}");
        }
        let mut record = record(PartState::Frozen, None);
        record.parts.clear();
        assert_eq!(holder_resolution(part(1), 7, Some(&record)), Waiting);
        record.status = None;
        assert_eq!(holder_resolution(part(1), 7, Some(&record)), Unused);
        assert_eq!(holder_resolution(part(1), 7, None), delivered_without);
    }

    #[test]
    fn a_part_gets_the_next_number_once_the_holder_has_ended() {
        use HolderResolution::{Delivered, Unused, Waiting};
        let next = |sequence, resolution| next_number(sequence, part(2), resolution);
        let taken = |last| NextNumber::Take(sequence(last, Some(2)));
        assert_eq!(next(Sequence::default(), Waiting), taken(1));
        assert_eq!(next(sequence(7, None), Waiting), taken(8));
        assert_eq!(next(sequence(7, Some(2)), Waiting), NextNumber::Taken(7));
        let held = sequence(7, Some(1));
        assert_eq!(next(held, Waiting), NextNumber::Wait(part(1)));
        assert_eq!(next(held, Delivered(None)), taken(8));
        assert_eq!(next(held, Unused), taken(7));
    }

    #[test]
    fn only_the_holder_gives_its_number_up() {
        let held = sequence(7, Some(1));
        let given_up = |record: BatchRecord| without_holder(held, part(1), &record);
        let ended = record(delivered(), Some(7));
        assert_eq!(given_up(ended.clone()), Some(sequence(7, None)));
        for unused in [
            record(PartState::SetAside, Some(7)),
            record(PartState::SetAside, None),
            // A processor that had lost its lease took the number.
            record(delivered(), Some(5)),
        ] {
            assert_eq!(given_up(unused), Some(sequence(6, None)));
        }
        assert_eq!(given_up(record(PartState::Frozen, Some(7))), None);
        assert_eq!(without_holder(held, part(2), &ended), None);
        assert_eq!(without_holder(sequence(7, None), part(1), &ended), None);
    }

    fn end(number: u64) -> ChainEnd {
        ChainEnd {
            number,
            taken_at: Timestamp::from_ms(number * 10),
            hash: ChainHash::new([number as u8; 32]),
        }
    }

    /// Returns the record of batch 1, whose part 0 was delivered as number 7 with a link, and has this receipt.
    fn delivered_with_link(receipt: String) -> BatchRecord {
        let mut record = record(PartState::Delivered { receipt, at: None }, Some(7));
        record.parts[0].link = Some(Link::after(Some(end(6)), Timestamp::from_ms(70)));
        record
    }

    #[test]
    fn the_hash_of_a_delivered_part_is_passed_on_whoever_gives_its_number_up() {
        let held = Sequence {
            chain: Some(end(6)),
            ..sequence(7, Some(1))
        };
        let record = delivered_with_link(with_hash("r", end(7).hash));
        let by_itself = without_holder(held, part(1), &record).unwrap();
        assert_eq!(by_itself.chain, Some(end(7)));
        // Its processor died before that: the next part reads the record.
        let resolution = holder_resolution(part(1), 7, Some(&record));
        assert_eq!(resolution, HolderResolution::Delivered(Some(end(7))));
        let by_the_next = next_number(held, part(2), resolution);
        let expected = Sequence {
            chain: Some(end(7)),
            ..sequence(8, Some(2))
        };
        assert_eq!(by_the_next, NextNumber::Take(expected));
        // The next part may die too, before its record has the link, and finds the same link again.
        let now = Timestamp::from_ms(90);
        assert_eq!(expected.link(now), Link::after(Some(end(7)), now));
        let after_itself = next_number(by_itself, part(2), HolderResolution::Waiting);
        assert_eq!(after_itself, NextNumber::Take(expected));
    }

    #[test]
    fn an_unknown_hash_leaves_the_last_known_one_and_so_a_gap() {
        let held = Sequence {
            chain: Some(end(6)),
            ..sequence(7, Some(1))
        };
        // A version without links delivered it, or its record has expired.
        for record in [Some(delivered_with_link("r".to_owned())), None] {
            let resolution = holder_resolution(part(1), 7, record.as_ref());
            let NextNumber::Take(next) = next_number(held, part(2), resolution) else {
                panic!("{resolution:?}");
            };
            let link = next.link(Timestamp::from_ms(90));
            assert_eq!((next.last, link.after, link.previous), (8, 6, end(6).hash));
        }
    }

    #[test]
    fn a_part_after_one_that_was_set_aside_has_the_same_link_but_for_its_time() {
        let held = Sequence {
            chain: Some(end(6)),
            ..sequence(7, Some(1))
        };
        let aside = record(PartState::SetAside, Some(7));
        let free = without_holder(held, part(1), &aside).unwrap();
        assert_eq!((free.last, free.chain), (6, Some(end(6))));
        for (sequence, resolution) in [
            (free, HolderResolution::Waiting),
            (held, HolderResolution::Unused),
        ] {
            let expected = Sequence {
                holder: Some(part(2)),
                ..held
            };
            let next = next_number(sequence, part(2), resolution);
            assert_eq!(next, NextNumber::Take(expected));
        }
    }

    #[test]
    fn the_id_of_a_part_reads_back() {
        let id = PartId {
            part: 12,
            ..part(1)
        };
        assert_eq!(PartId::try_from(String::from(id)), Ok(id));
        for wrong in ["", "a/0", &format!("{}/x", id.batch), &id.batch.to_string()] {
            PartId::try_from(wrong.to_owned()).unwrap_err();
        }
    }
}
