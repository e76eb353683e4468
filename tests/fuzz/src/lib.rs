//! What is fuzzed: everything that reads what others wrote. Each target takes any bytes and panics when a promise is
//! broken.
//!
//! The same functions run twice. `tests/replay.rs` is an ordinary test: it feeds them every seed and a few thousand
//! mutations of the seeds, on every build, with nothing to install. `cargo xtask fuzz` runs them under libFuzzer, guided
//! by coverage, for as long as one likes; that takes a tool and an instrumented build, and minutes to find anything.
//!
//! This is a member of the workspace, unlike most fuzz crates, so that it runs with the very dependencies that ship:
//! most of what it finds is in a parser of somebody else's.
//!
//! Inputs are texts: a seed can be read, written by hand and kept, and the dictionary gives the mutations their words.
//! One of [`event_id`] or [`batch_key`] is the variable's value, a line break, and the body. Inputs that begin with a
//! zero are choices instead, from which a text that is mostly right is grown (`grow.rs`).

mod config;
mod console;
mod event;
mod expressions;
mod grow;
mod ticket;

pub use self::console::console;
pub use event::event;
pub use expressions::{batch_key, event_id};
pub use ticket::ticket;

/// Takes any bytes; panics when they break a promise.
pub type Target = fn(&[u8]);

/// Every target with its name.
pub const TARGETS: [(&str, Target); 5] = [
    ("console", console),
    ("event", event),
    ("event_id", event_id),
    ("batch_key", batch_key),
    ("ticket", ticket),
];
