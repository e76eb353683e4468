//! When histories begin, and how wrong their clocks are.

use protocol::time::Timestamp;

/// When every history begins.
pub const START: Timestamp = Timestamp::from_ms(1_700_000_000_000);
/// How far any clock is from the right time, to either side: two of them differ by less than two seconds.
pub const SKEW_MAX_MS: i64 = 999;
