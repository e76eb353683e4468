//! The ports on AWS: DynamoDB, SQS, and the machine's own clock and randomness.
//!
//! Every method makes one attempt. [`Sdk`] switches the SDK's retries off, so that [`retry`](shared::retry) alone
//! decides on the schedule, the budget and the meaning of a lost reply. The adapters decide on the form of items and
//! expressions (each with a comment that says what it permits), how many items one request carries, which reply belongs
//! to which item, and what an error of a service means ([`PortError`](shared::ports::PortError)).
//!
//! Stored items are checked when they are read. An item that was edited by hand is refused with an error that names its
//! key and attribute; it never causes a panic.

mod attributes;
mod batch_get;
mod batch_items;
mod batch_writes;
mod documents;
mod dynamo_batch_catalogue;
mod dynamo_batch_store;
mod dynamo_lock_store;
mod dynamo_named_items;
mod dynamo_object_store;
mod errors;
#[cfg(feature = "full")]
mod event_bus;
mod init_error;
#[cfg(test)]
mod items_props;
mod lock_items;
mod logs;
#[cfg(not(feature = "full"))]
mod no_overflow_store;
mod notice_items;
mod parameter;
mod part_items;
mod partiql;
mod ports;
mod reservation_items;
#[cfg(feature = "full")]
mod s3_lifecycle;
#[cfg(feature = "full")]
mod s3_object_store;
#[cfg(feature = "full")]
mod s3_objects;
#[cfg(feature = "full")]
mod s3_overflow_store;
mod sdk;
mod settings;
mod single_writes;
mod sqs_attributes;
mod sqs_batch_queue;
mod sqs_notice_queue;
mod sqs_quarantine;
mod sqs_requests;
mod sqs_source_queues;
mod system;
mod traces;
mod update;

pub use documents::{read_document, read_with};
pub use dynamo_batch_catalogue::{BatchCatalogue, BatchSummary, DynamoBatchCatalogue, Summaries};
pub use dynamo_batch_store::{DynamoBatchStore, STATUS_INDEX};
pub use dynamo_lock_store::DynamoLockStore;
pub use dynamo_named_items::DynamoNamedItems;
pub use dynamo_object_store::DynamoObjectStore;
pub use errors::chain;
pub use init_error::started;
#[cfg(not(feature = "full"))]
pub use no_overflow_store::NoOverflowStore as AwsOverflowStore;
pub use ports::{aws_duplicates_queue, aws_notice_target, aws_ports, aws_source_queues};
pub use sdk::{CONNECT_TIMEOUT, POOL_IDLE_TIMEOUT, Sdk, http_request};
pub use settings::{open_settings, read_config};
pub use sqs_attributes::{from_sqs, to_sqs};
pub use sqs_batch_queue::SqsBatchQueue;
pub use sqs_notice_queue::SqsNoticeQueue;
pub use sqs_quarantine::SqsQuarantineQueue;
pub use sqs_source_queues::SqsSourceQueues;
pub use system::{StdoutMetricLog, SystemClock, SystemEntropy};
pub use traces::{TracedInvocation, TracedMessages, Traces};

#[cfg(feature = "full")]
pub use {
    event_bus::EventBus, s3_lifecycle::tell_overflow_retention, s3_object_store::S3ObjectStore,
    s3_overflow_store::S3OverflowStore as AwsOverflowStore,
};
