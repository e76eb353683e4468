//! The batch-processor: a Lambda function that gets a ticket, delivers the batch to a sink, and releases its claims.
//!
//! To use a sink of your own, implement [`Sink`] and call [`run_with`]. There are two examples in `examples`: `program`
//! and `nightly_file`.
//!
//! The steps of one ticket:
//!
//! 1. `ticket_processor` takes the lease of the batch (`lease`) and starts a `batch_run`. Every later write to the record is
//!    conditional on the lease.
//! 2. `collector` reads the index (`index_snapshot`), then reads the claims in the index from the table.
//! 3. `batch_run` freezes the claims as a part. `delivery` fetches the bodies that are in S3 (`overflow_bodies`) and gives
//!    the part to the sink. If an operator set the batch aside, `quarantine` gets the events instead of the sink.
//! 4. `release` turns the delivered claims into tombstones.
//! 5. `batch_run` completes the batch, once it is proven or verified that every claim was delivered.
//! 6. [`Handler`] acknowledges the ticket, or gives it back (`outcome`).
//!
//! After a crash, the next ticket continues from the batch record. If there is no next ticket, the scheduled `sweep`
//! sends one.

#![warn(missing_docs)]

mod batch_run;
mod body_source;
mod chunk_reader;
mod collector;
mod config;
mod delivery;
mod event;
mod handler;
mod index_snapshot;
mod invocation;
mod lease;
mod outcome;
mod overflow_bodies;
mod quarantine;
mod release;
mod run;
mod sweep;
mod ticket_processor;

pub use config::Config;
pub use event::{Event, Response, UnknownEvent};
pub use handler::{Handler, HandlerError};
pub use invocation::Invocation;
pub use lambda_runtime::Error;
pub use run::{run, run_with};
pub use sinks;
pub use sinks::{Part, Receipt, Sink, SinkError, async_trait};
pub use sweep::Swept;
