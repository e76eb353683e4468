//! The ledger of the requeue rule: every message is due once.
//!
//! The body of a message does not say which message of its event it is. The SQS message id does: if one message is delivered
//! twice, only its first delivery counts. Otherwise the second one would hide the missing delivery of another message of the
//! same event.

use std::collections::{BTreeMap, HashSet};

use super::bits::Bits;
use super::changed::Changed;
use super::entry::{Delivery, Entry, Surplus};
use crate::workload::{Content, Workload};

/// The number of events whose slots are found together.
const BLOCK: usize = 64;

/// The length of a slot, in bytes: as much of a hash of an SQS message id. Two messages of one event have the same hash with a
/// probability below 1 in 10¹².
const SLOT_BYTES: usize = 5;
const SLOT_BITS: u32 = 8 * SLOT_BYTES as u32;
/// A slot without a delivery.
const EMPTY: u64 = 0;
/// A delivery without a message id.
const NO_ID: u64 = 1;

/// The deliveries so far. Takes about 1.2 bytes for each event, and 5 bytes for each message of an event that has repeats.
pub(super) struct Each {
    /// Whether an event without repeats was delivered.
    delivered: Bits,
    repeats: Repeats,
    /// The first slot of the events of each block.
    blocks: Vec<u64>,
    /// For each message of each event with repeats, which message was delivered.
    slots: Vec<u8>,
    /// The events with repeats that are in the current batch.
    in_batch: HashSet<u64>,
    batch: u32,
}

/// How often each event is repeated.
struct Repeats {
    /// The number of repeats; 255 stands for the entry in `many`.
    few: Vec<u8>,
    many: BTreeMap<u64, u32>,
}

impl Repeats {
    fn new(workload: &Workload) -> Self {
        let unique =
            usize::try_from(workload.unique()).expect("an event count fits the address space");
        let mut repeats = Self {
            few: vec![0; unique],
            many: BTreeMap::new(),
        };
        workload.for_each_repeat(|number, _| repeats.add(number));
        repeats
    }

    fn add(&mut self, number: u64) {
        let few = &mut self.few[number as usize];
        *few = few.saturating_add(1);
        if *few == u8::MAX {
            *self.many.entry(number).or_insert(u32::from(u8::MAX) - 1) += 1;
        }
    }

    fn get(&self, number: u64) -> u32 {
        match self.few[number as usize] {
            u8::MAX => *self.many.get(&number).unwrap_or(&u32::from(u8::MAX)),
            few => u32::from(few),
        }
    }

    /// Returns the number of slots of an event: one for each message, or none if it has no repeats.
    fn slots(&self, number: u64) -> u64 {
        match self.get(number) {
            0 => 0,
            repeats => u64::from(repeats) + 1,
        }
    }
}

impl Each {
    pub fn new(workload: &Workload) -> Self {
        let repeats = Repeats::new(workload);
        let (mut blocks, mut slots) = (Vec::with_capacity(repeats.few.len().div_ceil(BLOCK)), 0);
        for number in 0..workload.unique() {
            if number.is_multiple_of(BLOCK as u64) {
                blocks.push(slots);
            }
            slots += repeats.slots(number);
        }
        Self {
            delivered: Bits::new(workload.unique()),
            repeats,
            blocks,
            slots: vec![0; slots as usize * SLOT_BYTES],
            in_batch: HashSet::new(),
            batch: 0,
        }
    }

    pub fn record(&mut self, delivery: &Delivery, changed: &mut Changed) -> Entry {
        let number = delivery.number;
        if self.repeats.get(number) == 0 {
            return match self.delivered.set(number) {
                true => Entry::surplus(Surplus::Event),
                false => Entry::default(),
            };
        }
        if self.batch != delivery.batch {
            self.in_batch.clear();
            self.batch = delivery.batch;
        }
        let mixed = !self.in_batch.insert(number);
        Entry {
            surplus: self.deliver(delivery, changed),
            mixed,
        }
    }

    /// Records the delivery of an event with repeats; returns why it is one too many, if it is.
    fn deliver(&mut self, delivery: &Delivery, changed: &mut Changed) -> Option<Surplus> {
        let message = delivery.message_hash.map_or(NO_ID, |hash| {
            (hash >> (u64::BITS - SLOT_BITS)).max(NO_ID + 1)
        });
        let first = self.first_slot(delivery.number);
        let count = self.repeats.slots(delivery.number);
        let slots = first..first + count;
        if message != NO_ID && slots.clone().any(|slot| self.slot(slot) == message) {
            return Some(Surplus::Message);
        }
        let Some(empty) = slots.clone().find(|slot| self.slot(*slot) == EMPTY) else {
            return Some(Surplus::Event);
        };
        if let Some(event) = changed.get_mut(delivery.number) {
            let changed = event.delivered_changed;
            let delivered = match delivery.content {
                Content::Original => (empty - first) as u32 - changed,
                Content::Changed => changed,
            };
            if delivered == event.messages(delivery.content) {
                return Some(Surplus::Body);
            }
            event.delivered_changed += u32::from(delivery.content == Content::Changed);
        }
        let at = empty as usize * SLOT_BYTES;
        self.slots[at..at + SLOT_BYTES].copy_from_slice(&message.to_le_bytes()[..SLOT_BYTES]);
        None
    }

    pub fn missing(&self) -> impl Iterator<Item = (u64, u32)> {
        let mut first = 0;
        let due = (0..).zip(&self.repeats.few).map(move |(number, few)| {
            if *few == 0 {
                return (number, u32::from(!self.delivered.get(number)));
            }
            let slots = first..first + self.repeats.slots(number);
            first = slots.end;
            let due = slots.filter(|slot| self.slot(*slot) == EMPTY).count();
            (number, due as u32)
        });
        due.filter(|(_, due)| *due > 0)
    }

    fn first_slot(&self, number: u64) -> u64 {
        let block = number / BLOCK as u64;
        let before = block * BLOCK as u64..number;
        self.blocks[block as usize] + before.map(|each| self.repeats.slots(each)).sum::<u64>()
    }

    fn slot(&self, slot: u64) -> u64 {
        let at = slot as usize * SLOT_BYTES;
        let mut bytes = [0; 8];
        bytes[..SLOT_BYTES].copy_from_slice(&self.slots[at..at + SLOT_BYTES]);
        u64::from_le_bytes(bytes)
    }
}
