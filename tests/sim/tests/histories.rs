//! Tests of the simulation: the same seed gives the same history, all faults strike, no seed of a short run breaks a
//! promise, and every planted bug of the protocol is caught.

use std::collections::BTreeMap;

use sim::answers;
use sim::backlog::{self, REACHED_MIN};
use sim::bugs::{all, on_threads, try_stored};
use sim::calendar::{Calendar, Zone};
use sim::plan::Plan;
use sim::scopes::{self, Close};

const SEEDS: u64 = 240;

#[test]
fn one_seed_is_one_history_bit_for_bit_and_telling_what_happens_changes_nothing() {
    for seed in 0..40 {
        let (one, again) = (sim::run(seed, true), sim::run(seed, true));
        let lines = one.trace.len();
        assert!(lines > 50, "seed {seed}: {lines} lines");
        for (line, repeated) in one.trace.iter().zip(&again.trace) {
            assert_eq!(line, repeated, "seed {seed}");
        }
        assert_eq!(one, again, "seed {seed}");
        let silent = sim::run(seed, false);
        assert_eq!(silent.counts, one.counts, "seed {seed}");
        assert_eq!(silent.steps, one.steps, "seed {seed}");
    }
}

#[test]
fn no_answer_breaks_a_promise() {
    for seed in 0..400 {
        assert_eq!(answers::run(seed), None, "seed {seed}");
    }
}

#[test]
fn no_promise_is_broken_with_everything_on() {
    for seed in 0..24 {
        let history = sim::run_plan(Plan::with_everything(seed), false);
        assert_eq!(history.broken, None, "seed {seed}");
    }
}

/// Sends events for a day without faults, while deliveries have half an hour in every two hours. The history checks that none
/// begins at another time, and that a batch that waited is delivered within a minute of the opening.
#[test]
fn deliveries_of_a_day_are_in_their_hours_and_within_a_minute_of_the_opening() {
    const DAY_MS: u64 = 24 * 3_600_000;
    let mut waited = 0;
    let plans = (0..).map(Plan::of).filter(|plan| plan.calm);
    for plan in plans.take(10) {
        let plan = Plan {
            messages: 160,
            burst_ms: DAY_MS,
            calm_at_ms: DAY_MS,
            hours: Some(Calendar {
                every: 120,
                first: 10,
                length: 30,
                zone: Zone::Utc,
            }),
            events_per_second: 0,
            pauses: Vec::new(),
            ..plan
        };
        let history = sim::run_plan(plan, false);
        let seed = history.seed;
        assert_eq!(history.broken, None, "seed {seed}");
        waited += history.count("waits for the hours");
    }
    assert!(waited > 100, "{waited}");
}

/// The history checks that the rate is not exceeded. It must be reached, by a sink that needs numbers too.
#[test]
fn a_backlog_is_delivered_at_the_rate() {
    for sequence in [false, true] {
        let history = sim::run_plan(backlog::hour(sequence), false);
        assert_eq!(history.broken, None);
        let [handed @ .., last] = &*history.handed else {
            panic!("nothing was handed to the sink");
        };
        let events: u64 = handed.iter().map(|one| one.events).sum();
        let time = handed[0].at.until(last.at);
        let reached = events * 100_000 / time.as_millis() as u64;
        assert!(reached >= REACHED_MIN, "{reached} % of the rate");
    }
}

/// The history checks that every batch is delivered or set aside, that the rate is not exceeded, and what it costs to find that a batch
/// must wait. In the half hour after the pause, the rate must be reached: with much time for an invocation, and with little.
#[test]
fn a_week_of_hours_numbers_pauses_and_a_rate_drains() {
    for plan in [backlog::week(), backlog::hurried_week()] {
        let history = sim::run_plan(plan, false);
        assert_eq!(history.broken, None);
        let reached = backlog::reached_after_pause(&history);
        assert!(reached >= REACHED_MIN, "{reached} % of the rate");
    }
}

/// The history checks that every batch is complete within five minutes of its close, while all scopes write one manifest.
#[test]
fn a_hundred_scopes_that_close_a_batch_a_minute_are_delivered_in_time() {
    for close in [Close::Together, Close::Spread] {
        let history = sim::run_plan(scopes::minutes(5, close), false);
        assert_eq!(history.broken, None, "{close:?}");
        let counts = &history.counts;
        assert!(history.count("committed") > 300, "{close:?}: {counts:?}");
        assert!(
            history.count("commit refused") > 100,
            "{close:?}: {counts:?}"
        );
    }
}

#[test]
fn no_promise_is_broken_and_every_fault_strikes() {
    let histories = on_threads(0..SEEDS, 2, |seed| sim::run(seed, false));
    let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
    let mut broken = Vec::new();
    for history in histories {
        for (kind, count) in history.counts {
            *counts.entry(kind).or_default() += count;
        }
        if let Some(found) = history.broken {
            let seed = history.seed;
            broken.push(format!(
                "seed {seed}: {found}\n  replay: cargo xtask sim --seed {seed}"
            ));
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
    for kind in [
        "throttled",
        "lost",
        "late",
        "killed",
        "frozen",
        "thawed past its deadline",
        "delivered twice",
        "ghost",
        "answer lost",
        "ticket lost",
        "ticket repeated",
        "ticket early",
        "sink refused",
        "sink failed before",
        "sink failed after",
        "sink hung",
        "part repeated",
        "expired",
        "quarantined",
        "dead letter",
        "lease taken over",
        "depth wrong",
        "calm",
        "request refused",
        "record lost",
        "record late",
        "clock jumped",
        "redeployed",
        "sink accepted",
        "set aside",
        "taken away",
        "edited",
        "object put",
        "object denied",
        "object expired",
        "comes again",
        "redriven",
        "days passed",
        "record expired",
        "rejected",
        "corrected",
        "correction delivered",
        "beyond a quota",
        "paused",
        "waits for the hours",
        "duplicate reported",
    ] {
        let count = counts.get(kind).copied().unwrap_or_default();
        assert!(
            count > 0,
            "nothing was `{kind}` in {SEEDS} seeds: {counts:#?}"
        );
    }
}

/// Only those with a switch in `protocol`; `cargo xtask sim --planted` tries all.
#[test]
fn every_planted_bug_is_caught_within_5_000_seeds() {
    let bugs = all().expect("the patches can be read");
    let missed = try_stored(&bugs, 2).expect("the stored seeds can be read");
    assert!(missed.is_empty(), "not caught: {missed:?}");
}
