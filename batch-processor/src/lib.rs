//! The batch processor: woken by a ticket, it finds the batch, delivers it, and releases its claims.
//!
//! A sink of your own: implement [`Sink`], call [`run_with`], and everything else is as in the shipped executable. Two
//! are in `examples`: `program`, and `nightly_file`.
//!
//! One ticket, in order: the lease ([`process`]); the batch's claims, as the index proposes them and the table
//! confirms them ([`collect`]); the part, frozen before the sink sees it; the sink; the release ([`release`]); and
//! the proof that nothing is left. A crash anywhere resumes from what the batch record says; what nobody resumes, the
//! scheduled [`sweep`] finds.

pub mod collect;
pub mod config;
pub mod event;
pub mod give_back;
pub mod handler;
pub mod process;
pub mod release;
pub mod run;
mod set_aside;
pub mod sweep;

pub use config::Config;
pub use event::{Event, Response};
pub use handler::{Handler, Invocation};
pub use lambda_runtime::Error;
pub use run::{run, run_with};
pub use sinks;
pub use sinks::{Part, Receipt, Sink, SinkError, async_trait};
