//! Happenings outside the functions.

/// A happening outside the functions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// A message of the burst is sent.
    Send(usize),
    /// A mapping polls its queue. The mappings of the input queues come first, then the batch queue's.
    Poll(usize),
    /// An invocation reaches its deadline.
    Deadline(u64),
    /// A frozen environment continues.
    Thaw(u64),
    /// The schedule invokes the sweep.
    Sweep,
    /// The TTL removes expired items.
    Expire,
    /// The manifest of the log is lost.
    LoseManifest,
    /// An operator makes the index of the log anew.
    Rebuild,
    /// An operator has an event of the log forgotten.
    Forget,
    /// An operator stops the input, and switches to the log or back once every batch is complete.
    Switch,
    /// What is deployed next knows what was delivered before: it is deployed, and the input starts again.
    Switched,
    /// After a switch to the log, an operator primes its index once more.
    PrimeAgain,
    /// The faults stop.
    Calm,
    /// An operator visits the batches in error.
    Operator,
    /// An operator pauses deliveries.
    Pause(usize),
    /// An operator ends a pause.
    Resume(usize),
    /// A configuration is updated.
    Redeploy(usize),
}
