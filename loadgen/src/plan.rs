//! What a burst consists of: which message is which event, and which messages are repeats.
//!
//! A plan is arithmetic, not data. Everything about message `i` follows from the configuration
//! and `i`, in constant time and memory, so a burst of any length can be sent by many tasks and
//! audited later without a list of what was sent.
//!
//! Three numberings occur. A *message* has an index from 0 to `messages`; an *original* is the
//! first message of an event, and the event's *number* counts originals in order, from 0 to
//! `unique`; every other message repeats an original that comes before it.
//!
//! Invariants, checked by the tests below: of `messages` exactly `round(messages × percent / 100)`
//! are repeats; a repeat's original comes earlier; every event number has exactly one original.

use serde::Serialize;

use crate::body::{self, mix};

/// The longest burst, in messages. Products of two such numbers still fit 64 bits.
pub const MESSAGES_MAX: u64 = 1_000_000_000;

/// The largest body, in bytes: the SQS limit, which counts attributes too (we send none).
///
/// Source: <https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/quotas-messages.html>
pub const BODY_BYTES_MAX: usize = 1_048_576;

/// Half of the repeats lie at most this many messages behind their original.
pub const NEAR_MESSAGES: u64 = 1_000;

/// Messages whose roles are drawn together. At most 64: the roles of a block are the bits of a word.
const BLOCK: u64 = 64;

const ROLES: u64 = 0x524f_4c45_5300_0001;
const ORIGINALS: u64 = 0x4f52_4947_0000_0002;

/// The five numbers a burst follows from.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct PlanConfig {
    /// Makes event ids and content differ from those of other bursts.
    pub seed: u64,
    /// How many messages are sent, repeats included.
    pub messages: u64,
    /// How many of the messages are repeats, from 0 to below 100.
    pub duplicates_percent: f64,
    /// The exact length of every body.
    pub size_bytes: usize,
    /// How many sources, `s0` and on, the events are spread over.
    pub sources: u32,
}

impl Default for PlanConfig {
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

/// Why a configuration describes no burst.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum PlanError {
    /// Too few or too many messages.
    #[error("plan `{0}` messages: allowed are 1 to {MESSAGES_MAX}")]
    Messages(u64),
    /// Not a share that leaves originals.
    #[error("plan `{0}` % duplicates: allowed are 0 to below 100, for example 99.9")]
    Duplicates(f64),
    /// The share is allowed, but so few messages round up to nothing but repeats.
    #[error(
        "plan `{percent}` % duplicates among `{messages}` messages: \
         rounded, that leaves no original; allowed is what leaves at least one"
    )]
    NoOriginal {
        /// The messages asked for.
        messages: u64,
        /// The share asked for.
        percent: f64,
    },
    /// The body would not hold its own frame, or not fit a message.
    #[error("plan bodies of `{size}` bytes: allowed are {min} to {BODY_BYTES_MAX} for this plan")]
    Size {
        /// The size asked for.
        size: usize,
        /// What the longest frame of this plan takes.
        min: usize,
    },
    /// No source at all.
    #[error("plan `{0}` sources: allowed is 1 or more")]
    Sources(u32),
}

/// One message of a burst.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Planned {
    /// What makes the event the same event; the body's `id`.
    pub event_id: String,
    /// The message body, a JSON object of exactly the planned size.
    pub body: String,
    /// The event's source: `k` of `s<k>`.
    pub source: u32,
}

/// A burst, as a function from message index to message.
#[derive(Clone, Debug)]
pub struct Plan {
    config: PlanConfig,
    duplicates: u64,
    roles_key: u64,
    originals_key: u64,
    pub(crate) body: body::Frame,
}

