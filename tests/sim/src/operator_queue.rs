//! The queues that an operator works with.

/// A queue of messages that an operator works with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OperatorQueue {
    /// The input queue of a source.
    Input(usize),
    /// Its dead-letter queue.
    DeadLetters(usize),
    Quarantine,
}
