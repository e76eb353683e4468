//! Every retry loop of both functions.
//!
//! Each loop ends at the `stop_at` of its [`Budget`], after which an invocation starts no new request. A new retry rule
//! belongs here, so that handlers contain none.

mod budget;
mod objects;
mod permits;
mod reads;
mod sends;
mod slots;
mod write_queue;

pub use budget::{Budget, NoTime, Written, attempt_timeout, bounded, joined};
pub use objects::{NotStored, ObjectRules, read_object, read_range, store_object};
pub use permits::RequestPermits;
pub use reads::{List, read_events, read_items, read_lists};
pub use sends::{Unsent, send_tickets, send_to_quarantine};
pub use slots::Slots;
pub use write_queue::{BulkWriter, Keyed, SharedPaces, Writer};
