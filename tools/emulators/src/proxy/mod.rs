//! An HTTP proxy between a program and a service. It injects faults, and shows every request and reply to an observer.
//!
//! | file | contents |
//! |---|---|
//! | `server` | the proxy |
//! | `request` | requests and replies |
//! | `upstream` | the client of the service behind the proxy |
//! | `observer` | the trait that is shown requests and replies |
//! | `faults` | which faults one proxy injects |
//! | `request_faults` | lost replies, and errors in place of replies |
//! | `expiring_credentials` | errors for requests that are signed with expired credentials |
//!
//! Faults that depend on what a request does implement [`ServiceFaults`]; `crate::dynamodb` has those of DynamoDB tables.

mod expiring_credentials;
mod faults;
mod observer;
mod request;
mod request_faults;
mod server;
mod upstream;

pub use expiring_credentials::{ExpiredCredentialsReport, ExpiringCredentials, access_key};
pub use faults::{ProxyFaults, ServiceFaults};
pub use observer::Observer;
pub use request::{NoReply, Reply, Service, ServiceRequest};
pub use request_faults::{
    LostRepliesReport, ReplyOutcome, RequestErrorsReport, RequestFaults, STALL,
};
pub use server::Proxy;
pub use upstream::Upstream;
