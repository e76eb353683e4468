//! The workload of a burst: which message carries which event, and which messages are repeats.
//!
//! A workload stores no messages. It computes message `i` from the configuration and `i`, in constant
//! time and memory. So many tasks can send a burst of any length, and an audit needs no list of the
//! sent messages.
//!
//! A *message* has an index, from 0 to below `messages`. An *original* is the first message of an
//! event. The *number* of an event, from 0 to below `unique`, counts the originals in order. Every
//! other message is a *repeat* of an earlier original.
//!
//! Invariants, which the tests below check: exactly `round(messages × percent / 100)` of the
//! messages are repeats; the original of a repeat comes earlier; every event has exactly one original.

use serde::Serialize;

use crate::body::{self, mix};

/// The longest burst, in messages. Products of two such numbers still fit 64 bits.
pub const MESSAGES_MAX: u64 = 1_000_000_000;

/// The largest body, in bytes. The SQS limit includes attributes, but the messages have none.
///
/// Source: <https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/quotas-messages.html>
pub const BODY_BYTES_MAX: usize = 1_048_576;

/// About half of the repeats come at most this many messages after their original.
pub const NEAR_MESSAGES: u64 = 1_000;

/// The number of messages whose roles are drawn together. At most 64, because a `u64` has a bit for each.
const BLOCK: u64 = 64;

const ROLES: u64 = 0x524f_4c45_5300_0001;
const ORIGINALS: u64 = 0x4f52_4947_0000_0002;

/// The five numbers that determine a burst.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct WorkloadConfig {
    /// A number that makes event ids and bodies differ from those of other bursts.
    pub seed: u64,
    /// The number of messages, including repeats.
    pub messages: u64,
    /// The share of repeats among the messages, in percent, from 0 to below 100.
    pub duplicates_percent: f64,
    /// The exact length of every body, in bytes.
    pub size_bytes: usize,
    /// The number of sources, `s0`, `s1` and so on, that the events are spread over.
    pub sources: u32,
}

impl Default for WorkloadConfig {
    fn default() -> Self {
        Self {
            seed: 1,
            messages: 100_000,
            duplicates_percent: 0.0,
            size_bytes: 300,
            sources: 1,
        }
    }
}

/// Why a configuration is not a valid workload.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum WorkloadError {
    /// There are too few or too many messages.
    #[error("the workload: wrong number of messages: got `{0}`, expected 1 to {MESSAGES_MAX}")]
    Messages(u64),
    /// The share of duplicates is not a number from 0 to below 100.
    #[error(
        "the workload: wrong share of duplicates: got `{0}` %, expected 0 to below 100, for example 99.9"
    )]
    Duplicates(f64),
    /// With so few messages, the number of repeats is rounded up to all messages.
    #[error(
        "the workload: wrong share of duplicates: got `{percent}` % of `{messages}` messages, \
         which rounding makes all of them, expected a share that leaves an original"
    )]
    NoOriginal {
        /// The configured number of messages.
        messages: u64,
        /// The configured share of duplicates.
        percent: f64,
    },
    /// The size is too small for the fields of a body, or too large for a message.
    #[error(
        "the workload: wrong body size: got `{size}` bytes, expected {min} to {BODY_BYTES_MAX} for this workload"
    )]
    Size {
        /// The configured size, in bytes.
        size: usize,
        /// The smallest size, in bytes, that fits every body of this workload.
        min: usize,
    },
    /// There are no sources.
    #[error("the workload: wrong number of sources: got `{0}`, expected 1 or more")]
    Sources(u32),
}

/// One message of a burst.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkloadMessage {
    /// The id of the event, which is the body's `id`. All messages of one event have the same id.
    pub event_id: String,
    /// The message body, a JSON object of exactly the planned size.
    pub body: String,
    /// The number of the event's source: `k` of `s<k>`.
    pub source: u32,
}

/// A burst, whose messages are computed from their index.
#[derive(Clone, Debug)]
pub struct Workload {
    config: WorkloadConfig,
    duplicates: u64,
    roles_key: u64,
    originals_key: u64,
    pub(crate) body: body::Frame,
}

