//! Runs the whole service on one machine: stand-ins for DynamoDB, SQS and S3, a Lambda host with event source mappings, and
//! the two functions in processes of their own. Sends a burst of messages through it, and audits what was delivered.
//!
//! The functions are the ones that are deployed: the same code, with the AWS SDK and the Runtime API. The stand-ins speak
//! AWS's wire protocols and follow its rules; each rule has its source beside it.

pub mod batch_life;
pub mod bodies;
pub mod burst;
pub mod cli;
pub mod config_file;
mod console;
pub mod countdown;
pub mod deploy;
pub mod drain;
pub mod dynamodb;
pub mod env_file;
pub mod faults;
pub mod function_logs;
pub mod given_back;
pub mod interrupt;
pub mod latency;
pub mod leases;
pub mod ledger;
mod locked;
pub mod notices;
pub mod options;
#[cfg(feature = "full")]
pub mod postgres;
pub mod receiver;
pub mod record;
pub mod recovery;
pub mod redeploys;
#[cfg(feature = "full")]
mod relay;
pub mod sampler;
pub mod services;
pub mod settings;
#[cfg(feature = "full")]
pub mod sftp;
pub mod sink;
#[cfg(feature = "full")]
pub mod sink_bucket;
pub mod stack;
pub mod summary;
pub mod template;
pub mod traces;
#[cfg(feature = "full")]
mod unprivileged;
