//! The decisions of the service, as values in and values out.
//!
//! Nothing here reads a clock, an environment variable or a network, sleeps, or spawns: `now`, ids and jitter are
//! arguments. Types enforce the order of steps: a claim needs a [`Seat`](ids::Seat), a seat comes only from an open
//! batch, and a batch is open only after its record and its ticket were acknowledged.

pub mod allocator;
pub mod batch;
pub mod bodies;
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
pub mod seqs;
pub mod sequence;
pub mod sweep;
pub mod text;
pub mod time;
pub mod turns;