impl Plan {
    /// Checks a configuration and makes it a plan.
    ///
    /// # Errors
    /// Names the first number that is out of range, with the range.
    pub fn new(config: PlanConfig) -> Result<Self, PlanError> {
        let PlanConfig {
            seed,
            messages,
            duplicates_percent: percent,
            size_bytes,
            sources,
        } = config;
        if !(1..=MESSAGES_MAX).contains(&messages) {
            return Err(PlanError::Messages(messages));
        }
        if !(0.0..100.0).contains(&percent) {
            return Err(PlanError::Duplicates(percent));
        }
        let duplicates = duplicates_of(messages, percent);
        if duplicates >= messages {
            return Err(PlanError::NoOriginal { messages, percent });
        }
        if sources == 0 {
            return Err(PlanError::Sources(sources));
        }
        let frame = body::Frame::new(seed, sources, size_bytes);
        let min = frame.min_bytes(messages - duplicates - 1);
        if !(min..=BODY_BYTES_MAX).contains(&size_bytes) {
            return Err(PlanError::Size {
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

    /// The numbers this plan follows from.
    pub fn config(&self) -> &PlanConfig {
        &self.config
    }

    /// How many messages the burst has, repeats included; at least 1.
    #[expect(
        clippy::len_without_is_empty,
        reason = "a plan has at least one message"
    )]
    pub fn len(&self) -> u64 {
        self.config.messages
    }

    /// How many distinct events the burst has.
    pub fn unique(&self) -> u64 {
        self.config.messages - self.duplicates
    }

    /// How many messages repeat an earlier one.
    pub fn duplicates(&self) -> u64 {
        self.duplicates
    }

    /// Makes one message.
    ///
    /// # Panics
    /// If `index` is not below [`Plan::len`].
    pub fn message(&self, index: u64) -> Planned {
        let number = self.event_number(index);
        let mut body = Vec::new();
        self.body.render(number, &mut body);
        Planned {
            event_id: self.event_id(number),
            body: String::from_utf8(body).expect("bodies are made of ascii alone"),
            source: self.body.source(number),
        }
    }

    /// Tells which event a message carries.
    ///
    /// # Panics
    /// If `index` is not below [`Plan::len`].
    pub fn event_number(&self, index: u64) -> u64 {
        match self.role(index) {
            Role::Original(number) => number,
            Role::Repeat { earlier } => self.original_of(index, earlier),
        }
    }

    /// Tells whether a message repeats an earlier one.
    ///
    /// # Panics
    /// If `index` is not below [`Plan::len`].
    pub fn is_duplicate(&self, index: u64) -> bool {
        matches!(self.role(index), Role::Repeat { .. })
    }

    /// The event id of an event number: `<seed, hexadecimal>-<number>`.
    pub fn event_id(&self, number: u64) -> String {
        self.body.event_id(number)
    }

    /// The event number of an event id of this plan; `None` for any other text.
    pub fn number_of(&self, event_id: &str) -> Option<u64> {
        self.body
            .number_of(event_id)
            .filter(|number| *number < self.unique())
    }

    /// Replaces the contents of `out` by the body of an event, made from its number alone.
    pub fn render_body(&self, number: u64, out: &mut Vec<u8>) {
        self.body.render(number, out);
    }

    /// Counts how often each event is sent; one pass over the burst, 4 bytes an event.
    pub fn copies(&self) -> Vec<u32> {
        let unique = usize::try_from(self.unique()).expect("an event count fits the address space");
        let mut copies = vec![0u32; unique];
        for index in 0..self.len() {
            copies[self.event_number(index) as usize] += 1;
        }
        copies
    }

    /// Repeats among the first `messages` messages, where that is a multiple of the block length or
    /// the whole burst. Growing evenly and ending at `duplicates` is what makes the total exact.
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

    /// Draws the places of a block's repeats, as bits, by sequential sampling: each place is taken
    /// with the probability "still to place / places left", which ends with the exact count.
    fn repeats_in(&self, block: u64) -> u64 {
        let start = block * BLOCK;
        let mut open = (self.config.messages - start).min(BLOCK);
        let mut wanted = self.duplicates_before(start + BLOCK) - self.duplicates_before(start);
        let mut offset = 0;
        if block == 0 {
            // The first message has nothing to repeat. Fewer repeats than messages in every
            // prefix of whole blocks: the remaining places suffice.
            offset = 1;
            open -= 1;
        }
        debug_assert!(wanted <= open);
        let mut state = mix(self.roles_key.wrapping_add(block));
        let mut places = 0;
        while wanted > 0 {
            state = state
                .wrapping_mul(0x5851_f42d_4c95_7f2d)
                .wrapping_add(0x1405_7b7e_f767_814f);
            if ((state >> 32) * open) >> 32 < wanted {
                places |= 1 << offset;
                wanted -= 1;
            }
            offset += 1;
            open -= 1;
        }
        places
    }

    /// Picks the event that the repeat at `index` repeats, among the `earlier` ones: as often near
    /// as anywhere before that. Whole blocks are compared, so near can be a little less than
    /// [`NEAR_MESSAGES`], never more.
    fn original_of(&self, index: u64, earlier: u64) -> u64 {
        let draw = mix(self.originals_key.wrapping_add(index));
        let block = index.saturating_sub(NEAR_MESSAGES).div_ceil(BLOCK) * BLOCK;
        let block = block.min(index / BLOCK * BLOCK);
        let far = block - self.duplicates_before(block);
        let near = draw & 1 == 0;
        let range = match (near, far) {
            // Where no original is near, or none is far, the other kind must do.
            (true, far) if far < earlier => far..earlier,
            (false, 1..) => 0..far,
            _ => 0..earlier,
        };
        range.start + below(draw, range.end - range.start)
    }
}

/// What a message is within its burst.
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
            let Ok(plan) = Plan::new(config(seed, messages, percent)) else {
                prop_assert_eq!(duplicates_of(messages, percent), messages);
                return Ok(());
            };
            let mut originals = 0;
            let mut repeats = 0;
            for index in 0..messages {
                let number = plan.event_number(index);
                if plan.is_duplicate(index) {
                    repeats += 1;
                    prop_assert!(number < originals, "message {index} repeats the later {number}");
                } else {
                    prop_assert_eq!(number, originals);
                    originals += 1;
                }
            }
            prop_assert_eq!(repeats, (messages as f64 * percent / 100.0).round() as u64);
            prop_assert_eq!(originals, plan.unique());
            prop_assert_eq!(plan.copies().iter().map(|n| u64::from(*n)).sum::<u64>(), messages);
            prop_assert!(plan.copies().iter().all(|n| *n >= 1));
        }

