//! The switch of links.

use shared::config::{Variable, Word};

/// Whether parts have links. `file:`, `s3:` and `sftp:` read it, because they write manifests.
pub(crate) const PROOF: Variable<Word<bool>> = Variable {
    name: "PROOF",
    key: Some("delivery.proof"),
    value: Word {
        default: false,
        words: &[("on", true), ("off", false)],
    },
    meaning: "Whether the manifests of a source and a batch key form a chain, by which `batchctl prove` shows that an event was delivered \
              or was not. Parts of one source and batch key are then delivered one after the other. docs/proof.md has more.",
};
