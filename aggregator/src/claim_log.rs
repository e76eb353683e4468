//! The log lines that say into which batches an invocation claimed, and which traces its messages belong to.

use std::collections::{BTreeMap, BTreeSet};

use protocol::ids::BatchId;
use protocol::limits::LOGGED_TRACES_MAX;
use protocol::seqs::SeqSet;
use shared::traces::TraceId;
use tracing::{debug, info};

/// The distinct traces of the messages that were claimed into each batch. Only those of traced producers are here.
#[derive(Debug, Default)]
pub struct ClaimedTraces<'a>(BTreeMap<BatchId, BTreeSet<&'a TraceId>>);

impl<'a> ClaimedTraces<'a> {
    pub fn add(&mut self, batch: BatchId, trace: &'a TraceId) {
        self.0.entry(batch).or_default().insert(trace);
    }

    /// Logs a line for each batch. Most operators never need these lines, and an invocation may have many of them, so
    /// they are only at the level DEBUG unless there is a trace to name.
    pub fn log(&self, claimed: &BTreeMap<BatchId, SeqSet>) {
        for (batch, seqs) in claimed {
            let items_count = seqs.len();
            let Some(traces) = self.0.get(batch) else {
                debug!(batch_id = %batch, items_count, "events claimed");
                continue;
            };
            let named: Vec<String> = traces
                .iter()
                .take(LOGGED_TRACES_MAX)
                .map(|trace| trace.to_string())
                .collect();
            info!(
                batch_id = %batch,
                items_count,
                traces_count = traces.len(),
                trace_ids = named.join(" "),
                "events claimed"
            );
        }
    }
}
