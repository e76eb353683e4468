//! Switches for bugs that the simulation plants to show that it catches them.
//!
//! [`SWITCHES`] names those of this crate. Every other planted bug is a patch in `tests/sim/bugs`, which puts in a switch with its name:
//! `cargo xtask sim --planted` applies the patches to a copy of the sources.
//!
//! Deployed functions are built without debug assertions. There [`planted`] is `false` at compile time, and every bug is compiled
//! away. With debug assertions, a thread switches on at most one bug.

use std::cell::Cell;

/// The bugs that have a switch in this crate: mistakes that a change of this code could make.
pub const SWITCHES: [&str; 9] = [
    // A batch completes although counts or witnesses were written since its record was read.
    "completion-unconditional",
    // One empty look completes a batch that is not proven.
    "completion-without-verify",
    // A tombstone past its window still makes another message a duplicate.
    "expired-tombstone-believed",
    // A message whose outcome is unknown is acknowledged.
    "failed-acknowledged",
    // A lease is taken while another processor holds it.
    "lease-taken-while-held",
    // Live claims carry the TTL of tombstones.
    "ttl-on-live-claim",
    // A batch takes a turn however far it is away.
    "turns-without-end",
    // A witness write overwrites witnesses that others wrote since the record was read.
    "witness-overwrites",
    // Writes to a batch record do not need the lease.
    "writes-without-lease",
];

thread_local! {
    static PLANTED: Cell<Option<&'static str>> = const { Cell::new(None) };
}

/// Returns whether this thread runs with the bug of this name.
#[inline]
pub fn planted(bug: &str) -> bool {
    cfg!(debug_assertions) && PLANTED.get() == Some(bug)
}

/// Switches on a bug for this thread, or none.
///
/// # Panics
/// This build has no debug assertions, and so no bugs.
pub fn plant(bug: Option<&'static str>) {
    if !cfg!(debug_assertions) {
        panic!("bugs can be planted only in a build with debug assertions");
    }
    PLANTED.set(bug);
}
