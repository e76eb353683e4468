//! One queue: decides when a message is visible, delivered, returned, moved or deleted. The time is an argument of each
//! method; nothing here waits or reads a clock.
//!
//! A message is in one of three ordered sets of (epoch ms, key). Delayed messages and messages in flight are ordered by the
//! time when they become visible, visible ones by the time when they became visible. [`Queue::advance`] makes due messages
//! visible and deletes messages past retention. Every other method calls it first, so that a queue needs no timer.
//! Invariants: `tests::check_invariants`.
//!
//! `moves` has the moves between queues: to a dead-letter queue, and out of it again.

mod moves;

use std::collections::{BTreeSet, HashMap};
use std::ops::RangeInclusive;
use std::time::Duration;

use super::attributes::{QueueAttributes, arn_of_queue};
use super::duplicate_deliveries::DuplicateDeliveries;
use super::error::SqsError;
use super::limits;
use super::message::{Content, Message};
use super::millis::ms;
use super::receipt::Receipt;

/// Why the entry of a key in a set is always found.
const HAS_ENTRY: &str = "every key in a set has an entry";

/// Number of messages in a queue, by their state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Depth {
    /// Messages that can be received.
    pub visible: usize,
    /// Messages that were received and are neither deleted nor visible again.
    pub in_flight: usize,
    /// Messages whose delay has not ended.
    pub delayed: usize,
}

/// Parameters of a receive.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReceiveOptions {
    /// Maximum number of messages, 1 to 10.
    pub(super) max: usize,
    /// Visibility timeout in milliseconds; `None` means the visibility timeout of the queue.
    pub(super) visibility_ms: Option<u64>,
    /// Whether the dead-letter queue of the redrive policy exists. If not, messages are delivered however often they were.
    pub(super) redrivable: bool,
    /// Whether the receive may wait. With too many messages in flight, such a receive gets no messages, any other an error.
    pub(super) long_poll: bool,
}

/// Result of a receive.
#[derive(Debug, Default)]
pub(super) struct Received {
    /// Messages to deliver, now in flight.
    pub(super) messages: Vec<Message>,
    /// Messages that were received too often. They are removed from this queue, and the caller must put them into the
    /// dead-letter queue.
    pub(super) dead: Vec<DeadLetter>,
}

/// A message on its way to another queue.
#[derive(Debug)]
pub(super) struct DeadLetter(Entry);

/// The messages and attributes of one queue.
#[derive(Debug)]
pub(super) struct Queue {
    name: String,
    /// Id in receipt handles. It differs from that of any other queue, also of a deleted one with the same name.
    id: u64,
    pub(super) attributes: QueueAttributes,
    pub(super) created_ms: u64,
    pub(super) modified_ms: u64,
    /// The fault that duplicates deliveries; `None` if it is off.
    pub(super) duplicate_deliveries: Option<DuplicateDeliveries>,
    next_key: u64,
    entries: HashMap<u64, Entry>,
    visible: BTreeSet<(u64, u64)>,
    delayed: BTreeSet<(u64, u64)>,
    in_flight: BTreeSet<(u64, u64)>,
    /// Every message by the time when it was sent, which is the order in which retention ends.
    pub(super) by_age: BTreeSet<(u64, u64)>,
}

#[derive(Debug)]
struct Entry {
    content: Content,
    sent_ms: u64,
    /// Number of deliveries from this queue. The redrive policy counts these.
    receive_count: u32,
    /// Number of deliveries before the message was moved to this dead-letter queue.
    receive_count_before: u32,
    first_receive_ms: Option<u64>,
    /// Name of the queue that the message was moved from, in a dead-letter queue.
    dead_letter_source: Option<String>,
    /// Whether the fault has shortened the time in flight, so that the next delivery is a duplicate.
    duplicate_due: bool,
    state: MessageState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MessageState {
    Visible { since_ms: u64 },
    Delayed { until_ms: u64 },
    InFlight { until_ms: u64, received_ms: u64 },
}

impl Queue {
    pub(super) fn new(name: &str, id: u64, attributes: QueueAttributes, now_ms: u64) -> Self {
        Self {
            name: name.to_owned(),
            id,
            attributes,
            created_ms: now_ms,
            modified_ms: now_ms,
            duplicate_deliveries: None,
            next_key: 0,
            entries: HashMap::new(),
            visible: BTreeSet::new(),
            delayed: BTreeSet::new(),
            in_flight: BTreeSet::new(),
            by_age: BTreeSet::new(),
        }
    }

