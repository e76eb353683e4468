//! The batch-processor: a Lambda function that gets a ticket, delivers the batch to a sink, and releases its claims.
//!
//! To use a sink of your own, implement [`Sink`] and call [`run_with`]. There are two examples in `examples`: `program`
//! and `nightly_file`.
//!
//! The steps of one ticket:
//!
//! 1. `ticket_processor` takes the lease of the batch (`lease`) and starts a `batch_run`. Every later write to the record is
//!    conditional on the lease.
//! 2. `batch_run` asks the gate whether the batch may go on, before it reads any of it: pauses, hours, numbers (`sequences`) and the
//!    `rate`. A batch that must wait is put back.
//! 3. `body_source` finds the events: by the index and the lock table (`collector`, `index_snapshot`), or by the batch
//!    record and its objects (`object_reader`).
//! 4. `batch_run` freezes them as a part, as large as `part_rules` says. `delivery` fetches the bodies that are in S3
//!    (`overflow_bodies`) and gives the part to the sink. If the batch is set aside, `quarantine` gets the events instead of
//!    the sink.
//! 5. `release` turns the delivered claims into tombstones.
//! 6. `completion` completes the batch, once it is proven or verified that every claim was delivered.
//! 7. `notices` tells others that the batch is complete, or went into error, if `COMPLETION` is set.
//! 8. [`Handler`] acknowledges the ticket, or gives it back (`ticket_end`).
//!
//! An invocation without tickets is a `dry_run`. `deployment_check` is another function of the same executable.
//!
//! After a crash, the next ticket continues from the batch record. If there is no next ticket, the scheduled `sweep`
//! sends one.

#![warn(missing_docs)]

mod answers;
mod batch_run;
mod body_source;
mod collector;
mod completion;
mod config;
mod delivery;
mod deployment_check;
mod dry_run;
mod event;
mod handler;
mod index_snapshot;
mod invocation;
mod lease;
mod log_index;
#[doc(hidden)]
pub mod metrics;
mod notices;
mod object_reader;
mod overflow_bodies;
mod part_rules;
mod quarantine;
mod rate;
mod reading;
mod release;
mod run;
mod sequences;
mod sweep;
mod ticket_end;
mod ticket_processor;

pub use answers::AnswersRead;
pub use config::Config;
pub use event::{Event, Response, UnknownEvent};
pub use handler::{Handler, HandlerError};
pub use invocation::Invocation;
pub use lambda_runtime::Error;
pub use run::{run, run_with};
pub use sinks;
pub use sinks::{Part, Receipt, Sink, SinkError, async_trait};
pub use sweep::Swept;
