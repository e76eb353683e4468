//! The command `batchctl`: looks at the batches, events and dead letters of a running stack, and acts on them.
//!
//! It uses what the functions use: the tables through the adapters of `shared`, and the rules of `protocol`. It adds no rule of
//! its own about what a claim or a batch means. It changes a batch only as an operator may: by a note in the batch record, on
//! condition that the batch is as it was read, and then by a ticket. docs/batchctl.md describes it.

mod change;
#[cfg(feature = "full")]
pub mod cli;
mod commands;
mod config_file;
pub mod console;
mod dead_letter;
mod event_ids;
mod event_state;
mod events;
pub mod failure;
#[cfg(test)]
mod fake_service;
mod filter;
pub mod interrupt;
mod listing;
mod lock_table;
mod log_index;
mod object_events;
pub mod of_stack;
pub mod outcome;
pub mod overview;
pub mod ports;
mod progress;
mod proofs;
mod receive;
mod reject_lists;
mod rejected;
mod replayed;
#[cfg(feature = "full")]
mod screen;
pub mod service;
mod sink_config;
mod table;
mod tickets;
mod times;
mod undelivered;
mod waiting;
