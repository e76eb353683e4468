//! Spans in a build without the cargo feature `full`: none.

use std::fmt::Display;

use protocol::ids::BatchId;

/// Spans that a ticket names: none. It has braces because callers use `Links::default()`, which clippy refuses for a struct without.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Links {}

impl Links {
    /// Returns none.
    pub fn of_present() -> Links {
        Links {}
    }
}

/// The spans that claimed events of open batches: none.
#[derive(Debug, Default)]
pub struct BatchLinks {}

impl BatchLinks {
    pub fn add_present(&self, _batches: impl Iterator<Item = BatchId>) {}

    pub fn of_ticket(&self, _batch: BatchId) -> Links {
        Links {}
    }

    pub fn forget(&self, _batch: BatchId) {}
}

/// A span that has not begun: none.
pub struct Span;

/// Returns a span that is none.
pub fn span(_name: &'static str) -> Span {
    Span
}

impl Span {
    pub fn sends(self) -> Span {
        self
    }

    pub fn calls(self) -> Span {
        self
    }

    pub fn text(self, _name: &'static str, _value: impl Display) -> Span {
        self
    }

    pub fn count(self, _name: &'static str, _count: usize) -> Span {
        self
    }

    /// Returns `work` itself.
    pub fn run<W: Future>(self, work: W) -> W {
        work
    }
}

/// Does nothing.
pub fn count(_name: &'static str, _count: u64) {}

/// Does nothing.
pub fn text(_name: &'static str, _value: impl Display) {}

/// Does nothing.
pub fn failed(_error_type: &'static str) {}

/// Returns `None`.
pub fn traceparent() -> Option<String> {
    None
}
