//! Histories with a long backlog, which the seeds do not draw, and the bugs that show only there.

use std::time::Duration;

use protocol::limits::WINDOW_MAX;
use protocol::time::Timestamp;

use crate::History;
use crate::calendar::{Calendar, Zone};
use crate::pauses::PlannedPause;
use crate::plan::Plan;
use crate::scopes::{self, Close};

/// The share of the rate that a backlog must reach, in percent.
pub const REACHED_MIN: u64 = 95;

const DAY: Duration = Duration::from_hours(24);

/// Returns the history of a bug that has one of its own: a function that returns the promise that it breaks.
pub fn of(bug: &str) -> Option<fn() -> Option<&'static str>> {
    match bug {
        // Turns that no ticket waits for pass unused.
        "turns-without-end" => Some(|| Some(crate::run_plan(hour(false), false).broken?.name)),
        // A part that came early queues again, and all wait for its number.
        "turn-taken-again" => Some(|| {
            let reached = reached_after_pause(&crate::run_plan(hurried_week(), false));
            (reached < REACHED_MIN).then_some("P12 the_rate_is_reached")
        }),
        // All scopes wait while nobody commits.
        "log-turn-waited-out" => Some(|| {
            let history = crate::run_plan(scopes::minutes(30, Close::Together), false);
            Some(history.broken?.name)
        }),
        _ => None,
    }
}

/// Returns a plan that sends within a minute what takes 48 minutes at the rate: more than turns are taken for.
pub fn hour(sequence: bool) -> Plan {
    Plan {
        messages: 2_880,
        burst_ms: 60_000,
        batch_size: 10,
        sweep_every_ms: 300_000,
        processors: 8,
        processor_timeout_ms: 60_000,
        hours: None,
        events_per_second: 1,
        sequence,
        pauses: Vec::new(),
        ..Plan::calm(Plan::of_items)
    }
}

/// Returns a plan that sends events for a week to a sink that needs numbers. Deliveries have half an hour a day, and at the rate, a day's
/// events take half of it. A pause lasts from the beginning of the third day to the end of the fourth. An invocation has much time, in
/// which it can wait.
pub fn week() -> Plan {
    let day_ms = DAY.as_millis() as u64;
    Plan {
        start: Timestamp::from_ms(1_700_000_000_000),
        messages: 7 * 900,
        burst_ms: 7 * day_ms,
        calm_at_ms: 7 * day_ms,
        sources: 1,
        keys: 0,
        batch_size: 50,
        sweep_every_ms: 300_000,
        processors: 8,
        processor_timeout_ms: 60_000,
        page_entries: 100,
        batching_window_secs: WINDOW_MAX.as_secs(),
        hours: Some(Calendar {
            every: 1_440,
            first: 600,
            length: 30,
            zone: Zone::Berlin,
        }),
        events_per_second: 1,
        sequence: true,
        pauses: vec![PlannedPause {
            at_ms: 2 * day_ms,
            length_ms: 2 * day_ms,
            source: None,
            key: None,
            resumed_after_ms: None,
            sends_tickets: true,
        }],
        ..Plan::calm(Plan::of_items)
    }
}

/// Returns [`week`] with invocations that have little time.
pub fn hurried_week() -> Plan {
    Plan {
        processors: 1,
        processor_timeout_ms: 10_000,
        ..week()
    }
}

/// Returns the share of the rate that [`week`] reached in the half hour after its pause, in percent.
pub fn reached_after_pause(history: &History) -> u64 {
    let pause_ends = week().start + 4 * DAY;
    let handed = history.handed.iter();
    let after_pause = handed.filter(|one| pause_ends <= one.at && one.at < pause_ends + DAY / 2);
    after_pause.map(|one| one.events).sum::<u64>() * 100 / 1_800
}
