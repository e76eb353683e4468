//! The aggregator: takes SQS events, claims the event of each message into a batch, and returns the ids of the messages
//! that SQS must deliver again.
//!
//! One invocation, in order:
//!
//! 1. [`records`] reads the messages. One that cannot be read goes to the quarantine.
//! 2. `claim_rounds` takes a seat for the first message of each event id (from `shared_allocator`; `open_batches` opens
//!    batches where none has seats), a place of its quota (`quotas`), and claims the event (`claim_writer`), in rounds. It seals
//!    full batches on the way.
//! 3. `drain_detector` retires the open batches of a source whose queue is empty, so that they are sealed.
//! 4. `open_batches` writes the counts of the claims to the batch records.
//! 5. [`handler`] returns the messages that failed; `quarantine` sends unprocessable messages, `duplicates` reports
//!    dropped ones.
//!
//! [`protocol`] makes the decisions; this crate sends the requests that follow from them.
//!
//! A message whose event is claimed is acknowledged only if the claim is in the lock table *and* was counted or witnessed in
//! a batch record that was not complete. No clock is part of that argument: see docs/protocol.md, "Why each promise holds".

pub mod config;
pub mod event;
pub mod event_id;
mod event_time;
pub mod quota;
pub mod records;

#[cfg(feature = "function")]
mod claim_attempt;
#[cfg(feature = "function")]
mod claim_log;
#[cfg(feature = "function")]
mod claim_rounds;
#[cfg(feature = "function")]
mod claim_writer;
#[cfg(feature = "function")]
mod complete_records;
#[cfg(feature = "function")]
mod drain_detector;
#[cfg(feature = "function")]
mod dry_run;
#[cfg(feature = "function")]
mod duplicates;
#[cfg(feature = "function")]
pub mod handler;
#[cfg(feature = "function")]
mod intake;
#[cfg(feature = "function")]
mod invocation;
#[cfg(feature = "function")]
pub mod metrics;
#[cfg(feature = "function")]
mod open_batches;
#[cfg(feature = "function")]
mod overflow_bodies;
#[cfg(feature = "function")]
mod quarantine;
#[cfg(feature = "function")]
mod quotas;
#[cfg(feature = "function")]
pub mod run;
#[cfg(feature = "function")]
mod scopes;
#[cfg(feature = "function")]
pub mod shared_allocator;

pub use config::Config;
#[cfg(feature = "function")]
pub use handler::Handler;
#[cfg(feature = "function")]
pub use invocation::Invocation;
#[cfg(feature = "function")]
pub use run::run;
