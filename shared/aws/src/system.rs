use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use protocol::ids::BatchId;
use protocol::time::Timestamp;
use shared::ports::{Clock, Entropy, MetricLog};
use uuid::{NoContext, Uuid};

/// The machine's clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

#[async_trait]
impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        SystemTime::now().into()
    }

    async fn sleep(&self, duration: Duration) {
        tokio::time::sleep(duration).await;
    }
}

/// The machine's randomness: batch ids from the operating system's generator, jitter from a fast one per thread.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemEntropy;

impl Entropy for SystemEntropy {
    fn batch_id(&self, now: Timestamp) -> BatchId {
        let nanos = (now.as_ms() % 1_000) as u32 * 1_000_000;
        // No counter but 74 random bits, because environments that do not know of each other must never make the same
        // id.
        let timestamp = uuid::Timestamp::from_unix(NoContext, now.as_ms() / 1_000, nanos);
        BatchId::new(Uuid::new_v7(timestamp))
    }

    fn secret(&self) -> [u8; 32] {
        let mut secret = [0; 32];
        for half in secret.chunks_mut(16) {
            half.copy_from_slice(Uuid::new_v4().as_bytes());
        }
        secret
    }

    fn jitter(&self) -> f64 {
        fastrand::f64()
    }
}

/// Metrics on standard output, from where Lambda takes them to CloudWatch Logs.
#[derive(Clone, Copy, Debug, Default)]
pub struct StdoutMetricLog;

impl MetricLog for StdoutMetricLog {
    fn write(&self, line: &str) {
        println!("{line}");
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn batch_ids_sort_by_the_time_given_and_never_repeat() {
        let ids = |ms| {
            (0..1_000).map(move |_| SystemEntropy.batch_id(Timestamp::from_ms(ms)).to_string())
        };
        let early: BTreeSet<String> = ids(1_700_000_000_999).collect();
        let late: BTreeSet<String> = ids(1_700_000_001_000).collect();
        assert_eq!((early.len(), late.len()), (1_000, 1_000));
        assert!(early.last() < late.first());
    }

    #[test]
    fn jitter_is_within_its_range() {
        assert!(
            (0..1_000)
                .map(|_| SystemEntropy.jitter())
                .all(|jitter| (0.0..1.0).contains(&jitter))
        );
    }
}
