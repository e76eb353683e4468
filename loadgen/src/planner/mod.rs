//! A model of the service on AWS, which says what a burst would do there: `loadgen plan`.
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
mod limit;
#[cfg(test)]
mod limit_tests;
mod mapping;
mod observer;
pub mod parameters;
mod plan;
mod prices;
mod processor;
pub mod published;
mod queue;
mod report;
pub mod search;
mod settings;
mod shape;
mod tables;
mod usage;
pub mod what_if;
mod world;

pub use assumptions::{Assumption, assumptions};
pub use costs::{costs, total};
pub use engine::plan;
pub use limit::Limit;
pub use plan::Plan;
pub use prices::{Price, Prices, PricesError};
pub use report::{Report, duration};
pub use settings::{
    Batches, Bodies, Burst, Function, Input, Requests, STANDARD_RECEIVE_RATE, Scaling, Settings,
    Sink, Tables,
};
pub use shape::Shape;
pub use usage::Usage;
