//! How often a burst with duplicates must be delivered.

/// What the service does with duplicates, and so how often it must deliver each event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DuplicateRule {
    /// `ON_DUPLICATE=drop`: every event must be delivered exactly once.
    Drop,
    /// `ON_DUPLICATE=requeue`: every message must be delivered exactly once, so an event as often as
    /// it was sent, but never twice in one batch.
    Requeue,
}
