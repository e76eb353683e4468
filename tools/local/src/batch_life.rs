//! What the record of a burst tells about a batch.

use planner::{BatchSpan, PartTime};
use protocol::ids::BatchId;

/// A batch, and its parts.
pub struct BatchLife {
    pub id: BatchId,
    pub span: BatchSpan,
    /// The parts, in the order of their numbers.
    pub parts: Vec<PartDelivery>,
}

impl BatchLife {
    /// Returns when each part was delivered, if that is known.
    pub fn part_times(&self) -> impl Iterator<Item = PartTime> {
        (0..).zip(&self.parts).filter_map(|(part, delivery)| {
            Some(PartTime {
                batch_id: self.id.to_string(),
                part,
                at_secs: delivery.at_secs?,
            })
        })
    }
}

#[derive(Clone, Copy, Debug)]
pub struct PartDelivery {
    pub events: u64,
    /// In seconds from the start of the run; `None` if it was not delivered.
    pub at_secs: Option<f64>,
}
