//! The ledger: what really happened to every message and every event. The checks compare the service with it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use protocol::chain::{ChainHash, Link};
use protocol::ids::{BatchId, BatchKey, BodyHash, EventId, SeatKey, Seq, SourceArn, SqsMessageId};
use protocol::seqs::SeqSet;
use protocol::sequence::{PartId, SequenceScope};
use protocol::time::Timestamp;
use shared::message_attributes::MessageAttributes;
use sinks::chain::{chain_hash, statement_hash};
use uuid::Uuid;

#[derive(Clone, Debug)]
pub struct Sent {
    pub sqs_message_id: SqsMessageId,
    /// The event id; `None` when the message cannot be read.
    pub event_id: Option<EventId>,
    /// The event id without the prefix.
    pub name: Option<String>,
    /// The queue to which the message was sent.
    pub source: SourceArn,
    pub batch_key: Option<BatchKey>,
    pub body: Arc<str>,
    pub body_hash: BodyHash,
    pub attributes: Option<MessageAttributes>,
    pub sent_at: Timestamp,
    /// When its event happened, if the body says so.
    pub happened_at: Option<Timestamp>,
    pub is_urgent: bool,
    pub quota_key: Option<BatchKey>,
    /// Whether the message cannot be read.
    pub bad: bool,
    /// When the queue deleted the message for the first time.
    pub acknowledged_at: Option<Timestamp>,
    /// Whether the message is in the quarantine or among the dead letters.
    pub reported: bool,
}

impl Sent {
    /// Returns a message with another id and the same content, which was not processed yet.
    pub fn again(&self, sqs_message_id: SqsMessageId) -> Sent {
        Sent {
            sqs_message_id,
            acknowledged_at: None,
            reported: false,
            ..self.clone()
        }
    }

    /// Returns the quota that the event counts in, if its body has a key and a time.
    pub fn quota(&self) -> Option<Quota> {
        Some(Quota {
            key: self.quota_key.clone()?,
            hour: self.happened_at?.as_ms() / 3_600_000,
        })
    }

    /// Returns the time that decides about the period of the event.
    pub fn time(&self) -> Timestamp {
        self.happened_at.unwrap_or(self.sent_at)
    }
}

/// A quota key and the hour in which it counts, since 1970.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Quota {
    pub key: BatchKey,
    pub hour: u64,
}

/// One claim of an event, until its tombstone is gone.
#[derive(Clone, Debug)]
pub struct Occurrence {
    /// The message that made the claim.
    pub sqs_message_id: SqsMessageId,
    pub body_hash: BodyHash,
    pub seat: SeatKey,
    /// The dedup window that the batch keeps for its events, if it is one of the log.
    pub window: Option<Duration>,
    pub claimed_at: Timestamp,
    /// When the sink got the event for the first time.
    pub delivered_at: Option<Timestamp>,
    /// The end of the tombstone's window, once the claim was released; in a batch of the log, once the record says that
    /// the part was delivered.
    pub remembered_until: Option<Timestamp>,
    pub released_at: Option<Timestamp>,
    /// When the record said that the event was set aside or rejected.
    pub aside_at: Option<Timestamp>,
    /// Until when the message is remembered at least, once the record said so: for a dedup window from then on, and from the
    /// release or the end of the batch if no other message claimed the event before.
    pub aside_until: Option<Timestamp>,
    /// When an operator had it forgotten.
    pub forgotten_at: Option<Timestamp>,
    /// Whether the index was lost and made anew before the batch had the decision. The batch is decided once more.
    pub undone: bool,
}

impl Occurrence {
    /// Returns a claim of which nothing else is known yet.
    pub fn new(
        sqs_message_id: SqsMessageId,
        body_hash: BodyHash,
        seat: SeatKey,
        claimed_at: Timestamp,
    ) -> Occurrence {
        Occurrence {
            sqs_message_id,
            body_hash,
            seat,
            window: None,
            claimed_at,
            delivered_at: None,
            remembered_until: None,
            released_at: None,
            aside_at: None,
            aside_until: None,
            forgotten_at: None,
            undone: false,
        }
    }

    /// Returns whether the claim is in this seat. Events of the log name no index shard.
    pub fn has(&self, seat: SeatKey) -> bool {
        (self.seat.shard.batch, self.seat.seq) == (seat.shard.batch, seat.seq)
    }
}

/// What the sink has of a part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivered {
    pub hash: [u8; 32],
    pub count: usize,
    /// Hash of the rendered part.
    pub rendered: String,
    pub fingerprint: String,
    /// The number among the parts of the source and the batch key, if the sink needs one.
    pub file_number: Option<u64>,
    /// The link that came with the number.
    pub link: Option<Link>,
}

