//! The aggregator: takes SQS events, claims the event of each message into a batch, and returns the ids of the messages
//! that SQS must deliver again.
//!
//! One invocation, in order:
//!
//! 1. [`records`] reads the messages. One that cannot be read goes to the quarantine.
//! 2. `claim_rounds` takes a seat for the first message of each event id and claims the event (`claim_writer`), in rounds. With the log,
//!    `intake` stores the messages and takes seats for all of them instead.
//! 3. Both take seats from `grants`, in the current batches that `scopes` finds and opens; say in the slot of each grant what became of
//!    its seats; and seal batches that are full, urgent or idle, or whose queue is empty (`drain_detector`).
//! 4. [`handler`] returns the messages that failed; `quarantine` sends unprocessable messages, `duplicates` reports
//!    dropped ones.
//!
//! [`protocol`] makes the decisions; this crate sends the requests that follow from them.
//!
//! A message whose event is claimed is acknowledged only if the claim is in the lock table *and* was counted in a slot of its
//! batch, or witnessed in a batch record that was not complete. No clock is part of that argument: see docs/protocol.md, "Why each promise holds".

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
pub mod current_batches;
#[cfg(feature = "function")]
mod drain_detector;
#[cfg(feature = "function")]
mod dry_run;
#[cfg(feature = "function")]
mod duplicates;
#[cfg(feature = "function")]
mod grants;
#[cfg(feature = "function")]
pub mod handler;
#[cfg(feature = "function")]
mod intake;
#[cfg(feature = "function")]
mod invocation;
#[cfg(feature = "function")]
pub mod metrics;
#[cfg(feature = "function")]
mod overflow_bodies;
#[cfg(feature = "function")]
mod quarantine;
#[cfg(feature = "function")]
mod remembered_claims;
#[cfg(feature = "function")]
pub mod run;
#[cfg(feature = "function")]
mod scopes;
#[cfg(feature = "function")]
mod witnesses;

pub use config::Config;
#[cfg(feature = "function")]
pub use handler::Handler;
#[cfg(feature = "function")]
pub use invocation::Invocation;
#[cfg(feature = "function")]
pub use run::run;
