//! What the record of a burst tells about a batch.

use loadgen::BatchSpan;
use protocol::ids::BatchId;

/// A batch, and its parts.
pub struct BatchLife {
    pub id: BatchId,
    pub span: BatchSpan,
    /// The parts, in the order of their numbers.
    pub parts: Vec<PartDelivery>,
}

/// A part, and when it was delivered.
#[derive(Clone, Copy, Debug)]
pub struct PartDelivery {
    pub events: u64,
    /// In seconds from the start of the run; `None` if it was not delivered.
    pub at_secs: Option<f64>,
}
