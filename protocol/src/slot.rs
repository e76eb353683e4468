//! Slots: what a reservation brought into a batch.

use std::ops::Range;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::bodies::Bodies;
use crate::ids::Seq;
use crate::seqs::SeqSet;
use crate::time::Timestamp;

/// Where the lines of a slot are: in a load, which is what one invocation of an aggregator brought, for all its scopes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Frame {
    /// The name of the load.
    pub load: Uuid,
    /// Where it is: the `BODIES` of the environment that stored it, which may be others than those of the batch.
    pub bodies: Bodies,
    /// The bytes of the load that have the lines of the scope.
    pub bytes: Range<u64>,
    /// The lines among those of the frame that are in this slot. A load goes on into the next batch if one is full.
    pub lines: Range<u32>,
    /// The seq of the first of these lines.
    pub first_seq: Seq,
    /// When the load was stored, by the clock of the aggregator.
    pub stored_at: Timestamp,
    /// The hash of the bytes.
    pub hash: [u8; 16],
}

impl Frame {
    /// Returns the seqs of its lines.
    pub fn seqs(&self) -> impl Iterator<Item = Seq> + use<> {
        (self.first_seq..).take(self.lines.len())
    }
}

/// The value of a slot. It never changes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Slot {
    /// The writer of the reservation brought lines of the log.
    Filled(Frame),
    /// The writer of the reservation made claims.
    Claims(ClaimCounts),
    /// The batch was closed before the writer filled it. In the log, the seqs of its reservation have no lines; otherwise nobody has said
    /// which of them have claims.
    Hole,
}

/// What became of seats whose events were claimed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClaimCounts {
    /// Number of claims among the settled seqs.
    pub confirmed: u64,
    /// Seats whose attempt ended with a known result.
    pub settled: SeqSet,
    /// Other seats of the batch whose claims an acknowledgement relies on.
    pub witnessed: SeqSet,
}

impl ClaimCounts {
    /// Returns what the slots of a closed batch say of its claims.
    pub fn of(slots: &[Option<Slot>]) -> ClaimCounts {
        let mut all = ClaimCounts::default();
        for slot in slots.iter().flatten() {
            match slot {
                Slot::Claims(counts) => {
                    all.confirmed += counts.confirmed;
                    all.settled.extend_from(&counts.settled);
                    all.witnessed.extend_from(&counts.witnessed);
                }
                Slot::Filled(_) | Slot::Hole => {}
            }
        }
        all
    }
}

/// The result of an attempt to fill a slot, as its writer knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Put {
    /// The slot has the writer's value: its messages may be acknowledged.
    Stored,
    /// There is no value yet: put it again.
    Again,
    /// The slot has another value, and always will: reserve anew.
    Lost,
}

/// Returns what a consistent read of a slot says to the writer of `own`, after a put had no reply or found a value.
pub fn put_again(own: &Slot, found: Option<&Slot>) -> Put {
    match found {
        None => Put::Again,
        Some(found) if found == own => Put::Stored,
        Some(_) => Put::Lost,
    }
}

/// Returns the numbers of the slots of a closed batch that have no value yet, and so get a hole if they stay empty.
pub fn empty_slots(slots: &[Option<Slot>]) -> Vec<u32> {
    let numbered = (0..).zip(slots);
    let empty = numbered.filter(|(_, slot)| slot.is_none());
    empty.map(|(number, _)| number).collect()
}

/// Returns the frames of a closed batch in the order of their seqs, which is that of the slots: reservations are ordered.
pub fn frames_of(slots: &[Option<Slot>]) -> Vec<&Frame> {
    let frames = slots.iter().flatten().filter_map(|slot| match slot {
        Slot::Filled(frame) => Some(frame),
        Slot::Claims(_) | Slot::Hole => None,
    });
    frames.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bodies::ObjectPlace;

    fn frame(number: u128, first_seq: Seq, lines: u32) -> Frame {
        Frame {
            load: Uuid::from_u128(number),
            bodies: Bodies::Log(ObjectPlace::Table),
            bytes: 0..100,
            lines: 0..lines,
            first_seq,
            stored_at: Timestamp::from_ms(5),
            hash: [7; 16],
        }
    }

    #[test]
    fn a_writer_acknowledges_only_if_the_slot_has_its_own_value() {
        let own = Slot::Filled(frame(1, 0, 3));
        assert_eq!(put_again(&own, None), Put::Again);
        assert_eq!(put_again(&own, Some(&own)), Put::Stored);
        assert_eq!(put_again(&own, Some(&Slot::Hole)), Put::Lost);
        // Two invocations never share a slot, but a slot may be restored from a backup.
        let other = Slot::Filled(frame(2, 0, 3));
        assert_eq!(put_again(&own, Some(&other)), Put::Lost);
        let other_lines = Slot::Filled(frame(1, 0, 2));
        assert_eq!(put_again(&own, Some(&other_lines)), Put::Lost);
    }

    #[test]
    fn a_closed_batch_has_the_frames_of_its_filled_slots() {
        let filled = Slot::Filled(frame(1, 0, 3));
        let slots = [Some(filled), None, Some(Slot::Hole), None];
        assert_eq!(empty_slots(&slots), [1, 3]);
        let closed = slots.map(|slot| slot.or(Some(Slot::Hole)));
        let seqs = frames_of(&closed).into_iter().flat_map(Frame::seqs);
        assert!(seqs.eq(0..3));
        assert!(empty_slots(&closed).is_empty());
    }

    fn claims(confirmed: u64, settled: Range<Seq>, witnessed: &[Seq]) -> Slot {
        Slot::Claims(ClaimCounts {
            confirmed,
            settled: settled.collect(),
            witnessed: witnessed.iter().copied().collect(),
        })
    }

    #[test]
    fn a_closed_batch_counts_the_claims_of_all_its_slots() {
        let slots = [
            Some(claims(2, 0..3, &[7])),
            Some(Slot::Hole),
            None,
            Some(claims(1, 9..10, &[1])),
        ];
        let expected = claims(3, 0..3, &[1, 7]);
        let mut counts = ClaimCounts::of(&slots);
        assert!(counts.settled.contains(9));
        counts.settled.remove_from(&(9..10).collect());
        assert_eq!(Slot::Claims(counts), expected);
    }

    #[test]
    fn a_slot_reads_back_as_it_was_stored() {
        let claims = claims(2, 7..10, &[3]);
        for slot in [Slot::Hole, Slot::Filled(frame(1, 7, 3)), claims] {
            let json = serde_json::to_string(&slot).unwrap();
            assert_eq!(serde_json::from_str::<Slot>(&json).unwrap(), slot, "{json}");
        }
    }
}
