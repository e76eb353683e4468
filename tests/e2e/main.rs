//! End to end: the executables that deploy, as child processes behind the Runtime API; real SDK calls over HTTP; the
//! mapping's batches, judgements and redeliveries. Only AWS itself is replaced, by `local::stack::Stack`.
//!
//! Nothing here waits for a time to pass: every wait is for a condition and has a hard cap, and what the functions
//! logged is shown when a test fails. Each test has a stack of its own. The executables must have been built:
//! `cargo xtask test` does so, `cargo test -p tests` alone does not.

mod bad_input;
mod bodies;
mod burst;
mod calls;
mod cold_starts;
mod command_line;
mod configuration;
mod conflicts;
mod consumers;
mod cost;
mod credentials;
mod duplicates;
mod events;
mod examples;
mod executables;
mod faults;
mod kills;
mod outages;
mod output;
mod redeploys;
mod rig;
mod sink;
mod sinks;
mod tables;
mod tickets;
