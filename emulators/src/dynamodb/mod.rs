//! DynamoDB on loopback, and what AWS's DynamoDB does to its callers, to be switched on as faults.
//!
//! The engine is that of the crate `dynoxide-rs`. The faults strike in a proxy in front of it (`crate::proxy`).
//!
//! | file | what |
//! |---|---|
//! | `server` | the server |
//! | `table` | how a table is defined |
//! | `capacity` | what a reply says that its request consumed |
//! | `options` | which faults are on, and of which tables |
//! | `faults` | the faults of the tables: `index` (its lag) and `throttles` |
//! | `requests` | what a request writes, or asks of the index |
//! | `throttles` | writes without units: `limits` (a second of them for each key and each table), `usage` (how much is used), `rehearsal` (what a write does to the keys of another table's indexes) |
//! | `reports` | how often each fault struck |

pub mod capacity;
mod faults;
mod index;
mod limits;
mod options;
mod rehearsal;
mod reports;
mod requests;
mod server;
mod table;
mod throttles;
mod usage;

pub use faults::TableFaults;
pub use options::{TableFaultOptions, WatchedTable};
pub use reports::{IndexLagReport, KeyLimitReport, TableLimitUsage};
pub use server::DynamoDb;
pub use table::{Attribute, Index, Key, Projection, Table};
