//! Names of the attributes that no semantic convention has.

/// The batch that a step is about.
pub const BATCH_ID: &str = "batch_aggregator.batch.id";
/// The part of the batch that a step is about.
pub const PART: &str = "batch_aggregator.part";
/// The number of events in a step.
pub const ITEMS_COUNT: &str = "batch_aggregator.items_count";
/// Of an invocation: the number of messages that SQS must deliver again.
pub const FAILED_COUNT: &str = "batch_aggregator.failed_count";
/// Of an invocation: the number of spans that it follows from and that are not among its links, because there are too many.
pub const LINKS_DROPPED_COUNT: &str = "batch_aggregator.links_dropped_count";