impl Workload {
    /// Makes a workload.
    ///
    /// # Errors
    /// The first number of the configuration that is out of range, and the range.
    pub fn new(config: WorkloadConfig) -> Result<Self, WorkloadError> {
        let WorkloadConfig {
            seed,
            messages,
            duplicates_percent: percent,
            size_bytes,
            sources,
        } = config;
        if !(1..=MESSAGES_MAX).contains(&messages) {
            return Err(WorkloadError::Messages(messages));
        }
        if !(0.0..100.0).contains(&percent) {
            return Err(WorkloadError::Duplicates(percent));
        }
        let duplicates = duplicates_of(messages, percent);
        if duplicates >= messages {
            return Err(WorkloadError::NoOriginal { messages, percent });
        }
        if sources == 0 {
            return Err(WorkloadError::Sources(sources));
        }
        let frame = body::Frame::new(seed, sources, size_bytes);
        let min = frame.min_bytes(messages - duplicates - 1);
        if !(min..=BODY_BYTES_MAX).contains(&size_bytes) {
            return Err(WorkloadError::Size {
                size: size_bytes,
                min,
            });
        }
        Ok(Self {
            config,
            duplicates,
            roles_key: mix(seed ^ ROLES),
            originals_key: mix(seed ^ ORIGINALS),
            body: frame,
        })
    }

    /// Returns the configuration that the workload was made from.
    pub fn config(&self) -> &WorkloadConfig {
        &self.config
    }

    /// Returns the number of messages, including repeats; at least 1.
    #[expect(
        clippy::len_without_is_empty,
        reason = "a workload has at least one message"
    )]
    pub fn len(&self) -> u64 {
        self.config.messages
    }

    /// Returns the number of distinct events.
    pub fn unique(&self) -> u64 {
        self.config.messages - self.duplicates
    }

    /// Returns the number of repeats.
    pub fn duplicates(&self) -> u64 {
        self.duplicates
    }

    /// Returns one message.
    ///
    /// # Panics
    /// If `index` is not below [`Workload::len`].
    pub fn message(&self, index: u64) -> WorkloadMessage {
        let number = self.event_number(index);
        let mut body = Vec::new();
        self.body.render(number, &mut body);
        WorkloadMessage {
            event_id: self.event_id(number),
            body: String::from_utf8(body).expect("bodies are made of ascii alone"),
            source: self.body.source(number),
        }
    }

    /// Returns the number of the event that a message carries.
    ///
    /// # Panics
    /// If `index` is not below [`Workload::len`].
    pub fn event_number(&self, index: u64) -> u64 {
        match self.role(index) {
            Role::Original(number) => number,
            Role::Repeat { earlier } => self.original_of(index, earlier),
        }
    }

    /// Returns whether a message is a repeat.
    ///
    /// # Panics
    /// If `index` is not below [`Workload::len`].
    pub fn is_duplicate(&self, index: u64) -> bool {
        matches!(self.role(index), Role::Repeat { .. })
    }

    /// Returns the event id of an event number: `<seed, hexadecimal>-<number>`.
    pub fn event_id(&self, number: u64) -> String {
        self.body.event_id(number)
    }

    /// Returns the event number of an event id of this workload; `None` for any other text.
    pub fn number_of(&self, event_id: &str) -> Option<u64> {
        self.body
            .number_of(event_id)
            .filter(|number| *number < self.unique())
    }

    /// Replaces the contents of `out` with the body of an event.
    pub fn render_body(&self, number: u64, out: &mut Vec<u8>) {
        self.body.render(number, out);
    }

    /// Returns how often each event is sent. Computes every message once, and takes 4 bytes per event.
    pub fn copies(&self) -> Vec<u32> {
        let unique = usize::try_from(self.unique()).expect("an event count fits the address space");
        let mut copies = vec![0u32; unique];
        for index in 0..self.len() {
            copies[self.event_number(index) as usize] += 1;
        }
        copies
    }

    /// Returns the number of repeats among the first `messages` messages, which must be whole blocks or
    /// the whole burst. The number grows evenly and ends at `duplicates`, so the total is exact.
    fn duplicates_before(&self, messages: u64) -> u64 {
        let messages = messages.min(self.config.messages);
        messages * self.duplicates / self.config.messages
    }

    fn role(&self, index: u64) -> Role {
        assert!(
            index < self.config.messages,
            "message {index} of {}",
            self.config.messages
        );
        if self.duplicates == 0 {
            return Role::Original(index);
        }
        let (block, offset) = (index / BLOCK, index % BLOCK);
        let repeats = self.repeats_in(block);
        let before = self.duplicates_before(block * BLOCK)
            + u64::from((repeats & ((1 << offset) - 1)).count_ones());
        match repeats >> offset & 1 {
            0 => Role::Original(index - before),
            _ => Role::Repeat {
                earlier: index - before,
            },
        }
    }

    /// Draws which messages of a block are repeats, as bits, by sequential sampling: each position is
    /// taken with the probability "repeats left / positions left", which gives the exact count.
    fn repeats_in(&self, block: u64) -> u64 {
        let start = block * BLOCK;
        let mut positions_left = (self.config.messages - start).min(BLOCK);
        let mut repeats_left =
            self.duplicates_before(start + BLOCK) - self.duplicates_before(start);
        let mut offset = 0;
        if block == 0 {
            // The first message cannot be a repeat. The other positions suffice, because the first
            // block has fewer repeats than messages.
            offset = 1;
            positions_left -= 1;
        }
        debug_assert!(repeats_left <= positions_left);
        let mut state = mix(self.roles_key.wrapping_add(block));
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
        repeats
    }

    /// Returns the number of the event that the message at `index` repeats, one of the first `earlier`
    /// events. Half of the draws pick a near event, half a far one. Blocks are not split, so near
    /// events can be a little nearer than [`NEAR_MESSAGES`], never farther.
    fn original_of(&self, index: u64, earlier: u64) -> u64 {
        let draw = mix(self.originals_key.wrapping_add(index));
        let block = index.saturating_sub(NEAR_MESSAGES).div_ceil(BLOCK) * BLOCK;
        let block = block.min(index / BLOCK * BLOCK);
        let far = block - self.duplicates_before(block);
        let near = draw & 1 == 0;
        let range = match (near, far) {
            // If no event is near, or none is far, any earlier event is picked.
            (true, far) if far < earlier => far..earlier,
            (false, 1..) => 0..far,
            _ => 0..earlier,
        };
        range.start + below(draw, range.end - range.start)
    }
}

