//! In-memory SQS standard queues that follow AWS's documentation, for one process.
//!
//! The same queues can be used in two ways: [`Sqs::serve`] speaks the AWS JSON 1.0 protocol, so that any SDK can use them,
//! and the methods of [`Sqs`] are for code in the same process, such as the event source mapping.
//!
//! | file | contents |
//! |---|---|
//! | `queue` | one queue, as pure functions with the time as an argument: decides when a message is visible, returned or deleted |
//! | `receipt` | receipt handles: the queue, the message and the delivery that each belongs to |
//! | `duplicate_deliveries` | the fault that delivers messages again while they are in flight |
//! | `message`, `message_attribute`, `characters` | messages, and the rules for their size, attributes and characters |
//! | `attributes` | the attributes of a queue: ranges, names in the protocol, redrive policy |
//! | `engine` | the set of queues, locks, long polling, moves to dead-letter queues; `engine/queues`: creates and changes queues |
//! | `move_task`, `engine/move_tasks` | the tasks that move messages out of a dead-letter queue |
//! | `http`, `operations`, `wire`, `batch` | the server, its operations, the JSON of requests and responses, the rules of batches |
//! | `requested_attributes` | which attributes of a message a receive returns |
//! | `billed_requests` | how many requests a payload is billed as |
//!
//! Every operation costs O(log n) or less (amortized), however many messages are visible, delayed or in flight.
//!
//! Deliberately absent: FIFO queues, encryption, policies and tags, each of which gets an error that names it, and the waits of
//! 60 s after `DeleteQueue` and `PurgeQueue`. Queue counts are exact. No message is delivered twice before its visibility
//! timeout ends, except with [`DuplicateDeliveries`].
//!
//! AWS's documentation leaves one case open: here, deleting with an outdated receipt handle succeeds and deletes nothing.
//! `docs/emulators.md` says what else was held against AWS.
//!
//! Source: <https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/Welcome.html>

mod attributes;
mod batch;
mod billed_requests;
mod characters;
mod duplicate_deliveries;
mod engine;
mod error;
mod http;
mod limits;
mod md5;
mod message;
mod message_attribute;
mod millis;
mod move_task;
mod operations;
mod queue;
mod receipt;
mod requested_attributes;
mod wire;

pub use attributes::{QueueAttributes, Redrive};
pub use billed_requests::{RequestCount, SQS_CHUNK_BYTES};
pub use duplicate_deliveries::DuplicateDeliveries;
pub use engine::Sqs;
pub use error::{AttributeProblem, SqsError};
pub use message::Message;
pub use message_attribute::MessageAttribute;
pub use queue::Depth;
