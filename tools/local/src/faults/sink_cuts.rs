//! Connections to the sink that are cut while the sink sends.

use emulators::{Counter, Percent, RandomStream};

use super::options::FaultOptions;
use super::report::SinkCutsReport;

/// Decides where connections are cut, and counts them.
#[derive(Debug)]
pub struct SinkCuts {
    percent: Percent,
    draws: RandomStream,
    pub(crate) connections: Counter,
    /// Connections that were cut.
    pub(crate) cut: Counter,
}

impl SinkCuts {
    /// The most bytes of a delivery before its connection is cut.
    pub const BYTES_MAX: u64 = 1 << Self::BITS_MAX;
    const BITS_MAX: u32 = 17;
    /// As many bytes as an SSH client sends before it logs in.
    const BITS_MIN: u32 = 10;

    pub fn new(options: &FaultOptions) -> SinkCuts {
        SinkCuts {
            percent: options.cut_connections,
            draws: RandomStream::new(options.seed, "cut connections to the sink"),
            connections: Counter::default(),
            cut: Counter::default(),
        }
    }

    /// Returns after how many bytes the connection of a delivery is cut, if it is. Small numbers are as likely as large ones,
    /// because parts may be small or large.
    pub fn next(&self) -> Option<u64> {
        if !self.draws.happens(self.percent) {
            return None;
        }
        let bits = Self::BITS_MIN + self.draws.below(Self::BITS_MAX - Self::BITS_MIN + 1);
        Some(u64::from(self.draws.below(1 << bits)))
    }

    pub(super) fn report(&self) -> SinkCutsReport {
        SinkCutsReport {
            connections: self.connections.get(),
            cut: self.cut.get(),
        }
    }
}
