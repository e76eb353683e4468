//! Which message carries which event, and which messages are repeats.
//!
//! Invariants, which the tests of the workload check: exactly the counted messages are repeats, of each kind; the original
//! of a repeat comes earlier; every event has exactly one original.

use super::duplicates::{Counts, Kind};
use super::limits::{NEAR_MESSAGES, NEXT_MESSAGES};
use crate::mix::{below, mix};

/// The number of messages whose roles are drawn together. At most 64, because a `u64` has a bit for each.
const BLOCK: u64 = 64;

const ROLES: u64 = 0x524f_4c45_5300_0001;
const ORIGINALS: u64 = 0x4f52_4947_0000_0002;

/// The roles of all messages of a burst.
#[derive(Clone, Debug)]
pub(super) struct Roles {
    messages: u64,
    counts: Counts,
    duplicates: u64,
    roles_key: u64,
    originals_key: u64,
}

/// The role of a message in its burst.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// The first message of the event with this number.
    Original(u64),
    /// A repeat of the event with this number.
    Repeat {
        number: u64,
        /// Whether it has the event's other body.
        changed: bool,
    },
}

/// A block's messages that are repeats, as bits, and what comes before the block.
#[derive(Clone, Copy)]
struct Block {
    start: u64,
    repeats_before: u64,
    repeats: u64,
}

impl Block {
    /// Returns the number of repeats among the messages before `index`, which is in the block or its end.
    fn repeats_before(self, index: u64) -> u64 {
        let mask = match index - self.start {
            BLOCK => u64::MAX,
            offset => (1 << offset) - 1,
        };
        self.repeats_before + u64::from((self.repeats & mask).count_ones())
    }
}

impl Roles {
    /// Fewer messages than all must be repeats.
    pub fn new(seed: u64, messages: u64, counts: Counts) -> Self {
        Self {
            messages,
            counts,
            duplicates: counts.total(),
            roles_key: mix(seed ^ ROLES),
            originals_key: mix(seed ^ ORIGINALS),
        }
    }

    /// Returns the role of a message.
    ///
    /// # Panics
    /// If there is no such message.
    pub fn role(&self, index: u64) -> Role {
        assert!(
            index < self.messages,
            "message {index} of {}",
            self.messages
        );
        if self.duplicates == 0 {
            return Role::Original(index);
        }
        self.role_in(self.block(index / BLOCK), index)
    }

    pub fn has_changed(&self) -> bool {
        self.counts.changed > 0
    }

    /// Calls `found` with every repeat: its event, and whether it has the event's other body.
    pub fn for_each_repeat(&self, mut found: impl FnMut(u64, bool)) {
        if self.duplicates == 0 {
            return;
        }
        for number in 0..self.messages.div_ceil(BLOCK) {
            let block = self.block(number);
            let mut left = block.repeats;
            while left != 0 {
                let index = block.start + u64::from(left.trailing_zeros());
                if let Role::Repeat { number, changed } = self.role_in(block, index) {
                    found(number, changed);
                }
                left &= left - 1;
            }
        }
    }

    fn role_in(&self, block: Block, index: u64) -> Role {
        let rank = block.repeats_before(index);
        let earlier = index - rank;
        if block.repeats >> (index - block.start) & 1 == 0 {
            return Role::Original(earlier);
        }
        let kind = self.counts.kind(rank);
        let range = match kind {
            Kind::Any | Kind::Changed => self.any_range(index, earlier),
            Kind::Immediate => self.next_range(block, index, earlier),
            Kind::Delayed => match self.far(index) {
                0 => 0..earlier,
                far => 0..far,
            },
        };
        let draw = mix(self.originals_key.wrapping_add(index));
        Role::Repeat {
            number: range.start + below(draw, range.end - range.start),
            changed: kind == Kind::Changed,
        }
    }

    /// Returns the events that a repeat of any distance is drawn from. Half of the draws pick a near event, half a far one.
    fn any_range(&self, index: u64, earlier: u64) -> std::ops::Range<u64> {
        let near = mix(self.originals_key.wrapping_add(index)) & 1 == 0;
        match (near, self.far(index)) {
            // If no event is near, or none is far, any earlier event is picked.
            (true, far) if far < earlier => far..earlier,
            (false, far @ 1..) => 0..far,
            _ => 0..earlier,
        }
    }

    /// Returns the events whose originals are among the last few messages, or else the last event.
    fn next_range(&self, block: Block, index: u64, earlier: u64) -> std::ops::Range<u64> {
        let start = index.saturating_sub(NEXT_MESSAGES);
        let block = match start >= block.start {
            true => block,
            false => self.block(start / BLOCK),
        };
        let first = start - block.repeats_before(start);
        first.min(earlier - 1)..earlier
    }

    /// Returns how many events are far before a message. Blocks are not split, so near events can be a little nearer than
    /// [`NEAR_MESSAGES`], never farther.
    fn far(&self, index: u64) -> u64 {
        let block = index.saturating_sub(NEAR_MESSAGES).div_ceil(BLOCK) * BLOCK;
        let block = block.min(index / BLOCK * BLOCK);
        block - self.duplicates_before(block)
    }

    /// Returns the number of repeats among the first `messages` messages, which must be whole blocks or
    /// the whole burst. The number grows evenly and ends at `duplicates`, so the total is exact.
    fn duplicates_before(&self, messages: u64) -> u64 {
        let messages = messages.min(self.messages);
        messages * self.duplicates / self.messages
    }

    /// Draws which messages of a block are repeats, by sequential sampling: each position is taken with the probability
    /// "repeats left / positions left", which gives the exact count.
    fn block(&self, number: u64) -> Block {
        let start = number * BLOCK;
        let mut positions_left = (self.messages - start).min(BLOCK);
        let repeats_before = self.duplicates_before(start);
        let mut repeats_left = self.duplicates_before(start + BLOCK) - repeats_before;
        let mut offset = 0;
        if number == 0 {
            // The first message cannot be a repeat. The other positions suffice, because the first
            // block has fewer repeats than messages.
            offset = 1;
            positions_left -= 1;
        }
        debug_assert!(repeats_left <= positions_left);
        let mut state = mix(self.roles_key.wrapping_add(number));
        let mut repeats = 0;
        while repeats_left > 0 {
            state = state
                .wrapping_mul(0x5851_f42d_4c95_7f2d)
                .wrapping_add(0x1405_7b7e_f767_814f);
            if ((state >> 32) * positions_left) >> 32 < repeats_left {
                repeats |= 1 << offset;
                repeats_left -= 1;
            }
            offset += 1;
            positions_left -= 1;
        }
        Block {
            start,
            repeats_before,
            repeats,
        }
    }
}
