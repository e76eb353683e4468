//! Notes in a batch record: what operators did to the batch.

use serde::Serialize;

use crate::limits::{
    NOTE_ACTION_BYTES_MAX, NOTE_BY_BYTES_MAX, NOTE_OVERHEAD_BYTES, NOTE_WHY_BYTES_MAX, NOTES_MAX,
};
use crate::text::cut;
use crate::time::Timestamp;

/// An action of an operator on a batch. No decision depends on it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct OperatorNote {
    pub at: Timestamp,
    /// Who did it.
    pub by: String,
    /// The action. A text, because a later version may have other actions.
    pub action: String,
    /// Why, in the operator's words.
    pub why: String,
}

impl OperatorNote {
    /// Returns a note. Texts that are too long for a record are cut.
    pub fn new(at: Timestamp, by: &str, action: &str, why: &str) -> OperatorNote {
        OperatorNote {
            at,
            by: cut(by, NOTE_BY_BYTES_MAX),
            action: cut(action, NOTE_ACTION_BYTES_MAX),
            why: cut(why, NOTE_WHY_BYTES_MAX),
        }
    }

    pub(super) fn bytes(&self) -> usize {
        NOTE_OVERHEAD_BYTES + self.by.len() + self.action.len() + self.why.len()
    }
}

/// Returns the notes of a record after `note` was added. Only the last [`NOTES_MAX`] are kept.
pub fn with_note(notes: &[OperatorNote], note: OperatorNote) -> Vec<OperatorNote> {
    let dropped = (notes.len() + 1).saturating_sub(NOTES_MAX);
    let kept = notes.iter().skip(dropped).cloned();
    kept.chain([note]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(number: u64) -> OperatorNote {
        OperatorNote::new(Timestamp::from_ms(number), "me", "retry", "")
    }

    #[test]
    fn only_the_last_notes_are_kept() {
        let notes = (0..20).fold(Vec::new(), |notes, number| with_note(&notes, note(number)));
        let times: Vec<u64> = notes.iter().map(|note| note.at.as_ms()).collect();
        assert_eq!(times, (12..20).collect::<Vec<_>>());
    }

    #[test]
    fn a_long_text_is_cut_between_two_characters() {
        let (by, action) = ("é".repeat(200), format!("x{}", "é".repeat(99)));
        let note = OperatorNote::new(Timestamp::EPOCH, &by, &action, &"x".repeat(999));
        assert_eq!((note.by.len(), note.why.len()), (96, 256));
        assert_eq!(note.action.len(), 63);
    }
}
