//! The code that both Lambda functions share around the [`protocol`], in three layers; imports go down only.
//!
//! 1. [`wire`], [`compression`], [`message_attributes`], [`traces`], and `expression` (feature `expressions`): the data.
//! 2. [`ports`]: what the protocol needs of the world, as traits; [`retry`] drives them with a budget of time.
//! 3. `memory`: the fakes (feature `test-support`); the adapters to AWS are a crate of their own. `metrics` (feature `metrics`) has
//!    the types of metrics and their log line.
//!
//! The invariants the protocol keeps are listed in `ARCHITECTURE.md`, each with the code that checks it.

pub mod body_object;
pub mod close_at;
pub mod compression;
pub mod config;
pub mod delivery_hours;
pub mod dry_run;
pub mod duplicate_report;
#[cfg(feature = "expressions")]
pub mod expression;
pub mod index;
pub mod index_run;
pub mod kept;
pub mod load;
pub mod locked;
pub mod message_attributes;
#[cfg(feature = "metrics")]
pub mod metrics;
pub mod named_items;
pub mod notice;
pub mod ports;
pub mod quarantine_attributes;
pub mod redaction;
pub mod retry;
pub mod sqs_text;
pub mod traces;
pub mod wire;
mod zone;

pub use zone::rfc3339;

#[cfg(any(test, feature = "test-support"))]
pub mod memory;
