//! One queue, pure: every decision about a message's life, with `now` as an argument.
//!
//! A message is in one of three places, each an ordered set of (epoch ms, key): delayed and in flight by when they
//! end, visible by when it began. [`Queue::advance`] moves what is due and drops what is past retention; every other
//! method calls it first, so that a queue never needs a timer of its own. Invariants: `tests::check_invariants`.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use super::attributes::QueueAttributes;
use super::error::SqsError;
use super::limits;
use super::message::{Content, Message};
use super::millis::ms;
use super::receipt::Receipt;
use super::repeats::Repeats;

/// Why a key of a set is found among the entries.
const HAS_ENTRY: &str = "every key of a set has its entry";

/// How many messages a queue holds, by where they are in their life.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Depth {
    /// Ready to be received.
    pub visible: usize,
    /// Received, and neither deleted nor visible again.
    pub in_flight: usize,
    /// Sent with a delay that has not ended.
    pub delayed: usize,
}

/// What a receive asks for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Take {
    /// Most messages, 1 to 10.
    pub(super) max: usize,
    /// Milliseconds the messages stay invisible; none means the queue's.
    pub(super) visibility_ms: Option<u64>,
    /// Whether the dead-letter queue of the redrive policy is there; without it messages stay and are delivered.
    pub(super) redrivable: bool,
    /// Whether the receive may wait; then a full queue is empty, otherwise an error.
    pub(super) long_poll: bool,
}

/// What a receive gets.
#[derive(Debug, Default)]
pub(super) struct Taken {
    /// Messages to deliver, now in flight.
    pub(super) messages: Vec<Message>,
    /// Messages that were received too often. They have left this queue: the caller must hand them on.
    pub(super) dead: Vec<DeadLetter>,
}

/// A message on its way to a dead-letter queue.
#[derive(Debug)]
pub(super) struct DeadLetter {
    content: Content,
    sent_ms: u64,
}

/// One queue's messages and settings.
#[derive(Debug)]
pub(super) struct Queue {
    name: String,
    /// Tells this queue's receipt handles from others', also from an earlier queue's of the same name.
    id: u64,
    pub(super) attributes: QueueAttributes,
    pub(super) created_ms: u64,
    pub(super) modified_ms: u64,
    /// Which deliveries are repeated; as a rule none.
    pub(super) repeats: Option<Repeats>,
    next_key: u64,
    entries: HashMap<u64, Entry>,
    visible: BTreeSet<(u64, u64)>,
    delayed: BTreeSet<(u64, u64)>,
    in_flight: BTreeSet<(u64, u64)>,
    /// Every message by when it was sent: the oldest are the first past retention, whatever it is set to.
    by_age: BTreeSet<(u64, u64)>,
}

