//! The report of how often each fault struck, as text and as JSON.

use std::fmt;

use emulators::dynamodb::{IndexLagReport, KeyLimitReport, TableLimitUsage};
use emulators::proxy::{ExpiredCredentialsReport, LostRepliesReport, RequestErrorsReport};
use planner::Throttle;
use protocol::text::counted;
use serde::Serialize;

/// How often each fault struck. A fault that is off is `None` or empty.
#[derive(Clone, Debug, Serialize)]
pub struct FaultReport {
    pub seed: u64,
    /// Queries of the index that saw an old state.
    pub index_lag: Option<IndexLagReport>,
    /// Writes throttled by the limit of an item or index key.
    pub partition_limit: Option<PartitionLimitReport>,
    /// Use of the lock table's limit, and the writes it throttled.
    pub table_limit: Option<TableLimitReport>,
    /// Requests whose reply was lost.
    pub lost_replies: Option<LostRepliesReport>,
    /// Requests that returned an error and were not applied.
    pub request_errors: Option<RequestErrorsReport>,
    /// Messages delivered again while they were in flight.
    pub deliveries_repeated: Option<u64>,
    /// Environments killed at a random moment.
    pub killed_at_random: Option<u64>,
    /// Environments killed at a line of their log.
    pub kill_at: Vec<KillAtReport>,
    /// Environments whose credentials expired.
    pub expired_credentials: Option<ExpiredCredentialsReport>,
    /// Tickets given back while the sink was down.
    pub tickets_refused_by_sink: Option<u64>,
    /// Deliveries that the sink made fail.
    pub sink_errors: Option<SinkErrorsReport>,
    /// Connections to the sink that were cut.
    pub sink_cuts: Option<SinkCutsReport>,
    /// Updates of the functions' configuration that were made.
    pub redeploys: Vec<RedeployReport>,
}

/// Writes throttled by the limit of an item or index key.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct PartitionLimitReport {
    /// Writes throttled by the limit of their item.
    pub by_item: u64,
    /// Writes throttled by the limit of an index key.
    pub by_index_key: u64,
    /// Writes to the batch table that were throttled by the limit of an index key.
    pub by_batch_index_key: u64,
}

/// The use of the lock table's limit between the first throttled write and the last claim, and the writes it throttled. The
/// figures of that time are `None` if no write was throttled.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct TableLimitReport {
    /// The limit of the table's items. Its index has the same limit.
    pub units_per_second: u32,
    /// Writes of the whole run. Each statement of a PartiQL batch counts as one.
    pub writes: u64,
    /// Writes throttled because the items had no units left.
    pub throttled_by_items: u64,
    /// Writes throttled because the index had no units left.
    pub throttled_by_index: u64,
    /// Writes to the batch table that were throttled because the table or its index had no units left.
    pub batch_table_throttled: u64,
    /// The time from the first throttled write to the last claim.
    pub claiming_secs: Option<f64>,
    /// Share of the limit used in that time, by the items or the index, whichever used more.
    pub used_percent: Option<f64>,
    /// Share of the limit used in that time by the items.
    pub items_used_percent: Option<f64>,
    /// Share of the limit used in that time by the index.
    pub index_used_percent: Option<f64>,
    /// Share of the writes in that time that were throttled.
    pub refused_percent: Option<f64>,
}

impl From<KeyLimitReport> for PartitionLimitReport {
    fn from(report: KeyLimitReport) -> PartitionLimitReport {
        PartitionLimitReport {
            by_item: report.by_item,
            by_index_key: report.by_index_key,
            by_batch_index_key: report.by_other_index_key,
        }
    }
}

/// Maps puts of items, which only claims make, to claims.
impl From<TableLimitUsage> for TableLimitReport {
    fn from(usage: TableLimitUsage) -> TableLimitReport {
        TableLimitReport {
            units_per_second: usage.units_per_second,
            writes: usage.writes,
            throttled_by_items: usage.throttled_by_items,
            throttled_by_index: usage.throttled_by_index,
            batch_table_throttled: usage.throttled_of_other_table,
            claiming_secs: usage.adding_secs,
            used_percent: usage.used_percent,
            items_used_percent: usage.items_used_percent,
            index_used_percent: usage.index_used_percent,
            refused_percent: usage.refused_percent,
        }
    }
}

/// An update of the functions' configuration, or of the code of one of them.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RedeployReport {
    /// When the update was made, in seconds from the start of the burst.
    pub at_secs: f64,
    /// The names of the variables that changed, without their values, which may be secrets.
    pub variables: Vec<String>,
    /// The name of the function that got another executable.
    pub code: Option<String>,
    /// Environments that were running with the former variables or the former executable.
    pub environments_replaced: u64,
}

/// Deliveries that the sink made fail.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct SinkErrorsReport {
    /// Deliveries that failed before anything was stored.
    pub before: u64,
    /// Deliveries that failed after they were stored.
    pub after: u64,
}

/// Connections to the sink.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct SinkCutsReport {
    /// Connections that were made.
    pub connections: u64,
    /// Connections that were cut while the sink sent.
    pub cut: u64,
}

/// Environments killed at a line of their log.
#[derive(Clone, Debug, Serialize)]
pub struct KillAtReport {
    /// The text that the lines contain.
    pub text: String,
    /// The number of lines with this text.
    pub lines: u64,
    /// The number of environments killed at them.
    pub killed: u64,
}

