use async_trait::async_trait;
use tracing::info;

use crate::kind::{Kind, Make, RejectLists};
use crate::sink::{Receipt, Sink, SinkError};
use forms::Part;

pub(crate) const KIND: Kind = Kind {
    name: "log:",
    is_named: |uri| uri == "log:",
    check: |uri| Ok(uri.to_owned()),
    reads: &[],
    call_bytes_max: None,
    writes_rows: false,
    reject_lists: RejectLists::Store,
    read: |_, uri| uri.map(|_| Make::new(|_, _| Ok(LogSink))),
};

/// Logs the counts of each part, never its bodies, and stores nothing: a sink to try the service with. It rejects no record.
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
