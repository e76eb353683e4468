//! A proxy between a program and any of the services: it lets an observer see every request, and strikes requests with
//! faults.
//!
//! | file | what |
//! |---|---|
//! | `call` | requests and replies, as the proxy has them |
//! | `server` | the proxy itself |
//! | `strikes` | which faults strike the requests of one proxy |
//! | `credentials` | requests signed with credentials that have expired |
//! | `replies` | lost replies, and errors in place of replies |
//! | `upstream` | the service behind the proxy |
//! | `observer` | who is shown what passes |

mod call;
mod credentials;
mod observer;
mod replies;
mod server;
mod strikes;
mod upstream;

pub use call::{Call, Refused, Reply, Service};
pub use credentials::{Credentials, ExpiredCredentialsReport, access_key};
pub use observer::Observer;
pub use replies::{Fate, LostRepliesReport, RequestErrorsReport, RequestFaults, STALL};
pub use server::Proxy;
pub use strikes::{ServiceFaults, Strikes};
pub use upstream::Upstream;
