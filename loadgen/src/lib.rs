//! Bursts that prove what became of them.
//!
//! A [`Plan`] says, from five numbers alone, what every message of a burst is. [`send`] puts a
//! plan into a queue; [`audit`] reads what came out at the far end and compares it with the plan,
//! event by event and byte by byte. Nothing is written down in between: sender and auditor agree
//! because both compute the same plan.
//!
//! What it does not do: look inside the service, or read its tables. The delivered files are the
//! only witness, so an audit that is satisfied says something about the whole path.

mod audit;
mod body;
mod plan;
mod progress;
mod queue;
mod send;

pub use audit::{
    AuditError, AuditReport, Batches, DuplicateRule, Example, Examples, Manifests, audit,
};
pub use plan::{BODY_BYTES_MAX, MESSAGES_MAX, NEAR_MESSAGES, Plan, PlanConfig, PlanError, Planned};
pub use progress::Progress;
pub use queue::QueueAddress;
pub use send::{SendError, SendOptions, SendReport, Unsent, send};
