//! AWS on loopback: SQS, S3, and a Lambda host with its event source mapping, for the tests of any program.
//!
//! They speak the services' own protocols, so that a program needs no more than another endpoint. The facts they follow
//! are written beside them, each with its source. Each can be told to fail as the service may.

mod counter;
mod draws;
pub mod files;
pub mod lambda;
pub mod loopback;
pub mod s3;
pub mod sqs;

pub use counter::Counter;
pub use draws::{Draws, NoPercent, Percent};
