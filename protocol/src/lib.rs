//! The decisions of the service, as values in and values out.
//!
//! Nothing here reads a clock, an environment variable or a network, sleeps, or spawns: `now`, ids and jitter are
//! arguments.

pub mod answer;
pub mod batch;
pub mod bodies;
pub mod chain;
pub mod claim;
pub mod format_version;
pub mod gate;
pub mod ids;
pub mod invariants;
pub mod limits;
pub mod log;
pub mod pace;
pub mod pause;
pub mod period;
pub mod planted;
pub mod quota;
pub mod retention;
pub mod retry;
pub mod scope;
pub mod seqs;
pub mod sequence;
pub mod slot;
pub mod sweep;
pub mod text;
pub mod time;
pub mod turns;
