//! The stack that a burst goes to: where it is, what it does with the burst, and what it delivers.
//!
//! [`Stack`] says where queues, tables and sink are; it is read from the outputs of a CloudFormation stack or from a file of
//! variables. [`Connection`] has the clients. A [`Run`] sends the burst, looks at the input queue and at the batch records until
//! everything is delivered, and audits the delivered parts. All of this uses only what the service documents: names of
//! outputs, variables and attributes.

mod batches;
mod connection;
#[cfg(feature = "postgres")]
mod database;
mod description;
mod outputs;
mod parts;
mod queues;
mod run;
mod variables;
mod watch;
mod watch_error;

pub use connection::{Connection, ConnectionError, Lookup};
#[cfg(feature = "postgres")]
pub use database::DatabaseError;
pub use description::{Stack, StackError};
pub use outputs::describe_stack;
pub use parts::PartsError;
pub use run::{Ended, Run, RunError, RunProgress};
pub use variables::read_env_file;
pub use watch_error::WatchError;
