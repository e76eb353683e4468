//! The batch processor: woken by a ticket, it finds the batch, delivers it, and releases its claims.
//!
//! A sink of your own: implement [`Sink`], call [`run_with`], and everything else is as in the shipped executable. Two
//! are in `examples`: `program`, and `nightly_file`.
//!
//! One ticket, in order:
//!
//! 1. `ticket_processor` takes the lease of the batch (`lease`), through which every later step writes to its record, and
//!    starts a `batch_run`.
//! 2. `collector` reads the index (`index_snapshot`), and from the table the claims that the index shows.
//! 3. `batch_run` freezes them as a part, fetches bodies that do not fit their items (`overflow_bodies`), and has the sink
//!    take the part (`delivery`); of a batch that an operator sets aside, `quarantine` takes the events instead.
//! 4. `release` turns the delivered claims into tombstones.
//! 5. `batch_run` completes the batch, once it is proven that nothing of it is left.
//! 6. [`Handler`] acknowledges the ticket, or has it retried (`outcome`).
//!
//! After a crash, the next ticket goes on from what the batch record says; where there is no next ticket, the scheduled
//! `sweep` sends one.

#![warn(missing_docs)]

mod batch_run;
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
