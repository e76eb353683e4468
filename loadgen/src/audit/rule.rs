//! How often a burst with duplicates must be delivered.

use clap::ValueEnum;

/// What the service does with duplicates, as its `ON_DUPLICATE` says, and so how often it must deliver each event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum DuplicateRule {
    /// Every event must be delivered once
    Drop,
    /// Every event must be delivered as often as it was sent, never twice in a batch
    Requeue,
}
