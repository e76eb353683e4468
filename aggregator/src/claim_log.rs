//! The log lines that say into which batches an invocation claimed, and which traces its messages belong to.

use std::collections::{BTreeMap, BTreeSet};

use protocol::ids::BatchId;
use protocol::limits::LOGGED_TRACES_MAX;
use protocol::seqs::SeqSet;
use shared::traces::TraceId;
use tracing::{debug, info};

/// The distinct traces of the messages that were claimed into each batch. Only those of traced producers are here.
pub type ClaimedTraces<'a> = BTreeMap<BatchId, BTreeSet<&'a TraceId>>;

/// Logs a line for each batch. Most operators never need these lines, and an invocation may have many of them, so they are only at
/// the level DEBUG unless there is a trace to name.
pub fn log_claims(claimed: &BTreeMap<BatchId, SeqSet>, traces: &ClaimedTraces<'_>) {
    for (batch, seqs) in claimed {
        let items_count = seqs.len();
        let Some(traces) = traces.get(batch) else {
            debug!(batch_id = %batch, items_count, "events claimed");
            continue;
        };
        let named = traces.iter().take(LOGGED_TRACES_MAX);
        let named: Vec<String> = named.map(|trace| trace.to_string()).collect();
        info!(
            batch_id = %batch,
            items_count,
            traces_count = traces.len(),
            trace_ids = named.join(" "),
            "events claimed"
        );
    }
}
