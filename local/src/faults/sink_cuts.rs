//! Connections to the sink that are cut while the sink sends.

use emulators::{Counter, Percent, RandomStream};

use super::options::FaultOptions;
use super::report::SinkCutsReport;

/// Decides where connections are cut, and counts them.
#[derive(Debug)]
pub struct SinkCuts {
    percent: Percent,
    draws: RandomStream,
    connections: Counter,
    cut: Counter,
}

impl SinkCuts {
    /// The number of bytes for which it is drawn once whether the connection is cut in them.
    pub const SPAN_BYTES: u64 = 64 << 10;

    /// Returns the cuts of these options.
    pub fn new(options: &FaultOptions) -> SinkCuts {
        SinkCuts {
            percent: options.cut_connections,
            draws: RandomStream::new(options.seed, "cut connections to the sink"),
            connections: Counter::default(),
            cut: Counter::default(),
        }
    }

    /// Returns after how many of the next [`SPAN_BYTES`](Self::SPAN_BYTES) a connection is cut, if it is.
    pub(crate) fn next(&self) -> Option<u64> {
        let span = u32::try_from(Self::SPAN_BYTES).expect("a span is short");
        self.draws
            .happens(self.percent)
            .then(|| u64::from(self.draws.below(span)))
    }

    /// Counts a connection.
    pub(crate) fn connected(&self) {
        self.connections.add(1);
    }

    /// Counts a connection that was cut.
    pub(crate) fn cut(&self) {
        self.cut.add(1);
    }

    pub(super) fn report(&self) -> SinkCutsReport {
        SinkCutsReport {
            connections: self.connections.get(),
            cut: self.cut.get(),
        }
    }
}
