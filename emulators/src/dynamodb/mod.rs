//! DynamoDB on loopback, with an engine that others have made (`dynoxide`).
//!
//! | file | what |
//! |---|---|
//! | `server` | the server |
//! | `table` | how a table is defined |
//! | `capacity` | what a reply says that its request consumed |

pub mod capacity;
mod server;
mod table;

pub use server::DynamoDb;
pub use table::{Attribute, Index, Key, Projection, Table};
