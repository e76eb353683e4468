//! The metrics of the batch-processor and of its sweep. `docs/metrics.md` is generated from the comments of the fields.

use metrique_writer::Entry;
use shared::metrics::{Bytes, Count, Level, LongestTime, LowestPercent, OldestAge};

/// Metrics of one invocation about the batches of one source.
#[derive(Clone, Debug, Default, PartialEq, Entry)]
#[entry(rename_all = "PascalCase")]
pub struct BatchProcessorMetrics {
    /// Batches that were still open when the ticket of their window came.
    pub flushed_window: Count,
    /// Parts that the sink has taken.
    pub parts_delivered: Count,
    /// Events in these parts, without the rejected ones.
    pub batch_items: Count,
    /// Bodies of the events in these parts.
    pub delivered_bytes: Bytes,
    /// Records of these parts that are only in a reject list.
    pub rejected: Count,
    /// The time that the sink took for a part; of several parts, the longest.
    pub deliver_time: LongestTime,
    /// The time from the sending of the oldest message in a part, by SQS's clock, until the sink had the part; of several parts,
    /// the longest.
    pub send_to_deliver_time: LongestTime,
    /// Claims that were released. None of a batch of the log.
    pub released: Count,
    /// Events of batches that were set aside, which the quarantine queue has acknowledged.
    pub quarantined: Count,
    /// Looks that found the index behind, or claims that were counted during a look.
    pub index_lag_retries: Count,
    /// Lines of batches of the log whose event another line has. The aggregator has a metric of the same name, for claims.
    pub duplicates: Count,
    /// Lines of batches of the log with the event id of another line and another body. The aggregator has a metric of the same
    /// name, for claims.
    pub conflicts: Count,
    /// Lines of batches of the log for which the quota of their key had no place (`QUOTA`). They go to the quarantine.
    pub beyond_quota: Count,
    /// Slots that were empty when their batch was closed: an aggregator died, or had no reply.
    pub holes: Count,
    /// The time in which the lines of a batch of the log were decided and committed; of several batches, the longest.
    pub resolve_ms: LongestTime,
    /// Commits to the index of the log that were refused, because another batch committed first.
    pub commit_conflicts: Count,
    /// Entries of the index by which the last batch was decided.
    pub index_entries: Option<Level>,
    /// Runs of the index by which the last batch was decided.
    pub index_runs: Option<Level>,
    /// Batches that were completed.
    pub batches_completed: Count,
    /// Notices that were sent. A notice may be sent several times. Only with `COMPLETION`.
    pub notices_sent: Count,
    /// Attempts to send a notice that failed. The sweep tries again. Only with `COMPLETION`.
    pub notices_failed: Count,
    /// Notices of errors that are not sent, because earlier ones of the same batch still wait.
    pub notices_dropped: Count,
    /// The time from the opening of a batch to its completion; of several batches, the longest.
    pub batch_age: LongestTime,
    /// Delivered events of a completed batch, as a share of `MAX_BATCH_SIZE`; of several batches, the lowest. Batches of which
    /// nothing was delivered are left out.
    pub fill_ratio: LowestPercent,
}

/// Metrics of the batches that the sweep finds in the batch table.
#[derive(Clone, Debug, Default, PartialEq, Entry)]
#[entry(rename_all = "PascalCase")]
pub struct SweepMetrics {
    /// Batches past their due time that are not in error.
    pub batches_overdue: Level,
    /// Batches with the status `processing`.
    pub batches_processing: Level,
    /// Batches with the status `error`, which wait for an operator.
    pub batches_in_error: Level,
    /// The time since the longest overdue batch was due.
    pub oldest_overdue_age: OldestAge,
    /// Batches whose notices should have been sent. Only with `COMPLETION`.
    pub notices_waiting: Option<Level>,
    /// The time since the oldest of these batches was opened. Only with `COMPLETION`.
    pub oldest_notice_age: Option<OldestAge>,
    /// Events that answers accepted. Only with `ANSWERS_FROM`.
    pub events_accepted: Option<Level>,
    /// Events that answers rejected, which go to the quarantine. Only with `ANSWERS_FROM`.
    pub events_rejected: Option<Level>,
    /// Events about which nothing was answered within `ANSWERS_WITHIN`. Only with `ANSWERS_FROM`.
    pub events_silent: Option<Level>,
    /// Lines of answers that say nothing, answers that cannot be read or are about unknown parts, and events about which an earlier answer
    /// said something else. Only with `ANSWERS_FROM`.
    pub answer_problems: Option<Level>,
    /// The time since the oldest batch in error was opened. At 10 days, the sweep has it set aside.
    pub oldest_error_age: OldestAge,
}
