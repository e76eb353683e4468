//! What really happened to every message and every event: the model the checks look at.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use protocol::ids::{BatchId, BatchKey, BodyHash, EventId, Place, SourceArn, SqsMessageId};
use protocol::time::Timestamp;

/// A message of the burst.
#[derive(Clone, Debug)]
pub struct Sent {
    /// The message.
    pub sqs_message_id: SqsMessageId,
    /// Its event; `None` when it cannot be read.
    pub event_id: Option<EventId>,
    /// What makes its event the same event within a source; with a prefix, ids have the source before it.
    pub name: Option<String>,
    /// The queue it was sent to.
    pub source: SourceArn,
    /// Its batch key.
    pub batch_key: Option<BatchKey>,
    /// Its body.
    pub body: Arc<str>,
    /// Content hash of the body.
    pub body_hash: BodyHash,
    /// When it is sent.
    pub sent_at_ms: u64,
    /// Whether it cannot be read.
    pub bad: bool,
    /// When the queue deleted it first.
    pub acknowledged_at: Option<Timestamp>,
    /// Whether it is in the quarantine or among the dead letters.
    pub reported: bool,
}

/// One claim of an event, from its writing to its being forgotten.
#[derive(Clone, Debug)]
pub struct Occurrence {
    /// Who claimed it.
    pub sqs_message_id: SqsMessageId,
    /// With which content.
    pub body_hash: BodyHash,
    /// Where it sits.
    pub place: Place,
    /// When it was written.
    pub claimed_at: Timestamp,
    /// When the sink first had it.
    pub delivered_at: Option<Timestamp>,
    /// Until when it is remembered, once it was released.
    pub remembered_until: Option<Timestamp>,
    /// When it was released.
    pub released_at: Option<Timestamp>,
    /// Whether an operator had it set aside.
    pub set_aside: bool,
    /// Until when its message is remembered as set aside, once it was released so.
    pub aside_until: Option<Timestamp>,
}

/// A part as the sink was given it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivered {
    /// Hash over the items in order.
    pub hash: [u8; 32],
    /// How many items.
    pub count: usize,
    /// Hash of what it was written as.
    pub rendered: String,
    /// Where it went, and in what form, as the sink says.
    pub place: String,
}

/// A part on its way to the sink.
#[derive(Clone, Debug)]
pub struct Brought {
    /// Its idempotency key.
    pub key: String,
    /// Its batch.
    pub batch: BatchId,
    /// Its number.
    pub number: usize,
    /// Hash of what it is written as.
    pub rendered: String,
    /// Where it goes, and in what form, as the sink says.
    pub place: String,
    /// Hash over its items in order.
    pub hash: [u8; 32],
    /// Its items and where each sits.
    pub items: Vec<(EventId, Place)>,
    /// Whether they come in seq order.
    pub in_order: bool,
    /// Whether bodies, source and batch key are those that were sent.
    pub as_sent: bool,
}

/// Everything.
#[derive(Debug, Default)]
pub struct Ledger {
    /// The messages of the burst.
    pub messages: Vec<Sent>,
    /// Where each message is in that list.
    pub by_id: BTreeMap<SqsMessageId, usize>,
    /// The claims of each event, in order.
    pub occurrences: BTreeMap<EventId, Vec<Occurrence>>,
    /// The parts the sink has, by idempotency key.
    pub parts: BTreeMap<String, Delivered>,
    /// The parts for which an operator accepted another sink than they were frozen for.
    pub accepted: BTreeSet<String>,
    /// The messages whose claims were edited by hand.
    pub edited: BTreeSet<SqsMessageId>,
    /// When the sink was first given each event, by which message, and under which key.
    pub given: BTreeMap<EventId, Vec<Given>>,
    /// When a ticket of each batch was first accepted by the queue, and when it is visible.
    pub tickets: BTreeMap<BatchId, Vec<Accepted>>,
}

/// An event that the sink was given.
#[derive(Clone, Debug)]
pub struct Given {
    /// When.
    pub at: Timestamp,
    /// Whose claim.
    pub sqs_message_id: SqsMessageId,
    /// Under which key.
    pub key: String,
}

/// A ticket the batch queue accepted.
#[derive(Clone, Copy, Debug)]
pub struct Accepted {
    /// When.
    pub at: Timestamp,
    /// When it is visible, if the queue keeps its word.
    pub visible_at: Timestamp,
}

impl Ledger {
    /// The message of an id.
    pub fn message(&mut self, id: &SqsMessageId) -> Option<&mut Sent> {
        let index = *self.by_id.get(id)?;
        self.messages.get_mut(index)
    }

    /// The occurrence of an event at a place.
    pub fn occurrence(&mut self, event: &EventId, place: Place) -> Option<&mut Occurrence> {
        let occurrences = self.occurrences.get_mut(event)?;
        occurrences.iter_mut().rev().find(|one| one.place == place)
    }

    /// Whether the sink has what was claimed at a place.
    pub fn seat_delivered(&self, event: &EventId, place: Place) -> bool {
        self.occurrences.get(event).is_some_and(|all| {
            all.iter()
                .any(|one| one.place == place && one.delivered_at.is_some())
        })
    }

    /// Whether what was claimed at a place was set aside.
    pub fn seat_set_aside(&self, event: &EventId, place: Place) -> bool {
        let occurrences = self.occurrences.get(event).into_iter().flatten();
        occurrences
            .filter(|one| one.place == place)
            .any(|one| one.set_aside)
    }

    /// Whether the claim at a place was written after its message had been acknowledged.
    pub fn came_too_late(&self, event: &EventId, place: Place) -> bool {
        let occurrences = self.occurrences.get(event).into_iter().flatten();
        let mut here = occurrences.filter(|one| one.place == place);
        here.any(|one| {
            let sent = self.by_id.get(&one.sqs_message_id);
            let acknowledged_at = sent.and_then(|index| self.messages[*index].acknowledged_at);
            acknowledged_at.is_some_and(|at| at < one.claimed_at)
        })
    }

    /// How many claims reached the sink.
    pub fn delivered_count(&self) -> usize {
        self.occurrences
            .values()
            .flatten()
            .filter(|one| one.delivered_at.is_some())
            .count()
    }
}
