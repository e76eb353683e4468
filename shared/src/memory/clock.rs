use std::sync::Mutex;
use std::time::Duration;

use async_trait::async_trait;
use protocol::ids::BatchId;
use protocol::time::Timestamp;
use uuid::Builder;

use crate::locked::locked;
use crate::ports::{Clock, Entropy};

/// A clock that moves only by [`advance`](ManualClock::advance) and by sleeping.
#[derive(Debug)]
pub struct ManualClock(Mutex<Timestamp>);

impl ManualClock {
    pub fn at(now: Timestamp) -> ManualClock {
        ManualClock(Mutex::new(now))
    }

    pub fn advance(&self, by: Duration) {
        let mut now = locked(&self.0);
        *now = *now + by;
    }
}

#[async_trait]
impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        *locked(&self.0)
    }

    /// Moves the clock when the future is first polled, not when it is created. So a future that races against a sleep
    /// and is ready first does not change the time.
    async fn sleep(&self, duration: Duration) {
        self.advance(duration);
    }
}

/// Randomness from a seed.
#[derive(Debug)]
pub struct SeededEntropy(Mutex<u64>);

impl SeededEntropy {
    pub fn new(seed: u64) -> SeededEntropy {
        SeededEntropy(Mutex::new(seed))
    }

    /// Returns the next number of SplitMix64: <https://prng.di.unimi.it/splitmix64.c>.
    fn next(&self) -> u64 {
        let mut state = locked(&self.0);
        *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = *state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

impl Entropy for SeededEntropy {
    fn batch_id(&self, now: Timestamp) -> BatchId {
        let mut random = [0; 10];
        random[..8].copy_from_slice(&self.next().to_be_bytes());
        random[8..].copy_from_slice(&self.next().to_be_bytes()[..2]);
        BatchId::new(Builder::from_unix_timestamp_millis(now.as_ms(), &random).into_uuid())
    }

    fn secret(&self) -> [u8; 32] {
        let mut secret = [0; 32];
        for part in secret.chunks_mut(8) {
            part.copy_from_slice(&self.next().to_be_bytes());
        }
        secret
    }

    fn jitter(&self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_seed_gives_one_sequence_of_batch_ids_sorted_by_time() {
        let ids = |seed| {
            let entropy = SeededEntropy::new(seed);
            [1_000, 2_000, 3_000].map(|ms| {
                entropy
                    .batch_id(Timestamp::from_ms(1_700_000_000_000 + ms))
                    .to_string()
            })
        };
        assert_eq!(ids(1), ids(1));
        assert_ne!(ids(1), ids(2));
        assert!(ids(1).is_sorted());
        assert_eq!(&ids(1)[0][14..15], "7");
    }
}
