//! Why a configuration is not a workload.

use super::limits::{BODY_BYTES_MAX, MESSAGES_MAX, SKEW_MAX};

/// Why a configuration is not a valid workload.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum WorkloadError {
    /// There are too few or too many messages.
    #[error("the workload: wrong number of messages: got `{0}`, expected 1 to {MESSAGES_MAX}")]
    Messages(u64),
    /// The share of duplicates, of one kind or of all, is not a number from 0 to below 100.
    #[error(
        "the workload: wrong share of duplicates: got `{0}` %, expected 0 to below 100, for example 99.9"
    )]
    Duplicates(f64),
    /// With so few messages, the number of repeats is rounded up to all messages.
    #[error(
        "the workload: wrong share of duplicates: got `{percent}` % of `{messages}` messages, \
         which rounding makes all of them, expected a share that leaves an original"
    )]
    NoOriginal { messages: u64, percent: f64 },
    /// A size is too small for the fields of a body, or too large for a message.
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
    /// The skew of the sources is too large.
    #[error("the workload: wrong skew of sources: got `{0}`, expected 0 to {SKEW_MAX}")]
    Skew(u32),
}
