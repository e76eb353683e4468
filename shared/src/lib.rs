//! What both Lambda functions are made of, in four floors; imports go down only.
//!
//! 1. [`protocol`]: the decisions, pure. It reads no clock, no environment, no network.
//! 2. [`ids`], [`time`], [`seqs`], [`limits`], [`retention`], [`wire`], [`json`],
//!    [`compression`], and `expression` (feature `expressions`): the data.
//! 3. [`ports`]: what the protocol needs of the world, as traits; [`calls`] and [`writes`] drive them with a retry budget.
//! 4. `aws` and `memory`: the adapters (feature `aws`) and the fakes (feature `test-support`).
//!
//! The invariants the protocol keeps are listed in `ARCHITECTURE.md`, each with the code that checks it.

pub mod calls;
pub mod compression;
pub mod config;
#[cfg(feature = "expressions")]
pub mod expression;
pub mod ids;
pub mod json;
pub mod limits;
pub mod metrics;
pub mod planted;
pub mod ports;
pub mod protocol;
pub mod quarantine;
pub mod retention;
pub mod seqs;
pub mod time;
pub mod wire;
pub mod writes;

#[cfg(feature = "aws")]
pub mod aws;
#[cfg(any(test, feature = "test-support"))]
pub mod memory;
