//! Sends bursts of messages, and checks that each message was delivered as often as it should be.
//!
//! A [`Workload`] computes every message of a burst from a few numbers. [`send`] sends the messages to a
//! queue, at the times of a [`Schedule`]. [`audit`] reads the delivered files and compares them with the workload, event by event and
//! byte by byte. Sender and auditor share no file: both compute the same workload. [`Deliveries`] is for
//! a receiver: it checks that all attempts at a key have the same content.
//!
//! The crate does not look inside the service and does not read its tables. The audit uses the
//! delivered files only, so a passed audit covers the whole path from the queue to the files.
//!
//! # Examples
//!
//! ```
//! use loadgen::{DuplicateRule, Duplicates, Manifests, Workload, WorkloadConfig, audit};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let config = WorkloadConfig { messages: 10, duplicates: Duplicates::any(20.0), ..WorkloadConfig::default() };
//! let workload = Workload::new(config)?;
//! assert_eq!((workload.unique(), workload.duplicates()), (8, 2));
//!
//! // In place of the service, this writes every event once, one per line, to part 0 of one batch.
//! let directory = tempfile::tempdir()?;
//! let batch = directory.path().join("0190163d-8694-739b-aea5-966c26f8ad91");
//! std::fs::create_dir(&batch)?;
//! let bodies: std::collections::BTreeSet<String> = (0..workload.len()).map(|index| workload.message(index).body).collect();
//! std::fs::write(batch.join("0.txt"), bodies.iter().map(|body| format!("{body}\n")).collect::<String>())?;
//!
//! let report = audit(directory.path(), &workload, DuplicateRule::Drop, Manifests::Optional)?;
//! assert!(report.ok());
//! # Ok(())
//! # }
//! ```

mod arrivals;
mod audit;
mod deliveries;
mod delivery_times;
mod latency;
mod mix;
mod part_name;
mod progress;
mod queue;
#[cfg(feature = "full")]
mod rows;
mod schedule;
mod send;
mod sent_times;
mod shape;
#[cfg(feature = "cli")]
pub mod stack;
mod stop_signals;
mod summary;
mod whole;
mod workload;

pub use arrivals::{Arrivals, ArrivalsError, LineError};
pub use audit::{
    AuditError, AuditReport, Batches, DuplicateRule, Example, Examples, Manifests, audit,
    audit_watched,
};
pub use deliveries::{Deliveries, DeliveryReport};
pub use delivery_times::DeliveryTimes;
pub use progress::Progress;
pub use queue::QueueAddress;
#[cfg(feature = "full")]
pub use rows::{Rows, RowsError};
pub use schedule::{Schedule, ScheduleError};
pub use send::{
    Halt, RateReport, ResumeFile, ResumeFileError, SendError, SendOptions, SendProgress,
    SendReport, SendState, Sent, TraceLog, TracedRequest, Unsent, WorstSecond, send, send_until,
};
pub use sent_times::SentTimes;
pub use shape::{PERIOD_MAX, RATE_MAX, Shape, ShapeError};
pub use stop_signals::{StopSignal, StopSignals};
pub use summary::{AuditLines, BurstSummary, Judged, Verdict};
pub use workload::{
    BODY_BYTES_MAX, Duplicates, DuplicatesError, MESSAGES_MAX, NEAR_MESSAGES, NEXT_MESSAGES,
    SKEW_MAX, Sizes, SizesError, Workload, WorkloadConfig, WorkloadError, WorkloadMessage,
};
