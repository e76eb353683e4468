//! Histories of many scopes of the log, each of which closes a batch a minute. The seeds draw none of them.

use crate::plan::{IdKind, Plan};
use crate::redeploy::BodiesKind;

/// Scopes of a history.
const SCOPES: usize = 100;

/// Messages that a scope gets in a minute, on average.
const MESSAGES_A_MINUTE: usize = 4;

const MINUTE_MS: u64 = 60_000;

/// When the batches of all scopes close.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Close {
    /// All of them with the minute, by `CLOSE_AT`.
    Together,
    /// Each a minute after its first event.
    Spread,
}

/// Returns a plan without faults.
pub fn minutes(minutes: u64, close: Close) -> Plan {
    let (close_every, batching_window_secs) = match close {
        Close::Together => (Some(1), 600),
        Close::Spread => (None, 60),
    };
    Plan {
        messages: SCOPES * MESSAGES_A_MINUTE * minutes as usize,
        burst_ms: minutes * MINUTE_MS,
        calm_at_ms: minutes * MINUTE_MS,
        sources: 1,
        keys: SCOPES,
        id_kind: IdKind::Json,
        bodies: BodiesKind::Log,
        batch_size: 50,
        batching_window_secs,
        close_every,
        close_after_idle_secs: 0,
        event_times: false,
        quota_max: None,
        urgent: 0.0,
        write_concurrency: 64,
        event_records: 60,
        aggregators: 8,
        processors: 100,
        processor_timeout_ms: 60_000,
        sweep_every_ms: 300_000,
        page_entries: 100,
        hours: None,
        events_per_second: 0,
        sequence: false,
        pauses: Vec::new(),
        ..Plan::calm(Plan::of_log)
    }
}
