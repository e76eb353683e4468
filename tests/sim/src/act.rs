//! What happens outside the functions.

/// Something that happens outside the functions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// A message of the burst is sent.
    Send(usize),
    /// A mapping looks at its queue: those of the input queues first, then the batch queue's.
    Poll(usize),
    /// The deadline of an invocation.
    Deadline(u64),
    /// An environment that was frozen goes on.
    Thaw(u64),
    /// The schedule of the sweep strikes.
    Sweep,
    /// The table's TTL goes round.
    Expire,
    /// The faults stop.
    Calm,
    /// An operator looks at batches in error.
    Operator,
    /// A configuration is updated.
    Redeploy(usize),
}