/// The role of a message in its burst.
enum Role {
    /// The first message of the event with this number.
    Original(u64),
    /// A repeat; `earlier` originals come before it.
    Repeat { earlier: u64 },
}

fn duplicates_of(messages: u64, percent: f64) -> u64 {
    (messages as f64 * percent / 100.0).round() as u64
}

/// Maps 64 random bits to `0..end`.
fn below(bits: u64, end: u64) -> u64 {
    ((u128::from(bits) * u128::from(end)) >> 64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn duplicates_are_exact_and_repeat_an_earlier_original(
            seed: u64,
            messages in 1u64..5_000,
            percent in prop_oneof![0.0..100.0, Just(0.0), Just(99.9), Just(50.0), 99.0..100.0],
        ) {
            let Ok(workload) = Workload::new(config(seed, messages, percent)) else {
                prop_assert_eq!(duplicates_of(messages, percent), messages);
                return Ok(());
            };
            let mut originals = 0;
            let mut repeats = 0;
            for index in 0..messages {
                let number = workload.event_number(index);
                if workload.is_duplicate(index) {
                    repeats += 1;
                    prop_assert!(number < originals, "message {index} repeats the later {number}");
                } else {
                    prop_assert_eq!(number, originals);
                    originals += 1;
                }
            }
            prop_assert_eq!(repeats, (messages as f64 * percent / 100.0).round() as u64);
            prop_assert_eq!(originals, workload.unique());
            prop_assert_eq!(workload.copies().iter().map(|n| u64::from(*n)).sum::<u64>(), messages);
            prop_assert!(workload.copies().iter().all(|n| *n >= 1));
        }

        #[test]
        fn every_body_is_json_of_the_exact_size_and_a_repeat_is_identical(
            seed: u64, size in 140usize..2_000, sources in 1u32..50, index in 0u64..1_000,
        ) {
            let workload = Workload::new(WorkloadConfig {
                size_bytes: size, sources, ..config(seed, 1_000, 30.0)
            }).unwrap();
            let message = workload.message(index);
            prop_assert_eq!(message.body.len(), size);
            let json: serde_json::Value = serde_json::from_str(&message.body).unwrap();
            prop_assert_eq!(json["id"].as_str(), Some(message.event_id.as_str()));
            prop_assert_eq!(json["n"].as_u64(), Some(workload.event_number(index)));
            prop_assert_eq!(&json["source"], &format!("s{}", message.source));
            prop_assert_eq!(workload.number_of(&message.event_id), Some(workload.event_number(index)));
            let mut again = Vec::new();
            workload.render_body(workload.event_number(index), &mut again);
            prop_assert_eq!(again, message.body.into_bytes());
        }
    }

    #[test]
    fn half_of_the_repeats_are_near_and_half_reach_back_to_the_start() {
        let workload = Workload::new(config(7, 100_000, 20.0)).unwrap();
        let mut first_seen = vec![0; workload.unique() as usize];
        let mut distances = Vec::new();
        for index in 0..workload.len() {
            let number = workload.event_number(index) as usize;
            match workload.is_duplicate(index) {
                true => distances.push(index - first_seen[number]),
                false => first_seen[number] = index,
            }
        }
        let near = distances.iter().filter(|d| **d <= NEAR_MESSAGES).count();
        assert!((9_000..11_500).contains(&near), "{near} of 20000 near");
        assert!(distances.iter().any(|d| *d > 90_000));
        assert!(distances.iter().any(|d| *d < 10));
    }

    #[test]
    fn errors_have_the_value_and_the_allowed_range() {
        let refusal = |config| Workload::new(config).unwrap_err().to_string();
        assert_eq!(
            refusal(config(1, 10, 100.0)),
            "the workload: wrong share of duplicates: got `100` %, expected 0 to below 100, for example 99.9"
        );
        assert!(refusal(config(1, 10, f64::NAN)).contains("`NaN`"));
        assert!(refusal(config(1, 10, -1.0)).contains("`-1`"));
        assert!(refusal(config(1, 10, 99.0)).contains("expected a share that leaves an original"));
        assert!(refusal(config(1, 0, 0.0)).contains("1 to 1000000000"));
        assert!(
            refusal(WorkloadConfig {
                sources: 0,
                ..config(1, 1, 0.0)
            })
            .contains("sources: got `0`")
        );
        let small = refusal(WorkloadConfig {
            size_bytes: 10,
            ..config(1, 1, 0.0)
        });
        assert_eq!(
            small,
            "the workload: wrong body size: got `10` bytes, expected 68 to 1048576 for this workload"
        );
    }

    #[test]
    fn the_smallest_size_in_the_error_is_accepted_and_a_smaller_one_is_not() {
        let at = |size_bytes| {
            Workload::new(WorkloadConfig {
                size_bytes,
                sources: 11,
                ..config(255, 1_001, 0.0)
            })
        };
        let Err(WorkloadError::Size { min, .. }) = at(0) else {
            panic!("0 bytes were accepted")
        };
        let workload = at(min).unwrap();
        assert!((0..workload.len()).all(|index| workload.message(index).body.len() == min));
        assert!(at(min - 1).is_err());
    }

    #[test]
    fn ids_of_other_seeds_and_numbers_outside_the_plan_are_not_of_this_plan() {
        let workload = Workload::new(config(0xab, 10, 50.0)).unwrap();
        assert_eq!(workload.number_of("ab-4"), Some(4));
        for other in [
            "ab-5", "ac-4", "ab-04", "ab-", "ab-+4", "4", "", "AB-4", "ab-4 ",
        ] {
            assert_eq!(workload.number_of(other), None, "{other}");
        }
    }

    fn config(seed: u64, messages: u64, duplicates_percent: f64) -> WorkloadConfig {
        WorkloadConfig {
            seed,
            messages,
            duplicates_percent,
            size_bytes: 300,
            sources: 1,
        }
    }
}
