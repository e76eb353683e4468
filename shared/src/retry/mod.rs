//! Every retry loop of both functions.
//!
//! Each loop ends at the `stop_at` of its [`Budget`], after which an invocation starts no new request. A new retry rule
//! belongs here, so that handlers contain none.

mod budget;
mod chunks;
mod permits;
mod quarantine;
mod reads;
mod write_queue;

pub use budget::{Budget, NoTime, Written, attempt_timeout, bounded, joined};
pub use chunks::read_chunk;
pub use permits::RequestPermits;
pub use quarantine::{Unsent, send_to_quarantine};
pub use reads::{read_events, read_items};
pub use write_queue::{BulkWriter, Keyed, SharedPaces, Writer};
