//! Rejected records in a batch record. They have no set of their own, for which a record has no room, and which an earlier version
//! would not know. Their seqs are in `set_aside`, like those of events in the quarantine: neither was delivered, and another message
//! may claim either event. A seq that is set aside and in a delivered part is a rejected one.

use super::part::PartState;
use super::record::BatchRecord;
use crate::seqs::SeqSet;

/// The records of a delivered part that are only in a reject list.
#[derive(Clone, Debug, PartialEq)]
pub struct Rejects {
    /// Number of these records.
    pub count: u64,
    /// All seats that are set aside, earlier ones and those of these records.
    pub set_aside: SeqSet,
    /// `set_asides` as read.
    pub set_asides: u64,
}

impl BatchRecord {
    /// Returns the seqs whose records are only in a reject list. A part that an earlier version delivered has their number
    /// alone, in `rejected`; its seqs count as delivered.
    pub fn rejected(&self) -> SeqSet {
        let mut in_delivered_parts = self.delivered.clone();
        for part in &self.parts {
            if matches!(part.state, PartState::Delivered { .. }) {
                in_delivered_parts.extend_from(&part.members);
            }
        }
        self.set_aside.intersection(&in_delivered_parts)
    }

    /// Returns what the record takes over when part `index` is delivered without the records `rejected`; `None` if there are none.
    /// Seqs of other parts are left out.
    pub fn rejects_with(&self, index: usize, rejected: &SeqSet) -> Option<Rejects> {
        let rejected = self.parts.get(index)?.members.intersection(rejected);
        let mut set_aside = self.set_aside.clone();
        set_aside.extend_from(&rejected);
        (!rejected.is_empty()).then_some(Rejects {
            count: rejected.len(),
            set_aside,
            set_asides: self.set_asides,
        })
    }

    /// Returns the seqs whose events were sent to the quarantine.
    pub fn quarantined(&self) -> SeqSet {
        self.set_aside.difference(&self.rejected())
    }
}
