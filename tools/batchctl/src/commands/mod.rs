//! One file for each command, and what their outputs have in common.

pub mod approve;
#[cfg(feature = "full")]
pub mod columns;
#[cfg(feature = "full")]
pub mod config;
#[cfg(feature = "full")]
pub mod console;
pub mod dedup;
pub mod discard;
pub mod find;
pub mod forget;
pub mod list;
pub mod pause;
pub mod preview;
pub mod prime;
pub mod prove;
pub mod rebuild;
pub mod redrive;
pub mod rejects;
pub mod replay;
pub mod retry;
pub mod show;
pub mod tombstones;
pub mod views;
#[cfg(feature = "full")]
pub mod watch;
