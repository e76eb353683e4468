//! What a burst with duplicates owes.

/// What the service does with a duplicate, and hence what it owes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DuplicateRule {
    /// Every event is delivered exactly once, however often it was sent.
    Drop,
    /// Every message is delivered exactly once: an event as often as it was sent, never twice in
    /// one batch. One SQS message never counts for two.
    Requeue,
}
