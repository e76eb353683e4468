//! How often each fault struck, for people and for programs.

use std::fmt;

use serde::Serialize;

/// How often each fault struck; what is not on is absent.
#[derive(Clone, Debug, Serialize)]
pub struct FaultReport {
    /// The seed.
    pub seed: u64,
    /// Queries of the index.
    pub index_lag: Option<IndexLagReport>,
    /// Writes over a key's limit.
    pub partition_limit: Option<PartitionLimitReport>,
    /// Replies that did not come.
    pub lost_replies: Option<LostRepliesReport>,
    /// Requests answered with an error.
    pub request_errors: Option<RequestErrorsReport>,
    /// Messages delivered again while they were in flight.
    pub deliveries_repeated: Option<u64>,
    /// Environments killed at a random moment.
    pub killed_at_random: Option<u64>,
    /// Environments killed at a line of their log.
    pub kill_at: Vec<KillAtReport>,
    /// Tickets given back because the sink was down.
    pub tickets_refused_by_sink: Option<u64>,
    /// Deliveries that failed at the sink's end.
    pub sink_errors: Option<SinkErrorsReport>,
}

/// What lag did to queries of the index.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct IndexLagReport {
    /// Queries answered.
    pub queries: u64,
    /// Those that were not shown the index as it was.
    pub stale: u64,
    /// Entries that were there and not shown, all queries together.
    pub hidden: u64,
    /// Entries that were gone and shown, all queries together.
    pub gone: u64,
}

/// Writes over a key's limit.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct PartitionLimitReport {
    /// Over the limit of the item.
    pub by_item: u64,
    /// Over the limit of the index key that the write would have touched.
    pub by_index_key: u64,
}

/// Replies that did not come.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct LostRepliesReport {
    /// Applied, and the connection closed.
    pub cut: u64,
    /// Applied, and nothing said until the caller had given up.
    pub stalled: u64,
    /// Applied only after the caller had given up.
    pub applied_late: u64,
}

/// Requests answered with an error.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct RequestErrorsReport {
    /// With status 500.
    pub server_errors: u64,
    /// With a throttling error.
    pub throttled: u64,
}

/// Deliveries that failed at the sink's end.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct SinkErrorsReport {
    /// With nothing stored.
    pub before: u64,
    /// Having been stored.
    pub after: u64,
}

/// Environments killed at a line of their log.
#[derive(Clone, Debug, Serialize)]
pub struct KillAtReport {
    /// What the line contains.
    pub text: String,
    /// Such lines.
    pub lines: u64,
    /// Environments killed.
    pub killed: u64,
}

/// One line for each kind of fault, each ended.
impl fmt::Display for FaultReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "faults      seed {}", self.seed)?;
        if let Some(lag) = self.index_lag {
            writeln!(
                f,
                "  index lag             {} of {} queries stale: {} entries not shown yet, {} shown still",
                lag.stale, lag.queries, lag.hidden, lag.gone
            )?;
        }
        if let Some(limit) = self.partition_limit {
            writeln!(
                f,
                "  partition limit       {} writes throttled: {} by index keys, {} by items",
                limit.by_index_key + limit.by_item,
                limit.by_index_key,
                limit.by_item
            )?;
        }
        if let Some(lost) = self.lost_replies {
            writeln!(
                f,
                "  lost replies          {}: {} cut, {} stalled, {} applied late",
                lost.cut + lost.stalled + lost.applied_late,
                lost.cut,
                lost.stalled,
                lost.applied_late
            )?;
        }
        if let Some(errors) = self.request_errors {
            writeln!(
                f,
                "  errors                {}: {} server errors, {} throttles",
                errors.server_errors + errors.throttled,
                errors.server_errors,
                errors.throttled
            )?;
        }
        if let Some(repeated) = self.deliveries_repeated {
            writeln!(f, "  duplicate deliveries  {repeated} messages")?;
        }
        if let Some(killed) = self.killed_at_random {
            writeln!(f, "  kills                 {killed} environments")?;
        }
        for at in &self.kill_at {
            writeln!(
                f,
                "  kill at `{}`  {} environments at {} lines",
                at.text, at.killed, at.lines
            )?;
        }
        if let Some(refused) = self.tickets_refused_by_sink {
            writeln!(f, "  sink down             {refused} tickets given back")?;
        }
        if let Some(errors) = self.sink_errors {
            writeln!(
                f,
                "  sink errors           {} deliveries: {} refused, {} stored and called refused",
                errors.before + errors.after,
                errors.before,
                errors.after
            )?;
        }
        Ok(())
    }
}
