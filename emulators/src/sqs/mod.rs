//! An in-memory SQS standard queue, correct to AWS's contract, for one process and one machine.
//!
//! Two doors lead to the same queues: [`Sqs::serve`] speaks the AWS JSON 1.0 protocol, so that a real SDK works
//! against it, and the methods of [`Sqs`] serve an event source mapping in the same process.
//!
//! | file | what |
//! |---|---|
//! | `queue` | one queue, pure: every decision about a message's life, with `now` as an argument |
//! | `receipt` | receipt handles: which delivery of which message of which queue |
//! | `repeats` | deliveries repeated on purpose, to see what consumers make of them |
//! | `message`, `message_attribute`, `characters` | what may be sent: size, attributes, characters |
//! | `attributes` | a queue's settings: ranges, wire names, redrive policy |
//! | `engine` | the set of queues, locks, long polling, dead-letter moves; `queues`: their creation and settings |
//! | `http`, `operations`, `wire`, `batch` | the server, its operations, their shapes, the rules of batches |
//!
//! Every operation costs O(log n) or less (amortized), however many messages are visible, delayed or in flight.
//!
//! What it deliberately does not do: FIFO queues, encryption, policies, tags and message system attributes, which it
//! refuses by name, and the waits of 60 seconds after `DeleteQueue` and `PurgeQueue`, which would only slow a local
//! run. Queue counts are exact, and it delivers no message twice by itself, unless told to (`Repeats`).
//! Two choices where AWS's text leaves room: an outdated receipt handle deletes nothing and answers success, and a
//! message's receive count starts again in its dead-letter queue.
//!
//! Source: <https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/Welcome.html>

mod attributes;
mod batch;
mod characters;
mod engine;
mod error;
mod http;
mod limits;
mod md5;
mod message;
mod message_attribute;
mod millis;
mod operations;
mod queue;
mod receipt;
mod repeats;
mod requests;
mod wire;

pub use attributes::{QueueAttributes, Redrive};
pub use engine::Sqs;
pub use error::{AttributeFault, SqsError};
pub use message::Message;
pub use message_attribute::MessageAttribute;
pub use queue::Depth;
pub use repeats::Repeats;
pub use requests::{Requests, SQS_CHUNK_BYTES};
