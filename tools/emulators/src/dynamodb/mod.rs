//! DynamoDB on loopback, and two kinds of faults that its clients must cope with: an index that lags behind its table, and
//! writes that are throttled.
//!
//! The engine is the crate `dynoxide-rs`. The faults are injected by a proxy in front of it ([`crate::proxy`]).
//!
//! | file | contents |
//! |---|---|
//! | `server` | the server |
//! | `table` | the definition of a table |
//! | `capacity` | the capacity units that a reply reports |
//! | `options` | which faults are on, and for which tables |
//! | `faults` | the faults of tables, injected into requests and replies |
//! | `watched_requests` | what a request writes to a table, or reads from its index |
//! | `index_history` | the entries of an index over time, for an index that lags |
//! | `throttles` | which writes are throttled, and the errors they get |
//! | `token_buckets` | the write units that each key and each table has left |
//! | `table_usage` | how much of the limit of a table is used |
//! | `dry_run` | which units a write takes, found out before the write |
//! | `reports` | how often each fault occurred |

pub mod capacity;
mod dry_run;
mod faults;
mod index_history;
mod options;
mod reports;
mod server;
mod table;
mod table_usage;
mod throttles;
mod token_buckets;
mod watched_requests;

pub use faults::TableFaults;
pub use options::{TableFaultOptions, WatchedTable};
pub use reports::{IndexLagReport, KeyLimitReport, TableLimitUsage};
pub use server::DynamoDb;
pub use table::{Attribute, Index, Key, Projection, Table};
