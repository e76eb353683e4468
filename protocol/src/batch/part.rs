//! A part of a batch, as its record has it.

use crate::chain::Link;
use crate::limits::PART_OVERHEAD_BYTES;
use crate::seqs::SeqSet;
use crate::time::Timestamp;

/// Whether a part has reached the sink.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PartState {
    /// The content of the part is fixed. The sink may or may not have it.
    Frozen,
    /// The sink has the part.
    Delivered {
        receipt: String,
        /// When the sink had the part. Records of earlier versions do not say.
        at: Option<Timestamp>,
    },
    /// The events of the part were sent to the quarantine. If an earlier attempt reached the sink, the sink has
    /// them as well.
    SetAside,
}

/// One numbered delivery of a batch to the sink.
#[derive(Clone, Debug, PartialEq)]
pub struct PartRecord {
    /// Number of events.
    pub count: u64,
    /// The seqs of the part; empty once they are in the record's `delivered` or `set_aside`.
    pub members: SeqSet,
    /// The content hash.
    pub hash: [u8; 32],
    pub state: PartState,
    /// Records of the part that are only in a reject list. Records of earlier versions do not say.
    pub rejected: u64,
    /// The sink fingerprint when the part was frozen; absent once the part is delivered or set aside.
    pub sink: Option<String>,
    /// The number of the part among those of its source and batch key, if its sink needs one.
    pub file_number: Option<u64>,
    /// The link of the part, if it took its number with `PROOF`.
    pub link: Option<Link>,
}

/// What stands before the fingerprint of a part that nobody has approved. No sink has such a fingerprint, so no version of the
/// batch-processor delivers the part before its fingerprint is [changed](super::BatchWrite::AcceptSink).
const UNAPPROVED: &str = "not approved: ";

/// What the error of a batch has that waits for approval. `batchctl` finds such batches in a list by it.
pub const WAITS_FOR_APPROVAL: &str = "waits for approval";

/// Returns the fingerprint of a part that is delivered once somebody has approved it.
pub fn unapproved(sink: &str) -> String {
    format!("{UNAPPROVED}{sink}")
}

/// Returns the fingerprint that a part has once it is approved, which may be cut; `None` if it need not be.
pub fn approved(sink: &str) -> Option<&str> {
    sink.strip_prefix(UNAPPROVED)
}

impl PartRecord {
    /// Returns whether the part was frozen to be approved, and nobody has.
    pub fn waits_for_approval(&self) -> bool {
        let sink = self.sink.as_deref();
        sink.is_some_and(|sink| approved(sink).is_some())
    }

    /// Returns a part that is about to be delivered.
    pub fn frozen(members: SeqSet, hash: [u8; 32], sink: Option<String>) -> PartRecord {
        PartRecord {
            count: members.len(),
            members,
            hash,
            state: PartState::Frozen,
            rejected: 0,
            sink,
            file_number: None,
            link: None,
        }
    }

    /// Returns how many events of the part the sink has, once the part is delivered.
    pub fn taken(&self) -> u64 {
        self.count.saturating_sub(self.rejected)
    }

    pub(super) fn bytes(&self) -> usize {
        let receipt = match &self.state {
            PartState::Delivered { receipt, .. } => receipt.len(),
            PartState::Frozen | PartState::SetAside => 0,
        };
        let sink = self.sink.as_ref().map_or(0, String::len);
        PART_OVERHEAD_BYTES + self.members.to_bytes().len() + receipt + sink
    }
}
