//! End-to-end tests: the deployed executables run as child processes behind the Runtime API, call the services over
//! HTTP with the SDK, and get their events from an event source mapping. Only AWS itself is replaced, by
//! `local::stack::Stack`.
//!
//! No test waits for a fixed time: every wait is for a condition and has a limit. When a test fails, it prints the log
//! of the functions. Each test has its own stack. The executables must have been built: `cargo xtask test` builds them,
//! `cargo test -p tests` alone does not.

mod answers;
mod approvals;
mod attributes;
mod bad_input;
mod batchctl;
mod bodies;
#[path = "../../tools/planner/tests/report/browser.rs"]
mod browser;
mod burst;
mod calls;
mod cold_starts;
mod command_line;
mod config_files;
mod configuration;
mod conflicts;
mod console;
mod consumers;
mod cost;
mod deployments;
mod documented;
mod duplicates;
mod events;
mod examples;
mod executables;
mod faults;
mod fixtures;
mod format_versions;
mod hours;
mod interrupts;
mod kills;
mod layouts;
mod loadgen_burst;
mod loads;
mod log;
mod log_lines;
mod metric_lines;
mod notices;
mod outages;
mod output;
mod parquet;
mod periods;
mod proofs;
mod quotas;
mod redeploys;
mod rig;
mod runbook;
mod sinks;
mod tables;
mod tickets;
mod traces;