impl Delivered {
    /// Returns the chain hash, if the part has a link.
    pub fn chain_hash(&self) -> Option<ChainHash> {
        let link = self.link?;
        let (number, taken_at) = (self.file_number?, link.taken_at);
        let statement = format!("{number} {taken_at} {} {}", link.after, self.rendered);
        Some(chain_hash(link.previous, &statement_hash(&statement)))
    }
}

/// A part that is being delivered to the sink.
#[derive(Clone, Debug)]
pub struct Brought {
    pub key: String,
    pub batch: BatchId,
    pub part_index: usize,
    /// The source and the batch key.
    pub scope: SequenceScope,
    pub content: Delivered,
    /// The events with their seats.
    pub items: Vec<(EventId, SeatKey)>,
    /// The seqs of the events that the sink rejects.
    pub rejected: SeqSet,
    /// Whether the events are in seq order.
    pub in_order: bool,
    /// Whether bodies, source and batch key are as they were sent.
    pub as_sent: bool,
}

/// Everything that happened in a history.
#[derive(Debug, Default)]
pub struct Ledger {
    pub messages: Vec<Sent>,
    /// The position of each message in `messages`.
    pub by_id: BTreeMap<SqsMessageId, usize>,
    /// The claims of each event, in the order in which they were written.
    pub occurrences: BTreeMap<EventId, Vec<Occurrence>>,
    /// The events of each batch that has claims.
    events_of: BTreeMap<BatchId, BTreeSet<EventId>>,
    /// The parts the sink has, by idempotency key.
    pub parts: BTreeMap<String, Delivered>,
    /// The parts with numbers that were not set aside, in the order in which the sink got them.
    pub numbered: BTreeMap<SequenceScope, Vec<(BatchId, usize, u64)>>,
    /// The chain hashes of the parts with links.
    pub chain: BTreeMap<(BatchId, usize), ChainHash>,
    /// The parts that took a number after they had ended, and the number.
    pub late_numbers: BTreeMap<PartId, (SequenceScope, u64)>,
    /// The quotas that some message was beyond.
    pub beyond: BTreeSet<Quota>,
    /// The parts that were set aside.
    pub aside: BTreeSet<(BatchId, usize)>,
    /// The seats of events that the sink rejected.
    pub rejected: BTreeMap<BatchId, SeqSet>,
    /// The messages with corrected bodies of rejected events.
    pub corrections: BTreeSet<SqsMessageId>,
    /// The last look of each environment at a sequence, since it took a lease: the name of the sequence, and the holder of the last
    /// number, if it had ended by then.
    pub looks: BTreeMap<u64, (String, Option<PartId>)>,
    /// The parts that were handed to the sink, if deliveries have a rate, in the order in which they were for the first time.
    pub handed: Vec<Handed>,
    /// The bodies that operators sent to an input queue.
    pub redriven: BTreeSet<Arc<str>>,
    pub reported_duplicates: BTreeSet<SqsMessageId>,
    /// The runs of batches that were committed.
    pub committed: BTreeSet<Uuid>,
    /// How many bodies of each batch were read.
    pub reads: BTreeMap<BatchId, u64>,
    pub replies_lost: u32,
    /// The environments that found, since they took a lease, that the next part may go.
    pub on_turn: BTreeSet<u64>,
    /// How many events of each batch were read and then had to wait, because another part was late for its turn.
    pub read_in_vain: BTreeMap<BatchId, u64>,
    /// What each environment has read since it took the lease of a batch of which it has frozen nothing, or waited for the turn of one.
    pub look_reads: BTreeMap<u64, u64>,
    /// The batch that each environment leased last.
    pub leased_in: BTreeMap<u64, BatchId>,
    /// The parts for which an operator accepted another sink.
    pub accepted: BTreeSet<String>,
    /// The messages whose claims were edited by hand.
    pub edited: BTreeSet<SqsMessageId>,
    /// The deliveries of each event to the sink.
    pub given: BTreeMap<EventId, Vec<Given>>,
    /// The batches that wait for the hours of delivery, and when these begin.
    pub openings: BTreeMap<BatchId, Timestamp>,
    /// The ids of notices about what has happened.
    pub may_be_noticed: BTreeSet<String>,
    /// Those of them that must be sent.
    pub to_be_noticed: BTreeSet<String>,
    /// The manifest of each notice that was sent, by id.
    pub notices: BTreeMap<String, String>,
    /// The batches of which the queue accepted a ticket, and when it accepted the first that is visible at once.
    pub tickets: BTreeMap<BatchId, Option<Timestamp>>,
}

/// A part that was handed to the sink.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Handed {
    pub key: String,
    pub at: Timestamp,
    pub events: u64,
}

