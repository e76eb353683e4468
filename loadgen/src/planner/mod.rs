//! A model of the service on AWS, which says what a burst would do there: `loadgen plan`.
//!
//! [`plan`] takes [`Settings`] and returns a [`Plan`]. It models cohorts of messages, invocations and batches, one event
//! after the other, and no single messages. `docs/planning.md` says what the model includes and what it leaves out.
//! The limits of AWS are in `protocol::limits::aws`; what was measured of our own code is in `calibration`.

mod agenda;
mod aggregator;
mod batches;
mod calibration;
mod engine;
mod environments;
mod limit;
mod mapping;
mod observer;
mod plan;
mod processor;
mod queue;
mod settings;
mod shape;
mod tables;
mod usage;
mod world;

pub use engine::plan;
pub use limit::Limit;
pub use plan::Plan;
pub use settings::{
    Batches, Bodies, Burst, Function, Input, Requests, STANDARD_RECEIVE_RATE, Scaling, Settings, Sink,
    Tables,
};
pub use shape::Shape;
pub use usage::Usage;
