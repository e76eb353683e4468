//! The stack that a burst goes to: where it is, what it does with the burst, and what it delivers.
//!
//! [`Stack`] says where queues, tables and sink are. The crate `stack` reads it from a CloudFormation stack or from a file of
//! variables, and makes the clients. A [`Run`] sends the burst, looks at the input queue and at the batch records until
//! everything is delivered, and audits the delivered parts. All of this uses only what the service documents: names of
//! outputs, variables and attributes.

mod batches;
mod database;
mod description;
mod parts;
mod queues;
mod run;
mod watch;
mod watch_error;

pub use database::DatabaseError;
pub use description::Stack;
pub use parts::PartsError;
pub use run::{Ended, Run, RunError, RunProgress};
pub use watch_error::WatchError;
