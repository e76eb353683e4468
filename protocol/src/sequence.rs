//! Numbers of parts: 1, 2, 3 and so on for each source and batch key, without gaps and in the order of delivery.
//!
//! One item for each source and key has the last number and the part that holds it. A processor takes the next number for a
//! frozen part before the sink sees the part, and writes the number to the batch record, which it may do only with the lease.
//! The number that counts is the one in the record. So a part has the same number at every attempt, and a processor that
//! lost its lease cannot use the number that it took.
//!
//! While a part holds the last number, no other part gets one: part N+1 is never at the sink before part N. The holder
//! removes itself once its delivery is in the record, and before its batch is complete. Until then, the next part reads the
//! holder's record.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::batch::{BatchRecord, PartState};
use crate::ids::{BatchId, BatchKey, SourceArn};

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
}

/// The resolution of the holder of the last number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HolderResolution {
    /// Its delivery has still to end.
    Waiting,
    /// It was delivered with the number.
    Delivered,
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
        return HolderResolution::Delivered;
    };
    let Some(part) = record.parts.get(holder.part) else {
        return match record.status {
            Some(_) => HolderResolution::Waiting,
            None => HolderResolution::Unused,
        };
    };
    match (&part.state, part.file_number == Some(last)) {
        (PartState::Delivered { .. }, true) => HolderResolution::Delivered,
        (PartState::Frozen, true) => HolderResolution::Waiting,
        (PartState::Frozen, false) if part.file_number.is_none() => HolderResolution::Waiting,
        // A processor that had lost its lease took the number.
        (PartState::Frozen | PartState::Delivered { .. }, false) => HolderResolution::Unused,
        (PartState::SetAside, _) => HolderResolution::Unused,
    }
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
    let take = |last| {
        NextNumber::Take(Sequence {
            last,
            holder: Some(part),
        })
    };
    match (sequence.holder, resolution) {
        (None, _) => take(sequence.last + 1),
        (Some(holder), _) if holder == part => NextNumber::Taken(sequence.last),
        (Some(_), HolderResolution::Delivered) => take(sequence.last + 1),
        (Some(_), HolderResolution::Unused) => take(sequence.last),
        (Some(holder), HolderResolution::Waiting) => NextNumber::Wait(holder),
    }
}

/// Returns the sequence once `part` was delivered or set aside, which `record` says. `None` if another part holds the last number, or
/// if this one has still to end.
pub fn without_holder(sequence: Sequence, part: PartId, record: &BatchRecord) -> Option<Sequence> {
    if sequence.holder != Some(part) {
        return None;
    }
    let last = match holder_resolution(part, sequence.last, Some(record)) {
        HolderResolution::Waiting => return None,
        HolderResolution::Delivered => sequence.last,
        HolderResolution::Unused => sequence.last.saturating_sub(1),
    };
    Some(Sequence { last, holder: None })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::PartRecord;
    use crate::time::Timestamp;

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
        for (state, number, expected) in [
            (PartState::Frozen, Some(7), Waiting),
            (PartState::Frozen, None, Waiting),
            (PartState::Frozen, Some(6), Unused),
            (delivered(), Some(7), Delivered),
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
        assert_eq!(holder_resolution(part(1), 7, None), Delivered);
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
        assert_eq!(next(held, Delivered), taken(8));
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
