//! What both Lambda functions share around the [`protocol`], in three floors; imports go down only.
//!
//! 1. [`wire`], [`json`], [`compression`], and `expression` (feature `expressions`): the data.
//! 2. [`ports`]: what the protocol needs of the world, as traits; [`calls`] and [`writes`] drive them with a retry budget.
//! 3. `aws` and `memory`: the adapters (feature `aws`) and the fakes (feature `test-support`).
//!
//! The invariants the protocol keeps are listed in `ARCHITECTURE.md`, each with the code that checks it.

pub mod calls;
pub mod compression;
pub mod config;
#[cfg(feature = "expressions")]
pub mod expression;
pub mod json;
pub mod metrics;
pub mod ports;
pub mod quarantine;
pub mod wire;
pub mod writes;

#[cfg(feature = "aws")]
pub mod aws;
#[cfg(any(test, feature = "test-support"))]
pub mod memory;
