//! The whole service on one machine: embedded DynamoDB, SQS and S3, a Lambda host with its event source mappings, the two
//! functions in processes of their own, a burst through all of it, and the audit of what came out.
//!
//! What is real here: the functions (the same code, the same SDK, the same Runtime API as on AWS), the wire protocols,
//! and the rules of the mapping. What is not: AWS. The facts the stand-ins follow are written beside them.

pub mod burst;
pub mod cli;
pub mod deliveries;
pub mod deploy;
pub mod dynamodb;
pub mod faults;
pub mod function_logs;
pub mod given_back;
pub mod latency;
pub mod ledger;
pub mod options;
#[cfg(feature = "postgres")]
pub mod postgres;
pub mod receiver;
pub mod recovery;
pub mod redeploys;
pub mod schedule;
#[cfg(any(feature = "lambda", feature = "states"))]
pub mod services;
pub mod sink;
pub mod stack;
pub mod summary;
pub mod template;
