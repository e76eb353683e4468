//! Every retry loop of both functions: what is repeated, how long, and when it is given up.
//!
//! Each loop ends by the `stop_at` of its [`Budget`], the point of an invocation after which nothing new is started. A new
//! rule of retrying belongs here, so that handlers only say what they want done.

mod budget;
mod permits;
mod quarantine;
mod reads;
mod write_queue;

pub use budget::{Budget, Written, attempt_timeout, bounded, joined};
pub use permits::RequestPermits;
pub use quarantine::{Unsent, send_to_quarantine};
pub use reads::{read_events, read_items};
pub use write_queue::{BulkWriter, Keyed, SharedPaces, Writer};