    /// Adds a message. It is visible after its own delay or, with `None`, after the delay of the queue.
    ///
    /// # Errors
    /// `MessageTooLong` over the limit of the queue, `OutOfRange` for a delay over 900 s.
    pub(super) fn send(
        &mut self,
        now_ms: u64,
        content: Content,
        delay_ms: Option<u64>,
    ) -> Result<(), SqsError> {
        let bytes_max = self.attributes.message_size_max_bytes;
        if content.bytes > bytes_max {
            return Err(SqsError::MessageTooLong {
                bytes: content.bytes,
                bytes_max,
            });
        }
        if let Some(delay_ms) = delay_ms {
            check_secs("DelaySeconds", delay_ms, limits::DELAY_SECS)?;
        }
        self.advance(now_ms);
        let state = match delay_ms.unwrap_or_else(|| ms(self.attributes.delay)) {
            0 => MessageState::Visible { since_ms: now_ms },
            delay_ms => MessageState::Delayed {
                until_ms: now_ms + delay_ms,
            },
        };
        self.insert(Entry::new(content, now_ms, state));
        Ok(())
    }

    /// Delivers visible messages, those that became visible first in front.
    ///
    /// # Errors
    /// `OutOfRange` for a parameter, `OverLimit` for a receive without a wait while 120,000 messages are in flight.
    pub(super) fn receive(
        &mut self,
        now_ms: u64,
        options: ReceiveOptions,
    ) -> Result<Received, SqsError> {
        let (max, range) = (options.max as u64, limits::RECEIVE_MESSAGES);
        if !range.contains(&max) {
            return Err(SqsError::out_of_range("MaxNumberOfMessages", max, range));
        }
        let of_queue = ms(self.attributes.visibility_timeout);
        let visibility_ms = options.visibility_ms.unwrap_or(of_queue);
        check_secs("VisibilityTimeout", visibility_ms, limits::VISIBILITY_SECS)?;
        self.advance(now_ms);
        if self.is_full() && !options.long_poll {
            return Err(SqsError::OverLimit {
                queue: self.name.clone(),
                in_flight_max: limits::IN_FLIGHT_MAX,
            });
        }
        let receives_max = match &self.attributes.redrive {
            Some(redrive) if options.redrivable => redrive.receives_max,
            Some(_) | None => u32::MAX,
        };
        let mut received = Received::default();
        while received.messages.len() < options.max && !self.is_full() {
            let Some((_, key)) = self.visible.pop_first() else {
                break;
            };
            let receive_count = self.entries.get(&key).map(|entry| entry.receive_count);
            if receive_count.expect(HAS_ENTRY) >= receives_max {
                received.dead.push(self.remove_dead_letter(key));
            } else {
                let message = self.deliver(key, now_ms, visibility_ms);
                received.messages.push(message);
            }
        }
        Ok(received)
    }

    /// Puts a message in flight. If the fault duplicates this delivery, the message becomes visible before its timeout.
    fn deliver(&mut self, key: u64, now_ms: u64, visibility_ms: u64) -> Message {
        let entry = self.entries.get_mut(&key).expect(HAS_ENTRY);
        let duplicates = self.duplicate_deliveries.as_ref();
        duplicates
            .filter(|_| entry.duplicate_due)
            .inspect(|duplicates| duplicates.duplicated());
        let again_after_ms = duplicates
            .and_then(DuplicateDeliveries::again_after_ms)
            .filter(|after_ms| *after_ms < visibility_ms);
        entry.duplicate_due = again_after_ms.is_some();
        let until_ms = now_ms + again_after_ms.unwrap_or(visibility_ms);
        entry.state = MessageState::InFlight {
            until_ms,
            received_ms: now_ms,
        };
        entry.receive_count += 1;
        entry.first_receive_ms.get_or_insert(now_ms);
        self.in_flight.insert((until_ms, key));
        let receipt = Receipt {
            queue: self.id,
            key,
            receive: entry.receive_count,
        };
        entry.to_message(receipt)
    }

