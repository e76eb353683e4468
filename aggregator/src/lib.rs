//! The aggregator: takes SQS events, claims each message into a batch, and answers which messages must come back.
//!
//! One invocation, in order: [`records`] reads every message, a bad one alone; [`claims`] seats and claims them in
//! rounds, opening and sealing batches as it goes ([`batches`], [`attempts`]); the counts are written to the batch
//! records; only then is anything answered with success. What happens to be decided is decided in
//! [`shared::protocol`]; here it is carried out.
//!
//! A message is acknowledged only after its claim stands in the lock table *and* the batch record, not complete,
//! has counted or witnessed it. No clock is part of that argument.

pub mod attempts;
pub mod batches;
pub mod claims;
pub mod config;
pub mod current;
pub mod event_id;
pub mod handler;
pub mod quarantine;
pub mod records;
pub mod run;

pub use config::Config;
pub use handler::{Handler, Invocation, Ports};
pub use run::run;
