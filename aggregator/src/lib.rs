//! The aggregator: takes SQS events, claims each message into a batch, and answers which messages must come back.
//!
//! One invocation, in order: [`records`] reads every message of the [`event`], a bad one alone; [`claims`] seats and claims them in
//! rounds, opening and sealing batches as it goes ([`batches`], [`attempts`]), and at the end what is open of a source
//! that has nothing more ([`drained`]); the counts are written to the batch
//! records; only then is anything answered with success. What happens to be decided is decided in
//! [`protocol`]; here it is carried out.
//!
//! A message is acknowledged only after its claim stands in the lock table *and* the batch record, not complete,
//! has counted or witnessed it. No clock is part of that argument.

pub mod config;
pub mod event;
pub mod event_id;
pub mod paths;
pub mod records;

#[cfg(feature = "function")]
pub mod attempts;
#[cfg(feature = "function")]
pub mod batches;
#[cfg(feature = "function")]
pub mod claims;
#[cfg(feature = "function")]
pub mod current;
#[cfg(feature = "function")]
pub mod drained;
#[cfg(feature = "function")]
pub mod handler;
#[cfg(feature = "function")]
pub mod payload;
#[cfg(feature = "function")]
pub mod quarantine;
#[cfg(feature = "function")]
pub mod run;

pub use config::Config;
#[cfg(feature = "function")]
pub use handler::{Handler, Invocation};
#[cfg(feature = "function")]
pub use run::run;
