//! The aggregator: takes SQS events, claims each message into a batch, and returns which messages SQS must deliver again.
//!
//! One invocation, in order:
//!
//! 1. [`records`] reads every message of the event; a bad one fails alone.
//! 2. `claim_rounds` seats the first message of each event id (`shared_allocator`, which opens batches through
//!    `open_batches`) and claims it (`claim_writer`), round by round; full batches are sealed on the way.
//! 3. `drain_detector` has the open batches of a source sealed that holds nothing more.
//! 4. `open_batches` writes the counts of the claims to the batch records.
//! 5. [`handler`] says which messages must come back; `quarantine` takes those that cannot be processed.
//!
//! What there is to decide is decided in [`protocol`]; here it is carried out.
//!
//! A message is acknowledged only after its claim stands in the lock table *and* the batch record, not complete,
//! has counted or witnessed it. No clock is part of that argument.

pub mod config;
pub mod event_id;
pub mod records;

#[cfg(feature = "function")]
mod claim_attempt;
#[cfg(feature = "function")]
mod claim_rounds;
#[cfg(feature = "function")]
mod claim_writer;
#[cfg(feature = "function")]
mod drain_detector;
#[cfg(feature = "function")]
pub mod handler;
#[cfg(feature = "function")]
mod invocation;
#[cfg(feature = "function")]
mod open_batches;
#[cfg(feature = "function")]
mod overflow_bodies;
#[cfg(feature = "function")]
mod quarantine;
#[cfg(feature = "function")]
pub mod run;
#[cfg(feature = "function")]
pub mod shared_allocator;

pub use config::Config;
#[cfg(feature = "function")]
pub use handler::Handler;
#[cfg(feature = "function")]
pub use invocation::Invocation;
#[cfg(feature = "function")]
pub use run::run;
