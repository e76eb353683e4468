//! The start of histories, and the errors of their clocks.

use protocol::time::Timestamp;

/// The time at which a history begins that crosses no change of a clock.
pub const START: Timestamp = Timestamp::from_ms(1_700_000_000_000);
/// The largest error of a clock, to either side, so that two clocks differ by less than two seconds.
pub const SKEW_MAX_MS: i64 = 999;