#[derive(Debug)]
struct Entry {
    content: Content,
    sent_ms: u64,
    receive_count: u32,
    first_receive_ms: Option<u64>,
    /// In flight for less than the visibility timeout, to be delivered again.
    repeats: bool,
    place: Place,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
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
            repeats: None,
            next_key: 0,
            entries: HashMap::new(),
            visible: BTreeSet::new(),
            delayed: BTreeSet::new(),
            in_flight: BTreeSet::new(),
            by_age: BTreeSet::new(),
        }
    }

    /// Takes a message in, visible at once or after its delay, which takes the place of the queue's.
    ///
    /// # Errors
    /// `MessageTooLong` for the queue's limit, `OutOfRange` for a delay over 900 s.
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
            check_secs(
                "DelaySeconds",
                delay_ms,
                *limits::DELAY_SECS.start(),
                *limits::DELAY_SECS.end(),
            )?;
        }
        self.advance(now_ms);
        let place = match delay_ms.unwrap_or_else(|| ms(self.attributes.delay)) {
            0 => Place::Visible { since_ms: now_ms },
            delay_ms => Place::Delayed {
                until_ms: now_ms + delay_ms,
            },
        };
        self.insert(content, now_ms, place);
        Ok(())
    }

    /// Takes in a message that another queue gave up: visible at once, its age kept, its receives counted anew.
    pub(super) fn accept(&mut self, now_ms: u64, letter: DeadLetter) {
        self.advance(now_ms);
        self.insert(
            letter.content,
            letter.sent_ms,
            Place::Visible { since_ms: now_ms },
        );
    }

    /// Delivers visible messages, those that have been visible longest first.
    ///
    /// # Errors
    /// `OutOfRange` for what is asked, `OverLimit` for a short poll while as many as allowed are in flight.
    pub(super) fn receive(&mut self, now_ms: u64, take: Take) -> Result<Taken, SqsError> {
        check_max(take.max)?;
        let visibility_ms = take
            .visibility_ms
            .unwrap_or_else(|| ms(self.attributes.visibility_timeout));
        check_visibility(visibility_ms)?;
        self.advance(now_ms);
        if self.is_full() && !take.long_poll {
            return Err(SqsError::OverLimit {
                queue: self.name.clone(),
                in_flight_max: limits::IN_FLIGHT_MAX,
            });
        }
        let receives_max = match &self.attributes.redrive {
            Some(redrive) if take.redrivable => redrive.receives_max,
            Some(_) | None => u32::MAX,
        };
        let mut taken = Taken::default();
        while taken.messages.len() < take.max && !self.is_full() {
            let Some((_, key)) = self.visible.pop_first() else {
                break;
            };
            let receive_count = self.entries.get(&key).map(|entry| entry.receive_count);
            if receive_count.expect(HAS_ENTRY) >= receives_max {
                taken.dead.push(self.give_up(key));
            } else {
                taken
                    .messages
                    .push(self.deliver(key, now_ms, visibility_ms));
            }
        }
        Ok(taken)
    }

    /// Removes a message, which was received too often.
    fn give_up(&mut self, key: u64) -> DeadLetter {
        let entry = self.entries.remove(&key).expect(HAS_ENTRY);
        self.by_age.remove(&(entry.sent_ms, key));
        DeadLetter {
            content: entry.content,
            sent_ms: entry.sent_ms,
        }
    }

    /// Puts a message in flight, for less than its visibility timeout if it is to be delivered twice.
    fn deliver(&mut self, key: u64, now_ms: u64, visibility_ms: u64) -> Message {
        let entry = self.entries.get_mut(&key).expect(HAS_ENTRY);
        let repeats = self.repeats.as_ref();
        repeats
            .filter(|_| entry.repeats)
            .inspect(|repeats| repeats.repeated());
        let again_after_ms = repeats
            .and_then(Repeats::again_after_ms)
            .filter(|after_ms| *after_ms < visibility_ms);
        entry.repeats = again_after_ms.is_some();
        let until_ms = now_ms + again_after_ms.unwrap_or(visibility_ms);
        entry.place = Place::InFlight {
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
    /// `Ok` too if the message is gone already, and if it was received again since: then it stays.
    ///
    /// # Errors
    /// `ReceiptHandleIsInvalid` if this queue did not give the handle out.
    pub(super) fn delete(&mut self, now_ms: u64, handle: &str) -> Result<(), SqsError> {
        self.advance(now_ms);
        let receipt = self.read_receipt(handle)?;
        let newest = self
            .entries
            .get(&receipt.key)
            .is_some_and(|entry| entry.receive_count == receipt.receive);
        if newest {
            self.remove(receipt.key);
        }
        Ok(())
    }

    /// Makes a message in flight visible `timeout_ms` from now.
    ///
    /// # Errors
    /// `ReceiptHandleIsInvalid` as in [`Self::delete`]; `MessageUnavailable` if the message is gone or was received
    /// again since; `MessageNotInflight` if it is visible; `OutOfRange`, `VisibilityBeyondLimit` for the timeout.
    pub(super) fn change_visibility(
        &mut self,
        now_ms: u64,
        handle: &str,
        timeout_ms: u64,
    ) -> Result<(), SqsError> {
        check_visibility(timeout_ms)?;
        self.advance(now_ms);
        let Receipt { key, receive, .. } = self.read_receipt(handle)?;
        let newest = self
            .entries
            .get_mut(&key)
            .filter(|entry| entry.receive_count == receive);
        let entry = newest.ok_or_else(|| SqsError::MessageUnavailable {
            handle: handle.to_owned(),
        })?;
        let Place::InFlight {
            until_ms,
            received_ms,
        } = entry.place
        else {
            return Err(SqsError::MessageNotInflight {
                handle: handle.to_owned(),
            });
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
        entry.place = Place::InFlight {
            until_ms: until_new_ms,
            received_ms,
        };
        // It comes again because it was asked for, not because a queue may do so.
        entry.repeats = false;
        self.in_flight.remove(&(until_ms, key));
        self.in_flight.insert((until_new_ms, key));
        self.advance(now_ms);
        Ok(())
    }

    /// Deletes every message.
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

    /// Counts the messages, exactly.
    pub(super) fn depth(&mut self, now_ms: u64) -> Depth {
        self.advance(now_ms);
        Depth {
            visible: self.visible.len(),
            in_flight: self.in_flight.len(),
            delayed: self.delayed.len(),
        }
    }

    /// When the next message becomes visible by itself, epoch ms.
    pub(super) fn next_due_ms(&self) -> Option<u64> {
        let first = |set: &BTreeSet<(u64, u64)>| set.first().map(|&(due_ms, _)| due_ms);
        [first(&self.delayed), first(&self.in_flight)]
            .into_iter()
            .flatten()
            .min()
    }

    /// Whether as many messages are in flight as are allowed.
    pub(super) fn is_full(&self) -> bool {
        self.in_flight.len() >= limits::IN_FLIGHT_MAX
    }

    /// Drops what is past retention and makes visible what is due.
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
                entry.place = Place::Visible { since_ms: due_ms };
                self.visible.insert((due_ms, key));
            }
        }
    }

    fn insert(&mut self, content: Content, sent_ms: u64, place: Place) {
        let key = self.next_key;
        self.next_key += 1;
        self.set_of(place).insert((place.since_or_until_ms(), key));
        self.by_age.insert((sent_ms, key));
        self.entries.insert(
            key,
            Entry {
                content,
                sent_ms,
                receive_count: 0,
                first_receive_ms: None,
                repeats: false,
                place,
            },
        );
    }

    fn remove(&mut self, key: u64) {
        if let Some(entry) = self.entries.remove(&key) {
            self.set_of(entry.place)
                .remove(&(entry.place.since_or_until_ms(), key));
            self.by_age.remove(&(entry.sent_ms, key));
        }
    }

    fn set_of(&mut self, place: Place) -> &mut BTreeSet<(u64, u64)> {
        match place {
            Place::Visible { .. } => &mut self.visible,
            Place::Delayed { .. } => &mut self.delayed,
            Place::InFlight { .. } => &mut self.in_flight,
        }
    }

    /// Reads a handle that this queue gave out, as far as it can still know.
    fn read_receipt(&self, handle: &str) -> Result<Receipt, SqsError> {
        let receipt = Receipt::from_handle(handle)?;
        let received = |entry: &Entry| (1..=entry.receive_count).contains(&receipt.receive);
        let given_out = receipt.queue == self.id
            && receipt.key < self.next_key
            && receipt.receive > 0
            && self.entries.get(&receipt.key).is_none_or(received);
        if given_out {
            Ok(receipt)
        } else {
            Err(SqsError::ReceiptHandleIsInvalid {
                handle: handle.to_owned(),
            })
        }
    }
}

