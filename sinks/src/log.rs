use async_trait::async_trait;
use tracing::info;

use crate::part::Part;
use crate::sink::{Receipt, Sink, SinkError};

/// Counts in the log, never bodies. For trying the service out. It renders nothing, so nothing is rejected.
#[derive(Debug)]
pub struct LogSink;

#[async_trait]
impl Sink for LogSink {
    async fn deliver(&self, part: &Part) -> Result<Receipt, SinkError> {
        let bytes: usize = part.items.iter().map(|item| item.body.len()).sum();
        info!(part_key = part.key(), source = %part.source, items_count = part.items.len(), body_bytes = bytes, "part delivered to the log");
        Ok(Receipt::new("log"))
    }
}
