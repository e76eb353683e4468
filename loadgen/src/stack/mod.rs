//! The stack that a burst goes to: where it is, what it does with the burst, and what it delivers.
//!
//! [`Stack`] says where queues, tables and sink are; it is read from the outputs of a CloudFormation stack or from a file of
//! variables. [`Connection`] has the clients. [`watch`] looks at the input queue and at the batch records until everything is
//! delivered, and [`fetch_parts`] gets the delivered parts for the audit. All of this uses only what the service documents:
//! names of outputs, variables and attributes.

mod batches;
mod connection;
mod description;
mod outputs;
mod parts;
mod queues;
mod variables;
mod watch;

pub use connection::{Connection, Lookup};
pub use description::{Stack, StackError};
pub use outputs::describe_stack;
pub use parts::{Parts, PartsError, fetch_parts};
pub use variables::read_env_file;
pub use watch::{Seen, WatchError, WatchOptions, watch};