impl Entry {
    fn to_message(&self, receipt: Receipt) -> Message {
        Message {
            message_id: self.content.message_id.clone(),
            receipt_handle: receipt.to_handle(),
            body: self.content.body.clone(),
            md5_of_body: self.content.md5_of_body.clone(),
            message_attributes: self.content.attributes.clone(),
            md5_of_message_attributes: self.content.md5_of_attributes.clone(),
            receive_count: self.receive_count,
            sent_ms: self.sent_ms,
            first_receive_ms: self.first_receive_ms.unwrap_or_default(),
            sender_id: limits::ACCOUNT.to_owned(),
            message_group_id: self.content.group_id.clone(),
        }
    }
}

impl Place {
    fn since_or_until_ms(self) -> u64 {
        match self {
            Self::Visible { since_ms } => since_ms,
            Self::Delayed { until_ms } | Self::InFlight { until_ms, .. } => until_ms,
        }
    }
}

/// Checks how many messages a receive may take.
fn check_max(max: usize) -> Result<(), SqsError> {
    if limits::RECEIVE_MESSAGES.contains(&max) {
        return Ok(());
    }
    Err(SqsError::OutOfRange {
        parameter: "MaxNumberOfMessages",
        value: max.to_string(),
        min: *limits::RECEIVE_MESSAGES.start() as u64,
        max: *limits::RECEIVE_MESSAGES.end() as u64,
    })
}

fn check_visibility(timeout_ms: u64) -> Result<(), SqsError> {
    check_secs(
        "VisibilityTimeout",
        timeout_ms,
        *limits::VISIBILITY_SECS.start(),
        *limits::VISIBILITY_SECS.end(),
    )
}

fn check_secs(parameter: &'static str, value_ms: u64, min: u64, max: u64) -> Result<(), SqsError> {
    if (min * 1000..=max * 1000).contains(&value_ms) {
        return Ok(());
    }
    let value = Duration::from_millis(value_ms).as_secs_f64().to_string();
    Err(SqsError::OutOfRange {
        parameter,
        value,
        min,
        max,
    })
}

#[cfg(test)]
mod tests;
