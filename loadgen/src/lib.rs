//! Bursts that prove what became of them.
//!
//! A [`Plan`] says, from five numbers alone, what every message of a burst is. [`send`] puts a
//! plan into a queue; [`audit`] reads what came out at the far end and compares it with the plan,
//! event by event and byte by byte. Nothing is written down in between: sender and auditor agree
//! because both compute the same plan.
//!
//! What it does not do: look inside the service, or read its tables. The delivered files are the
//! only evidence, so an audit that is satisfied says something about the whole path.
//!
//! # Examples
//!
//! ```
//! use loadgen::{DuplicateRule, Manifests, Plan, PlanConfig, audit};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let config = PlanConfig { messages: 10, duplicates_percent: 20.0, ..PlanConfig::default() };
//! let plan = Plan::new(config)?;
//! assert_eq!((plan.unique(), plan.duplicates()), (8, 2));
//!
//! // This stands for the service: every event once, one a line, in part 0 of one batch.
//! let directory = tempfile::tempdir()?;
//! let batch = directory.path().join("0190163d-8694-739b-aea5-966c26f8ad91");
//! std::fs::create_dir(&batch)?;
//! let bodies: std::collections::BTreeSet<String> = (0..plan.len()).map(|index| plan.message(index).body).collect();
//! std::fs::write(batch.join("0.txt"), bodies.iter().map(|body| format!("{body}\n")).collect::<String>())?;
//!
//! let report = audit(directory.path(), &plan, DuplicateRule::Drop, Manifests::Optional)?;
//! assert!(report.ok());
//! # Ok(())
//! # }
//! ```

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
