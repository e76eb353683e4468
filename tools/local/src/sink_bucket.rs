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
