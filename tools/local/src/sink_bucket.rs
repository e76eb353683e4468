//! The bucket of the sink `s3`.

use std::sync::Arc;

use emulators::StoreOutcome;
use emulators::s3::BucketFaults;
use loadgen::Deliveries;

use crate::faults::SinkErrors;

/// The faults of the sink's bucket: records every put, and makes some of them fail.
#[derive(Debug)]
pub struct SinkBucket {
    pub deliveries: Arc<Deliveries>,
    /// Decides which requests fail.
    pub errors: Arc<SinkErrors>,
}

impl BucketFaults for SinkBucket {
    fn is_down(&self) -> bool {
        self.errors.refuses_request()
    }

    fn put(&self, key: &str, content: &[u8]) -> StoreOutcome {
        self.deliveries.attempted(key, content);
        self.errors.next()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::faults::FaultOptions;

    #[test]
    fn deliveries_to_the_bucket_are_counted_and_fail_having_stored_the_object_or_not() {
        let options = FaultOptions {
            sink_error_rate: "100".parse().unwrap(),
            ..FaultOptions::default()
        };
        let bucket = SinkBucket {
            deliveries: Arc::default(),
            errors: Arc::new(SinkErrors::new(&options)),
        };
        let outcomes = (0..20).map(|part| bucket.put(&part.to_string(), b"content"));
        let outcomes = Vec::from_iter(outcomes);
        assert!(!outcomes.contains(&StoreOutcome::Normal));
        assert!(outcomes.contains(&StoreOutcome::FailsBeforeStoring));
        assert!(outcomes.contains(&StoreOutcome::FailsAfterStoring));
        assert_eq!(bucket.deliveries.report().attempts, 20);
    }
}