/// A delivery of an event to the sink.
#[derive(Clone, Debug)]
pub struct Given {
    pub at: Timestamp,
    /// The message that made the claim.
    pub sqs_message_id: SqsMessageId,
    /// The idempotency key of the part.
    pub key: String,
}

impl Ledger {
    pub fn add(&mut self, event: EventId, claim: Occurrence) {
        let of_batch = self.events_of.entry(claim.seat.shard.batch);
        of_batch.or_default().insert(event.clone());
        self.occurrences.entry(event).or_default().push(claim);
    }

    pub fn claims_in(&self, batch: BatchId) -> impl Iterator<Item = &Occurrence> {
        let events = self.events_of.get(&batch).into_iter().flatten();
        let claims = events.flat_map(move |event| self.claims_of(event));
        claims.filter(move |one| one.seat.shard.batch == batch)
    }

    /// Calls `change` with each claim of a batch, and whether it is the last one of its event.
    pub fn change_claims_in(
        &mut self,
        batch: BatchId,
        mut change: impl FnMut(&mut Occurrence, bool),
    ) {
        for event in self.events_of.get(&batch).into_iter().flatten() {
            let claims = self.occurrences.get_mut(event).into_iter().flatten();
            let mut claims = claims.peekable();
            while let Some(one) = claims.next() {
                if one.seat.shard.batch == batch {
                    change(one, claims.peek().is_none());
                }
            }
        }
    }

    pub fn next_message_id(&self) -> SqsMessageId {
        let id = format!("m{}", self.messages.len());
        id.parse().expect("a short text is an id")
    }

    /// Adds a message; returns its position.
    pub fn add_message(&mut self, message: Sent) -> usize {
        let index = self.messages.len();
        self.by_id.insert(message.sqs_message_id.clone(), index);
        self.messages.push(message);
        index
    }

    pub fn message(&self, id: &SqsMessageId) -> Option<&Sent> {
        let index = *self.by_id.get(id)?;
        self.messages.get(index)
    }

    /// Returns the message with an id, to change it.
    pub fn message_mut(&mut self, id: &SqsMessageId) -> Option<&mut Sent> {
        let index = *self.by_id.get(id)?;
        self.messages.get_mut(index)
    }

    pub fn claims_of(&self, event: &EventId) -> &[Occurrence] {
        self.occurrences.get(event).map_or(&[], Vec::as_slice)
    }

    /// Returns the claims of the event that a message has.
    pub fn claims_for(&self, message: &Sent) -> &[Occurrence] {
        let event = message.event_id.as_ref();
        event.map_or(&[], |event| self.claims_of(event))
    }

    /// Returns the claim of an event with a seat.
    pub fn occurrence(&mut self, event: &EventId, seat: SeatKey) -> Option<&mut Occurrence> {
        let occurrences = self.occurrences.get_mut(event)?;
        occurrences.iter_mut().rev().find(|one| one.has(seat))
    }

    /// Returns the batch and the seq of the claim of an event that was released last.
    pub fn last_released(&self, event: &EventId) -> Option<(BatchId, Seq)> {
        let claims = self.claims_of(event).iter();
        let released = claims.filter(|one| one.released_at.is_some());
        let last = released.max_by_key(|one| one.released_at)?;
        Some((last.seat.shard.batch, last.seat.seq))
    }

    fn claims_in_seat(&self, event: &EventId, seat: SeatKey) -> impl Iterator<Item = &Occurrence> {
        let claims = self.claims_of(event).iter();
        claims.filter(move |one| one.has(seat))
    }

    /// Returns whether the sink has the event that was claimed with a seat.
    pub fn seat_delivered(&self, event: &EventId, seat: SeatKey) -> bool {
        let mut claims = self.claims_in_seat(event, seat);
        claims.any(|one| one.delivered_at.is_some())
    }

    /// Returns whether the event that was claimed with a seat was set aside.
    pub fn seat_set_aside(&self, event: &EventId, seat: SeatKey) -> bool {
        let mut claims = self.claims_in_seat(event, seat);
        claims.any(|one| one.aside_at.is_some())
    }

    /// Returns whether the claim with a seat was written after its message had been acknowledged.
    pub fn came_too_late(&self, event: &EventId, seat: SeatKey) -> bool {
        self.claims_in_seat(event, seat).any(|one| {
            let sent = self.message(&one.sqs_message_id);
            let acknowledged_at = sent.and_then(|sent| sent.acknowledged_at);
            acknowledged_at.is_some_and(|at| at < one.claimed_at)
        })
    }

    /// Returns how many claims reached the sink.
    pub fn delivered_count(&self) -> usize {
        let claims = self.occurrences.values().flatten();
        claims.filter(|one| one.delivered_at.is_some()).count()
    }
}