        #[test]
        fn every_body_is_json_of_the_exact_size_and_a_repeat_is_identical(
            seed: u64, size in 140usize..2_000, sources in 1u32..50, index in 0u64..1_000,
        ) {
            let plan = Plan::new(PlanConfig {
                size_bytes: size, sources, ..config(seed, 1_000, 30.0)
            }).unwrap();
            let message = plan.message(index);
            prop_assert_eq!(message.body.len(), size);
            let json: serde_json::Value = serde_json::from_str(&message.body).unwrap();
            prop_assert_eq!(json["id"].as_str(), Some(message.event_id.as_str()));
            prop_assert_eq!(json["n"].as_u64(), Some(plan.event_number(index)));
            prop_assert_eq!(&json["source"], &format!("s{}", message.source));
            prop_assert_eq!(plan.number_of(&message.event_id), Some(plan.event_number(index)));
            let mut again = Vec::new();
            plan.render_body(plan.event_number(index), &mut again);
            prop_assert_eq!(again, message.body.into_bytes());
        }
    }

    #[test]
    fn half_of_the_repeats_are_near_and_the_rest_reach_back_to_the_start() {
        let plan = Plan::new(config(7, 100_000, 20.0)).unwrap();
        let mut first_seen = vec![0; plan.unique() as usize];
        let mut distances = Vec::new();
        for index in 0..plan.len() {
            let number = plan.event_number(index) as usize;
            match plan.is_duplicate(index) {
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
    fn refusals_name_the_value_and_what_is_allowed() {
        let refusal = |config| Plan::new(config).unwrap_err().to_string();
        assert_eq!(
            refusal(config(1, 10, 100.0)),
            "plan `100` % duplicates: allowed are 0 to below 100, for example 99.9"
        );
        assert!(refusal(config(1, 10, f64::NAN)).contains("`NaN`"));
        assert!(refusal(config(1, 10, -1.0)).contains("`-1`"));
        assert!(refusal(config(1, 10, 99.0)).contains("leaves no original"));
        assert!(refusal(config(1, 0, 0.0)).contains("1 to 1000000000"));
        assert!(
            refusal(PlanConfig {
                sources: 0,
                ..config(1, 1, 0.0)
            })
            .contains("`0` sources")
        );
        let small = refusal(PlanConfig {
            size_bytes: 10,
            ..config(1, 1, 0.0)
        });
        assert_eq!(
            small,
            "plan bodies of `10` bytes: allowed are 68 to 1048576 for this plan"
        );
    }

    #[test]
    fn the_named_minimum_is_accepted_and_is_the_least() {
        let at = |size_bytes| {
            Plan::new(PlanConfig {
                size_bytes,
                sources: 11,
                ..config(255, 1_001, 0.0)
            })
        };
        let Err(PlanError::Size { min, .. }) = at(0) else {
            panic!("0 bytes were accepted")
        };
        let plan = at(min).unwrap();
        assert!((0..plan.len()).all(|index| plan.message(index).body.len() == min));
        assert!(at(min - 1).is_err());
    }

    #[test]
    fn ids_of_other_seeds_and_numbers_outside_the_plan_are_not_of_this_plan() {
        let plan = Plan::new(config(0xab, 10, 50.0)).unwrap();
        assert_eq!(plan.number_of("ab-4"), Some(4));
        for other in [
            "ab-5", "ac-4", "ab-04", "ab-", "ab-+4", "4", "", "AB-4", "ab-4 ",
        ] {
            assert_eq!(plan.number_of(other), None, "{other}");
        }
    }

    fn config(seed: u64, messages: u64, duplicates_percent: f64) -> PlanConfig {
        PlanConfig {
            seed,
            messages,
            duplicates_percent,
            size_bytes: 300,
            sources: 1,
        }
    }
}
