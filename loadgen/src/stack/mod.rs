//! The stack that a burst goes to: where it is, what it does with the burst, and what it delivers.
//!
//! [`Stack`] says where queues, tables and sink are. The crate `stack` reads the settings of a CloudFormation stack or of a file
//! of variables, makes the clients, and watches the burst on its way. A [`Run`] sends the burst, has it watched until everything
//! is delivered, and audits the delivered parts. All of this uses only what the service documents: names of outputs, variables
//! and attributes.

mod database;
mod description;
mod parts;
mod run;

pub use database::DatabaseError;
pub use description::Stack;
pub use parts::PartsError;
pub use run::{Ended, Run, RunError, RunProgress};
