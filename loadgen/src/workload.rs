//! The workload of a burst: which message carries which event, and which messages are repeats.
//!
//! A workload stores no messages. It computes message `i` from the configuration and `i`, in constant
//! time and memory. So many tasks can send a burst of any length, and an audit needs no list of the
//! sent messages.
//!
//! A *message* has an index, from 0 to below `messages`. An *original* is the first message of an
//! event. The *number* of an event, from 0 to below `unique`, counts the originals in order. Every
//! other message is a *repeat* of an earlier original. An event has one body, or two: then some of its
//! repeats have the *changed* body.

mod body;
mod duplicates;
mod error;
mod limits;
mod roles;
mod sizes;
#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};

pub(crate) use body::Content;
use body::Frame;
pub use duplicates::{Duplicates, DuplicatesError};
pub use error::WorkloadError;
pub use limits::{BODY_BYTES_MAX, MESSAGES_MAX, NEAR_MESSAGES, NEXT_MESSAGES, SKEW_MAX};
use roles::{Role, Roles};
pub use sizes::{Sizes, SizesError};

/// What determines a burst.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorkloadConfig {
    /// A number that makes event ids and bodies differ from those of other bursts.
    pub seed: u64,
    /// The number of messages, including repeats.
    pub messages: u64,
    /// The shares of repeats among the messages. Together they are below 100 %.
    pub duplicates: Duplicates,
    /// The lengths of the bodies.
    pub sizes: Sizes,
    /// The number of sources, `s0`, `s1` and so on, that the events are spread over.
    pub sources: u32,
    /// How much more frequent the first sources are than the last: 0 makes all as frequent. With `k`, the first source has
    /// `sources` to the power of `-1 / (k + 1)` of the events.
    pub skew: u32,
}

impl Default for WorkloadConfig {
    fn default() -> Self {
        Self {
            seed: 1,
            messages: 100_000,
            duplicates: Duplicates::default(),
            sizes: Sizes::Fixed(300),
            sources: 1,
            skew: 0,
        }
    }
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
    roles: Roles,
    pub(crate) body: Frame,
}

impl Workload {
    /// Makes a workload.
    ///
    /// # Errors
    /// The first number of the configuration that is out of range, and the range.
    pub fn new(config: WorkloadConfig) -> Result<Self, WorkloadError> {
        let messages = config.messages;
        if !(1..=MESSAGES_MAX).contains(&messages) {
            return Err(WorkloadError::Messages(messages));
        }
        let percent = config.duplicates.percent();
        let shares = config.duplicates.by_name().map(|(_, percent)| percent);
        let wrong = |share: &f64| !(0.0..100.0).contains(share);
        if let Some(share) = shares.into_iter().chain([percent]).find(wrong) {
            return Err(WorkloadError::Duplicates(share));
        }
        let counts = config.duplicates.counts(messages);
        let duplicates = counts.total();
        if duplicates >= messages {
            return Err(WorkloadError::NoOriginal { messages, percent });
        }
        if config.sources == 0 {
            return Err(WorkloadError::Sources(config.sources));
        }
        if config.skew > SKEW_MAX {
            return Err(WorkloadError::Skew(config.skew));
        }
        let sizes = config.sizes.clone();
        let frame = Frame::new(config.seed, config.sources, config.skew, sizes);
        let min = frame.min_bytes(messages - duplicates - 1, counts.changed > 0);
        let (size_min, size_max) = config.sizes.range();
        if size_min < min {
            return Err(WorkloadError::Size {
                size: size_min,
                min,
            });
        }
        if !(size_min..=BODY_BYTES_MAX).contains(&size_max) {
            return Err(WorkloadError::Size {
                size: size_max,
                min: size_min,
            });
        }
        let roles = Roles::new(config.seed, messages, counts);
        Ok(Self {
            config,
            duplicates,
            roles,
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
        let (number, content) = self.content(index);
        let mut body = Vec::new();
        self.body.render(number, content, &mut body);
        WorkloadMessage {
            event_id: self.event_id(number),
            body: String::from_utf8(body).expect("bodies are made of ascii alone"),
            source: self.body.source(number),
        }
    }

    /// Returns the length of the body of a message.
    ///
    /// # Panics
    /// If `index` is not below [`Workload::len`].
    pub fn body_bytes(&self, index: u64) -> usize {
        match self.config.sizes {
            Sizes::Fixed(size) => size,
            Sizes::Uniform { .. } | Sizes::Weighted(_) => self.body.size(self.event_number(index)),
        }
    }

    /// Returns the number of the event that a message carries.
    ///
    /// # Panics
    /// If `index` is not below [`Workload::len`].
    pub fn event_number(&self, index: u64) -> u64 {
        self.content(index).0
    }

    /// Returns whether a message is a repeat.
    ///
    /// # Panics
    /// If `index` is not below [`Workload::len`].
    pub fn is_duplicate(&self, index: u64) -> bool {
        matches!(self.roles.role(index), Role::Repeat { .. })
    }

    /// Returns whether a message is a repeat with another body than its original.
    ///
    /// # Panics
    /// If `index` is not below [`Workload::len`].
    pub fn is_changed(&self, index: u64) -> bool {
        self.content(index).1 == Content::Changed
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

    /// Returns whether some events have two bodies.
    pub fn has_changed(&self) -> bool {
        self.roles.has_changed()
    }

    /// Calls `found` with the event number of every repeat, and whether the repeat has the changed body. Takes some
    /// nanoseconds a message.
    pub(crate) fn for_each_repeat(&self, found: impl FnMut(u64, bool)) {
        self.roles.for_each_repeat(found);
    }

    fn content(&self, index: u64) -> (u64, Content) {
        match self.roles.role(index) {
            Role::Repeat {
                number,
                changed: true,
            } => (number, Content::Changed),
            Role::Original(number) | Role::Repeat { number, .. } => (number, Content::Original),
        }
    }
}