    /// Deletes the message of a receipt handle, in flight or visible again.
    ///
    /// Also returns `Ok` if the message no longer exists, and if the handle is outdated because the message was received again.
    /// An outdated handle deletes nothing.
    ///
    /// # Errors
    /// `ReceiptHandleIsInvalid` if this queue did not issue the handle.
    pub(super) fn delete(&mut self, now_ms: u64, handle: &str) -> Result<(), SqsError> {
        self.advance(now_ms);
        let receipt = self.read_receipt(handle)?;
        let entry = self.entries.get(&receipt.key);
        if entry.is_some_and(|entry| entry.receive_count == receipt.receive) {
            self.remove(receipt.key);
        }
        Ok(())
    }

    /// Makes a message in flight visible `timeout_ms` from now.
    ///
    /// As in SQS, whatever its documentation says of `MessageNotInflight`: the handle of an earlier delivery will do, and a
    /// message that is visible stays so. The sources are in `tests/sqs_sdk/aws_snapshots/handles.rs`.
    ///
    /// # Errors
    /// `ReceiptHandleIsInvalid` as in [`Self::delete`]; `MessageUnavailable` if the message no longer exists; `OutOfRange`,
    /// `VisibilityBeyondLimit` for the timeout.
    pub(super) fn change_visibility(
        &mut self,
        now_ms: u64,
        handle: &str,
        timeout_ms: u64,
    ) -> Result<(), SqsError> {
        check_secs("VisibilityTimeout", timeout_ms, limits::VISIBILITY_SECS)?;
        self.advance(now_ms);
        let key = self.read_receipt(handle)?.key;
        let entry = self.entries.get_mut(&key);
        let entry = entry.ok_or_else(|| SqsError::MessageUnavailable {
            handle: handle.to_owned(),
        })?;
        let MessageState::InFlight {
            until_ms,
            received_ms,
        } = entry.state
        else {
            return Ok(());
        };
        let limit_ms = received_ms + ms(limits::VISIBILITY_TOTAL_MAX);
        let until_new_ms = now_ms + timeout_ms;
        if until_new_ms > limit_ms {
            let left_secs = limit_ms.saturating_sub(now_ms) / 1000;
            return Err(SqsError::VisibilityBeyondLimit {
                value_secs: timeout_ms / 1000,
                left_secs,
            });
        }
        entry.state = MessageState::InFlight {
            until_ms: until_new_ms,
            received_ms,
        };
        // The consumer chose this time, so the next delivery is no duplicate of the fault.
        entry.duplicate_due = false;
        self.in_flight.remove(&(until_ms, key));
        self.in_flight.insert((until_new_ms, key));
        self.advance(now_ms);
        Ok(())
    }

    pub(super) fn purge(&mut self) {
        self.entries.clear();
        for set in [
            &mut self.visible,
            &mut self.delayed,
            &mut self.in_flight,
            &mut self.by_age,
        ] {
            set.clear();
        }
    }

    /// Returns the exact number of messages by state.
    pub(super) fn depth(&mut self, now_ms: u64) -> Depth {
        self.advance(now_ms);
        Depth {
            visible: self.visible.len(),
            in_flight: self.in_flight.len(),
            delayed: self.delayed.len(),
        }
    }

    /// Returns when the next delayed message or message in flight becomes visible, epoch ms.
    pub(super) fn next_due_ms(&self) -> Option<u64> {
        let first = |set: &BTreeSet<(u64, u64)>| set.first().map(|&(due_ms, _)| due_ms);
        let firsts = [&self.delayed, &self.in_flight].into_iter();
        firsts.filter_map(first).min()
    }

    /// Returns whether the limit of messages in flight is reached.
    pub(super) fn is_full(&self) -> bool {
        self.in_flight.len() >= limits::IN_FLIGHT_MAX
    }