/// A line for people for each fault that is on, each with its line break.
impl fmt::Display for FaultReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "faults      seed {}", self.seed)?;
        self.tables(f)?;
        self.requests(f)?;
        self.environments(f)?;
        self.sink_and_redeploys(f)
    }
}

impl FaultReport {
    /// Returns what throttled requests and writes, without what throttled none.
    pub fn throttles(&self) -> Vec<Throttle> {
        let mut throttles = Vec::new();
        let mut add = |resource: &str, reason: &str, count| {
            if count > 0 {
                throttles.push(Throttle {
                    resource: resource.to_owned(),
                    reason: reason.to_owned(),
                    count,
                });
            }
        };
        if let Some(limit) = self.partition_limit {
            add("lock-table", "key of the index", limit.by_index_key);
            add("lock-table", "item", limit.by_item);
            add("batch-table", "key of an index", limit.by_batch_index_key);
        }
        if let Some(limit) = &self.table_limit {
            add("lock-table", "whole table", limit.throttled_by_items);
            add("lock-table", "whole index", limit.throttled_by_index);
            let of_batches = limit.batch_table_throttled;
            add("batch-table", "whole table or index", of_batches);
        }
        if let Some(errors) = self.request_errors {
            let count = errors.throttled;
            add("all services", "at random, by --error-rate", count);
        }
        throttles
    }

    fn tables(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(lag) = self.index_lag {
            writeln!(
                f,
                "  index lag             {} of {} queries stale: {} entries not shown yet, {} shown still",
                lag.stale, lag.queries, lag.hidden, lag.gone
            )?;
        }
        if let Some(limit) = self.partition_limit {
            let all = limit.by_index_key + limit.by_item + limit.by_batch_index_key;
            writeln!(
                f,
                "  partition limit       {} throttled: {} by index keys, {} by items, {} by index keys of the batch table",
                counted(all, "write"),
                limit.by_index_key,
                limit.by_item,
                limit.by_batch_index_key
            )?;
        }
        if let Some(limit) = &self.table_limit {
            write!(f, "{limit}")?;
        }
        Ok(())
    }

    fn requests(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
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
                "  errors                {}: {}, {}",
                errors.server_errors + errors.throttled,
                counted(errors.server_errors, "server error"),
                counted(errors.throttled, "throttle")
            )?;
        }
        Ok(())
    }

    fn environments(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(repeated) = self.deliveries_repeated {
            let repeated = counted(repeated, "message");
            writeln!(f, "  duplicate deliveries  {repeated}")?;
        }
        if let Some(killed) = self.killed_at_random {
            let killed = counted(killed, "environment");
            writeln!(f, "  kills                 {killed}")?;
        }
        for at in &self.kill_at {
            writeln!(
                f,
                "  kill at `{}`  {} at {}",
                at.text,
                counted(at.killed, "environment"),
                counted(at.lines, "line")
            )?;
        }
        if let Some(expired) = self.expired_credentials {
            writeln!(
                f,
                "  expired credentials   {}, {} of them ended themselves; {} refused",
                counted(expired.environments, "environment"),
                expired.ended_themselves,
                counted(expired.requests_refused, "request")
            )?;
        }
        Ok(())
    }

    fn sink_and_redeploys(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(refused) = self.tickets_refused_by_sink {
            let refused = counted(refused, "ticket");
            writeln!(f, "  sink down             {refused} given back meanwhile")?;
        }
        if let Some(errors) = self.sink_errors {
            writeln!(
                f,
                "  sink errors           {}: {} refused, {} stored and reported as failed",
                counted(errors.before + errors.after, "delivery"),
                errors.before,
                errors.after
            )?;
        }
        if let Some(cuts) = self.sink_cuts {
            let (cut, all) = (cuts.cut, counted(cuts.connections, "connection"));
            writeln!(f, "  cut connections       {cut} of {all} to the sink")?;
        }
        for redeploy in &self.redeploys {
            let replaced = counted(redeploy.environments_replaced, "environment");
            let at_secs = redeploy.at_secs;
            write!(f, "  redeploy at {at_secs:.1} s     {replaced} replaced")?;
            if let Some(function) = &redeploy.code {
                write!(f, ", another executable: {function}")?;
            }
            if !redeploy.variables.is_empty() {
                write!(f, ", changed: {}", redeploy.variables.join(", "))?;
            }
            writeln!(f)?;
        }
        Ok(())
    }
}

/// Lines for people, each with its line break.
impl fmt::Display for TableLimitReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let throttled = self.throttled_by_items + self.throttled_by_index;
        writeln!(
            f,
            "  table limit           {} units/s; {throttled} of {} to the lock table throttled: {} by the table, {} by its index; {} to the batch table",
            self.units_per_second,
            counted(self.writes, "write"),
            self.throttled_by_items,
            self.throttled_by_index,
            self.batch_table_throttled
        )?;
        if let (Some(secs), Some(items), Some(index), Some(refused)) = (
            self.claiming_secs,
            self.items_used_percent,
            self.index_used_percent,
            self.refused_percent,
        ) {
            writeln!(
                f,
                "    claims under it     {secs:.1} s: {items:.0} % of the table's units used, {index:.0} % of its index's; {refused:.1} % of the writes refused"
            )?;
        }
        Ok(())
    }
}
