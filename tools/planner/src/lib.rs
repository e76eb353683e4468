//! Records, plans and reports of bursts: the [`Record`] that a run or a plan leaves, the [`plan()`] of a burst on AWS, and the
//! [`report`] that draws records as HTML.
//!
//! Plans and runs also share the [`Prices`] that both are charged, the defaults of [`local`], and the check that an output
//! can be written.
//!
//! [`plan`] takes [`Settings`] and returns a [`Plan`]. It models cohorts of messages, invocations and batches, one event
//! after the other, and no single messages. `docs/planning.md` says what the model includes and what it leaves out.
//! The limits of AWS are in `protocol::limits::aws`; what was measured of our own code is in `calibration`.

mod agenda;
mod aggregator;
mod assumptions;
mod batches;
mod calibration;
mod costs;
mod engine;
mod environments;
mod gathering;
mod intake;
mod limit;
#[cfg(test)]
mod limit_tests;
pub mod local;
mod log_index;
mod mapping;
mod minutes;
mod observer;
pub mod parameters;
mod plan;
mod plan_report;
mod prices;
mod processor;
pub mod published;
mod queue;
mod record;
pub mod report;
mod report_files;
mod reserving;
mod resolving;
pub mod search;
mod settings;
mod shape;
mod tables;
mod usage;
pub mod what_if;
mod world;
mod writable;

pub use assumptions::{Assumption, assumptions};
pub use costs::{costs, dollars, total};
pub use engine::plan;
pub use limit::Limit;
pub use minutes::minutes;
pub use plan::Plan;
pub use plan_report::{PlanReport, duration};
pub use prices::{MILLION, Price, Prices, PricesError, gb_months};
pub use record::{
    BatchSpan, Cost, Flushed, LatencySummary, Outcome, PartTime, Record, RecordError, RecordKind,
    SAMPLES_MAX, Sample, Setting, Throttle,
};
pub use report_files::{ReportFiles, ReportFilesError};
pub use settings::{
    Batches, Bodies, Burst, Function, Input, MESSAGES_MAX, NEAR_MESSAGES, Requests,
    STANDARD_RECEIVE_RATE, Scaling, Settings, Sink, Tables,
};
pub use shape::Shape;
pub use usage::Usage;
pub use writable::{NotWritable, check_directory, check_file};