    /// Deletes messages past retention, and makes due messages visible.
    fn advance(&mut self, now_ms: u64) {
        let retention_ms = ms(self.attributes.retention);
        while let Some(&(sent_ms, key)) = self.by_age.first()
            && sent_ms + retention_ms <= now_ms
        {
            self.remove(key);
        }
        for set in [&mut self.delayed, &mut self.in_flight] {
            while let Some(&(due_ms, key)) = set.first()
                && due_ms <= now_ms
            {
                set.pop_first();
                let entry = self.entries.get_mut(&key).expect(HAS_ENTRY);
                entry.state = MessageState::Visible { since_ms: due_ms };
                self.visible.insert((due_ms, key));
            }
        }
    }

    fn insert(&mut self, entry: Entry) {
        let key = self.next_key;
        self.next_key += 1;
        let at = (entry.state.since_or_until_ms(), key);
        self.set_of(entry.state).insert(at);
        self.by_age.insert((entry.sent_ms, key));
        self.entries.insert(key, entry);
    }

    fn remove(&mut self, key: u64) {
        if let Some(entry) = self.entries.remove(&key) {
            let at = (entry.state.since_or_until_ms(), key);
            self.set_of(entry.state).remove(&at);
            self.by_age.remove(&(entry.sent_ms, key));
        }
    }

    fn set_of(&mut self, state: MessageState) -> &mut BTreeSet<(u64, u64)> {
        match state {
            MessageState::Visible { .. } => &mut self.visible,
            MessageState::Delayed { .. } => &mut self.delayed,
            MessageState::InFlight { .. } => &mut self.in_flight,
        }
    }

    /// Parses a handle.
    ///
    /// # Errors
    /// `ReceiptHandleIsInvalid` if this queue cannot have issued the handle. That is not known exactly of a message that no
    /// longer exists.
    fn read_receipt(&self, handle: &str) -> Result<Receipt, SqsError> {
        let receipt = Receipt::from_handle(handle)?;
        let received = |entry: &Entry| (1..=entry.receive_count).contains(&receipt.receive);
        let issued = receipt.queue == self.id
            && receipt.key < self.next_key
            && receipt.receive > 0
            && self.entries.get(&receipt.key).is_none_or(received);
        if issued {
            Ok(receipt)
        } else {
            Err(SqsError::ReceiptHandleIsInvalid {
                handle: handle.to_owned(),
            })
        }
    }
}

impl Entry {
    /// Makes the entry of a message that no queue had before.
    fn new(content: Content, sent_ms: u64, state: MessageState) -> Self {
        Self {
            content,
            sent_ms,
            receive_count: 0,
            receive_count_before: 0,
            first_receive_ms: None,
            dead_letter_source: None,
            duplicate_due: false,
            state,
        }
    }

    fn to_message(&self, receipt: Receipt) -> Message {
        Message {
            message_id: self.content.message_id.clone(),
            receipt_handle: receipt.to_handle(),
            body: self.content.body.clone(),
            md5_of_body: self.content.md5_of_body.clone(),
            message_attributes: self.content.attributes.clone(),
            md5_of_message_attributes: self.content.md5_of_attributes.clone(),
            receive_count: self.receive_count_before + self.receive_count,
            sent_ms: self.sent_ms,
            first_receive_ms: self.first_receive_ms.unwrap_or_default(),
            sender_id: limits::ACCOUNT.to_owned(),
            message_group_id: self.content.group_id.clone(),
            trace_header: self.content.trace_header.clone(),
            dead_letter_source_arn: self.dead_letter_source.as_deref().map(arn_of_queue),
        }
    }
}

impl MessageState {
    fn since_or_until_ms(self) -> u64 {
        match self {
            Self::Visible { since_ms } => since_ms,
            Self::Delayed { until_ms } | Self::InFlight { until_ms, .. } => until_ms,
        }
    }
}

/// Checks a time against its range in seconds.
fn check_secs(
    parameter: &'static str,
    value_ms: u64,
    secs: RangeInclusive<u64>,
) -> Result<(), SqsError> {
    if (secs.start() * 1000..=secs.end() * 1000).contains(&value_ms) {
        return Ok(());
    }
    let value = Duration::from_millis(value_ms).as_secs_f64();
    Err(SqsError::out_of_range(parameter, value, secs))
}

#[cfg(test)]
pub(super) mod tests;
