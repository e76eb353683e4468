//! A delivery, and what is wrong with it.

use crate::workload::Content;

/// A delivery of an event.
#[derive(Clone, Copy, Debug)]
pub(in crate::audit) struct Delivery {
    pub number: u64,
    pub content: Content,
    /// The number of the batch, from 1.
    pub batch: u32,
    /// A hash of the SQS message id, if the format has one.
    pub message_hash: Option<u64>,
}

/// What is wrong with a delivery, if anything.
#[derive(Debug, Default, PartialEq, Eq)]
pub(in crate::audit) struct Entry {
    /// Why the delivery is one too many, if it is.
    pub surplus: Option<Surplus>,
    /// Whether the event is in the same batch already. Known only of deliveries that are not one too many.
    pub mixed: bool,
}

impl Entry {
    pub fn surplus(surplus: Surplus) -> Self {
        Self {
            surplus: Some(surplus),
            mixed: false,
        }
    }
}

/// Why a delivery is one too many.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(in crate::audit) enum Surplus {
    #[error("delivered more often than expected")]
    Event,
    #[error("its SQS message was delivered before")]
    Message,
    #[error("delivered with this body more often than expected")]
    Body,
}
