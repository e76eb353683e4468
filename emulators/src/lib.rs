//! AWS on loopback: SQS, S3, and a Lambda host with its event source mapping, for the tests of any program.
//!
//! They speak the services' own protocols, so that a program needs no more than another endpoint. The facts they follow
//! are written beside them, each with its source. Each can be told to fail as the service may.

mod counter;
mod draws;
pub mod files;
pub mod lambda;
pub mod loopback;
#[cfg(feature = "s3")]
pub mod s3;
pub mod sqs;

/// Most bytes of an object here, and of any request to a stand-in; S3 takes 5 GB at once.
pub const OBJECT_BYTES_MAX: usize = 1 << 30;

pub use counter::Counter;
pub use draws::{Draws, NoPercent, Percent};
