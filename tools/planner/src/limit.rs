//! What can hold a burst up.

use std::fmt;

/// What holds a burst up at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Limit {
    /// The producers: everything that was sent is taken.
    Producers,
    /// 120,000 messages in flight.
    InFlight,
    /// How many messages a second the gatherers receive.
    ReceiveRate,
    /// The mapping has not grown to its maximum yet.
    MappingRamp,
    /// The most concurrent invocations of the mapping.
    MappingConcurrency,
    /// 1,000 environments in ten seconds.
    EnvironmentStarts,
    /// The concurrency of the account.
    AccountConcurrency,
    /// Write units of the lock table.
    LockTable,
    /// Write units of its whole index.
    LockIndex,
    /// Write units of the index keys of a batch.
    IndexKeys,
    /// Write units of the record of a batch.
    BatchRecord,
    /// Write units of the batch table.
    BatchTable,
    /// Messages that failed wait for the visibility timeout.
    Visibility,
    /// Batches that are not full wait for their window.
    BatchWindow,
    /// Batches wait for a batch-processor.
    ProcessorConcurrency,
    /// The CPU and requests of the batch-processor.
    ProcessorTime,
    /// The system behind the sink.
    Sink,
}

/// Returns the latest of some times, each with its limit; the first of equal ones.
pub(super) fn latest(
    first: (f64, Limit),
    others: impl IntoIterator<Item = (f64, Limit)>,
) -> (f64, Limit) {
    let later = |latest: (f64, Limit), each: (f64, Limit)| match each.0 > latest.0 {
        true => each,
        false => latest,
    };
    others.into_iter().fold(first, later)
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Limit::Producers => "the rate of the producers",
            Limit::InFlight => "120,000 messages in flight",
            Limit::ReceiveRate => "the rate at which the mapping receives",
            Limit::MappingRamp => "the growth of the mapping",
            Limit::MappingConcurrency => "the aggregators at once and their CPU",
            Limit::EnvironmentStarts => "1,000 new environments in 10 s",
            Limit::AccountConcurrency => "the concurrency of the account",
            Limit::LockTable => "write units of the lock table",
            Limit::LockIndex => "write units of batchId-index",
            Limit::IndexKeys => "write units of a batch's index keys",
            Limit::BatchRecord => "write units of a batch's record",
            Limit::BatchTable => "write units of the batch table",
            Limit::Visibility => "the visibility timeout of failed messages",
            Limit::BatchWindow => "the window of batches that are not full",
            Limit::ProcessorConcurrency => "the batch-processors at once",
            Limit::ProcessorTime => "the time of a batch-processor",
            Limit::Sink => "the sink",
        })
    }
}
