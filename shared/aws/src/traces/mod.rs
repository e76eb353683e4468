//! The traces of a process: the span of each invocation, and the export of spans (feature `full`).
//!
//! The SDK's own processors export from a thread or a task of their own, at times of their own. Lambda may freeze the process
//! once a response is returned, so spans are exported before that; and the processors' way to wait for an export blocks the
//! only thread, which the export needs. So [`Traces`] keeps the spans and exports them itself.

#[cfg(feature = "full")]
mod http_client;
mod invocation;
#[cfg(not(feature = "full"))]
mod off;
#[cfg(feature = "full")]
mod process;
#[cfg(feature = "full")]
mod resource;

pub use invocation::{TracedInvocation, TracedMessages};
#[cfg(not(feature = "full"))]
pub use off::Traces;
#[cfg(feature = "full")]
pub use process::Traces;
