//! For each limit a burst that exactly this limit holds up, and whose time can be computed by hand.

use super::calibration::INDEX_ENTRY_BYTES;
use super::settings::{Bodies, Scaling, Settings};
use super::shape::Shape;
use super::usage::Sizes;
use super::{Limit, Plan, plan};

/// A stack without limits, whose requests and functions take no time: a test adds one limit.
fn unlimited(messages: u64) -> Settings {
    let mut settings = Settings::default();
    settings.burst.messages = messages;
    settings.input.scaling = Scaling::Local(1);
    (settings.input.receive_rate, settings.input.record_bytes) = (1e7, 100);
    for function in [&mut settings.aggregator, &mut settings.processor] {
        (function.micros_per_message, function.cold_start_secs) = (0.001, 0.0);
    }
    let tables = &mut settings.tables;
    (tables.lock, tables.batch, tables.quota) = (1e12, 1e12, 1e12);
    (tables.key, tables.index_lag_secs, tables.paced_share) = (None, 0.0, 1.0);
    let requests = &mut settings.requests;
    (requests.write_secs, requests.control_secs, requests.s3_secs) = (0.0, 0.0, 0.0);
    (settings.sink.secs_per_part, settings.sink.bytes_per_sec) = (0.0, 1e18);
    settings.jitter_percent = 0.0;
    settings
}

/// Checks a time against the one computed by hand; a gathering window and a few steps may come on top.
fn assert_takes(secs: f64, by_hand: f64) {
    assert!(
        secs >= by_hand - 0.5 && secs <= 1.03 * by_hand + 1.5,
        "{secs} s, by hand {by_hand} s"
    );
}

/// Checks when all messages are taken, and what held that up.
fn assert_taken(plan: &Plan, by_hand: f64, limit: Limit) {
    assert_takes(plan.claimed_secs, by_hand);
    assert_eq!(binds_while_taking(plan), limit);
}

/// Returns what held up the burst longest while messages were taken.
fn binds_while_taking(plan: &Plan) -> Limit {
    let all = plan.held_up.iter();
    let taking = all.filter(|(limit, _)| **limit != Limit::BatchWindow);
    *taking.max_by(|a, b| a.1.total_cmp(b.1)).unwrap().0
}

#[test]
fn two_pollers_take_two_hundred_messages_a_second() {
    let mut settings = unlimited(20_000);
    settings.input.scaling = Scaling::Provisioned { min: 2, max: 2 };
    let plan = plan(&settings);
    assert_taken(&plan, 20_000.0 / 200.0, Limit::ReceiveRate);
    // Those of one window.
    let each = plan.messages_per_invocation;
    assert!((95.0..=101.0).contains(&each), "{each}");
}

#[test]
fn a_poller_takes_a_megabyte_a_second() {
    let mut settings = unlimited(2_000);
    settings.burst.size_bytes = 19_900;
    settings.input.scaling = Scaling::Provisioned { min: 2, max: 2 };
    assert_takes(plan(&settings).claimed_secs, 2_000.0 / (2.0 * 50.0));
}

#[test]
fn a_mapping_grows_by_five_concurrent_invocations_a_second() {
    let mut settings = unlimited(110_000);
    settings.input.scaling = Scaling::MaximumConcurrency(1_000);
    settings.input.batch_size = 100;
    settings.aggregator.micros_per_message = 10_000.0;
    // An invocation takes 1 s. In t seconds, 5 t + 2.5 t² of them can run: 1,100 in 20 s.
    let plan = plan(&settings);
    assert_taken(&plan, 20.0, Limit::MappingRamp);
}

#[test]
fn four_aggregators_take_four_times_what_one_takes() {
    let mut settings = unlimited(40_000);
    settings.input.scaling = Scaling::Local(4);
    settings.input.batch_size = 100;
    settings.aggregator.micros_per_message = 1_000.0;
    let plan = plan(&settings);
    assert_taken(&plan, 10.0, Limit::MappingConcurrency);
    assert_eq!(plan.aggregators_most, 4);
}

#[test]
fn half_a_processor_takes_twice_the_time_and_two_take_no_less_than_one() {
    let mut settings = unlimited(10_000);
    settings.aggregator.micros_per_message = 1_000.0;
    let secs = |memory_mb| {
        let mut settings = settings.clone();
        settings.aggregator.memory_mb = memory_mb;
        plan(&settings).usage.aggregator_secs
    };
    assert!((secs(1_769) - 10.0).abs() < 0.1);
    assert!((secs(884) - 20.0).abs() < 0.2);
    assert_eq!(secs(3_538), secs(1_769));
}

#[test]
fn requests_in_flight_limit_an_aggregator_that_has_cpu_left() {
    let mut settings = unlimited(10_000);
    (settings.requests.write_secs, settings.requests.concurrency) = (0.1, 4);
    // 25 claims a request, 4 requests at once, each 0.1 s: 1,000 a second.
    assert_takes(plan(&settings).usage.aggregator_secs, 10.0);
}

#[test]
fn an_account_runs_no_more_than_its_concurrency() {
    let mut settings = unlimited(40_000);
    settings.input.scaling = Scaling::MaximumConcurrency(100);
    settings.input.batch_size = 100;
    settings.aggregator.micros_per_message = 1_000.0;
    settings.account_concurrency = 4;
    let plan = plan(&settings);
    assert_taken(&plan, 10.0, Limit::AccountConcurrency);
    assert_eq!(plan.aggregators_most, 4);
    let mut throttles = plan.throttles.iter();
    assert!(throttles.any(|(limit, _)| *limit == Limit::AccountConcurrency));
}

#[test]
fn no_more_than_120_000_messages_are_taken_at_once() {
    let mut settings = unlimited(480_000);
    settings.input.scaling = Scaling::Provisioned { min: 400, max: 400 };
    settings.input.batch_size = 100;
    settings.account_concurrency = 10_000;
    settings.aggregator.micros_per_message = 100_000.0;
    // An invocation of 100 messages takes 10 s, after 1 s of gathering: four times 120,000 messages in 11 s each. Without
    // the limit, 4,000 invocations would run at once, and take 24 s.
    let plan = plan(&settings);
    let taken = plan.claimed_secs;
    assert!((40.0..60.0).contains(&taken), "{taken}");
    assert_eq!(plan.in_flight_most, 120_000);
    assert_eq!(binds_while_taking(&plan), Limit::InFlight);
}

#[test]
fn a_table_takes_its_units_a_second() {
    let mut settings = unlimited(100_000);
    settings.batches.items_max = 100_000;
    settings.aggregator.timeout_secs = 180.0;
    (settings.tables.lock, settings.tables.quota) = (1_000.0, 1_000.0);
    // One second's units are there at the start, and releases begin only afterwards.
    let plan = plan(&settings);
    assert_taken(&plan, 99.0, Limit::LockTable);
}

#[test]
fn claims_and_releases_share_a_table() {
    let mut settings = unlimited(100_000);
    settings.batches.items_max = 1_000;
    settings.aggregator.timeout_secs = 180.0;
    (settings.tables.lock, settings.tables.quota) = (1_000.0, 1_000.0);
    let plan = plan(&settings);
    assert_takes(plan.drained_secs, 199.0);
    let usage = &plan.usage;
    assert_eq!([usage.lock_writes, usage.index_writes], [200_000.0; 2]);
}

#[test]
fn the_keys_of_one_batch_take_their_units_whatever_the_table_takes() {
    let mut settings = unlimited(20_000);
    settings.aggregator.timeout_secs = 180.0;
    (settings.tables.key, settings.tables.shards) = (Some(100.0), 2);
    let plan = plan(&settings);
    assert_taken(&plan, 99.0, Limit::IndexKeys);
    // The log has no index keys.
    settings.batches.bodies = Bodies::LogS3;
    assert!(super::plan(&settings).claimed_secs < 3.0);
}

#[test]
fn loads_in_the_table_take_units_of_the_batch_table() {
    let mut settings = unlimited(100_000);
    settings.batches.bodies = Bodies::LogTable;
    settings.input.batch_size = 1_000;
    settings.aggregator.timeout_secs = 180.0;
    (settings.tables.batch, settings.tables.quota) = (200.0, 1e12);
    // 100 loads of 123 units, with 2 for reservation and slot, and meanwhile a run of 50,000 entries of 40 bytes.
    let plan = plan(&settings);
    assert_taken(&plan, 14_300.0 / 200.0, Limit::BatchTable);
}

#[test]
fn the_record_of_a_batch_takes_its_units_whatever_the_table_takes() {
    for bodies in [Bodies::Items, Bodies::LogTable] {
        let mut settings = unlimited(20_000);
        settings.batches.bodies = bodies;
        (settings.input.batch_size, settings.tables.key) = (100, Some(10.0));
        settings.tables.shards = 1_000;
        settings.input.scaling = Scaling::MaximumConcurrency(1_000);
        // 200 reservations; one second's units are there at the start.
        let plan = plan(&settings);
        assert_taken(&plan, 190.0 / 10.0, Limit::BatchRecord);
    }
}

#[test]
fn all_environments_fill_the_same_batches() {
    for bodies in [Bodies::Items, Bodies::LogTable, Bodies::LogS3] {
        let mut settings = unlimited(40_000);
        settings.batches.bodies = bodies;
        settings.input.scaling = Scaling::Local(4);
        settings.input.batch_size = 1_000;
        settings.aggregator.micros_per_message = 1_000.0;
        settings.batches.items_max = 20_000;
        let plan = plan(&settings);
        assert_eq!((plan.batches, plan.full), (2, 2), "{bodies}");
        settings.batches.own_batches = true;
        let of_its_own = super::plan(&settings);
        assert_eq!((of_its_own.batches, of_its_own.full), (4, 0), "{bodies}");
    }
}

#[test]
fn an_invocation_reserves_seats_once_in_a_batch_and_its_slot_is_read_once() {
    let mut settings = unlimited(10_000);
    settings.input.batch_size = 1_000;
    let plan = plan(&settings);
    let usage = &plan.usage;
    let slots = plan.spans[0].slots as f64;
    assert_eq!((plan.batches, slots), (1, usage.aggregator_invocations));
    let record_units = Sizes::new(&settings).record_units(10_000, 10_000);
    assert_eq!(usage.record_writes, 2.0 * slots + record_units);
    let of_items = 10_000.0 + 10_000.0 * INDEX_ENTRY_BYTES / 8_192.0;
    // The scope item was read once by the only environment.
    assert_eq!(usage.reads, of_items + slots + 1.0);
}

#[test]
fn duplicates_take_seats_in_the_log_and_no_unit_of_the_lock_table() {
    let mut settings = unlimited(40_000);
    settings.batches.bodies = Bodies::LogS3;
    settings.burst.duplicates_percent = 50.0;
    settings.batches.items_max = 20_000;
    let plan = plan(&settings);
    let sizes: Vec<(u64, u64)> = plan.spans.iter().map(|b| (b.seats, b.count)).collect();
    assert_eq!(sizes, [(20_000, 10_000); 2]);
    let usage = &plan.usage;
    assert_eq!((usage.lock_writes, usage.index_writes), (0.0, 0.0));
}

#[test]
fn duplicates_whose_claims_are_not_remembered_take_seats() {
    let mut settings = unlimited(40_000);
    settings.burst.duplicates_percent = 50.0;
    let seats = |settings: &Settings| plan(settings).spans[0].seats;
    assert_eq!(seats(&settings), 20_000);
    settings.input.scaling = Scaling::Local(2);
    settings.input.batch_size = 1_000;
    settings.aggregator.micros_per_message = 100.0;
    let plan = plan(&settings);
    let duplicates = plan.spans[0].seats - plan.spans[0].count;
    let off = duplicates as f64 - plan.usage.refused_writes;
    assert!(duplicates > 2_000 && off.abs() < 20.0, "{duplicates} {off}");
}

#[test]
fn two_batches_of_the_log_that_commit_at_once_decide_one_after_the_other() {
    let run_writes = |processors| {
        let mut settings = unlimited(40_000);
        settings.batches.bodies = Bodies::LogTable;
        settings.batches.items_max = 20_000;
        settings.processor.concurrency = processors;
        settings.requests.control_secs = 1.0;
        plan(&settings).usage.run_writes
    };
    // The refused batch stores its run of 20,000 entries of 40 bytes once more.
    let more = run_writes(2) - run_writes(1);
    assert!((782.0..790.0).contains(&more), "{more}");
}

#[test]
fn a_batch_that_is_not_full_closes_a_window_after_its_opening() {
    for bodies in [Bodies::Items, Bodies::LogTable] {
        let mut settings = unlimited(1_000);
        settings.batches.bodies = bodies;
        let plan = plan(&settings);
        // Gathered for 1 s; 2 s for clocks, and a half for whole seconds.
        assert_takes(plan.drained_secs, 1.0 + 300.0 + 2.5);
        assert_eq!((plan.batches, plan.full), (1, 0));
        assert_eq!(plan.binds().unwrap().0, Limit::BatchWindow);
    }
}

#[test]
fn what_an_invocation_does_not_claim_in_time_comes_back_after_the_visibility_timeout() {
    let mut settings = unlimited(2_000);
    settings.aggregator.micros_per_message = 10_000.0;
    settings.aggregator.timeout_secs = 13.0;
    settings.input.visibility_secs = 61.0;
    // 10 s are enough for 1,000 messages; the others come back once.
    let once = plan(&settings);
    assert_eq!((once.returned, once.receives_most), (1_000, 2));
    assert_eq!(once.dead_letters, 0);
    assert_taken(&once, 71.0, Limit::Visibility);
    settings.input.receives_max = 1;
    let plan = plan(&settings);
    assert_eq!((plan.dead_letters, plan.drained), (1_000, true));
}

#[test]
fn a_batch_takes_events_for_one_window() {
    let mut settings = unlimited(40_000);
    settings.burst.shape = Shape::Constant { rate: 100.0 };
    settings.batches.window_secs = 110.0;
    let plan = plan(&settings);
    // An invocation a second, for 400 s; each batch takes those of 110 s.
    assert_eq!(plan.batches, 4);
    let first = &plan.spans[0];
    assert_eq!(
        (first.sealed_at, first.closes_at - first.opened_at),
        (None, 110.0)
    );
    assert!((10_800..=11_100).contains(&first.count), "{}", first.count);
    let waited = first.leased_at.unwrap() - first.closes_at;
    assert!((2.0..3.5).contains(&waited), "{waited}");
}

#[test]
fn full_batches_start_at_once_and_drained_ones_when_the_queue_is_empty() {
    let mut settings = unlimited(10_000);
    settings.batches.items_max = 3_000;
    settings.batches.seal_when_drained = true;
    let plan = plan(&settings);
    assert_eq!((plan.batches, plan.full, plan.sealed_drained), (4, 3, 1));
    assert!(plan.drained_secs < 3.0, "{}", plan.drained_secs);
    let counts = plan.spans.iter().map(|batch| batch.count);
    assert!(counts.eq([3_000, 3_000, 3_000, 1_000]));
}

#[test]
fn each_key_has_a_batch_of_its_own() {
    let mut settings = unlimited(10_000);
    settings.burst.keys = 10;
    let plan = plan(&settings);
    assert_eq!(plan.batches, 10);
    assert!(plan.spans.iter().all(|batch| batch.count == 1_000));
}

#[test]
fn two_processors_deliver_two_batches_at_a_time() {
    let mut settings = unlimited(10_000);
    settings.batches.items_max = 100;
    settings.sink.secs_per_part = 1.0;
    let plan = plan(&settings);
    assert_takes(plan.drained_secs, 50.0);
    assert_eq!(plan.binds().unwrap().0, Limit::ProcessorConcurrency);
    assert_eq!(plan.processors_most, 2);
}

#[test]
fn a_processor_that_runs_out_of_time_gives_its_ticket_back_and_goes_on() {
    let mut settings = unlimited(10_000);
    settings.batches.items_max = 10_000;
    settings.batches.part_bytes_max = 1_390_000;
    settings.processor.timeout_secs = 13.0;
    settings.sink.secs_per_part = 4.0;
    // Four parts of 4 s; after 12 s, less than 3 s are left.
    let plan = plan(&settings);
    assert_eq!((plan.tickets_given_back, plan.spans[0].parts), (1, 4));
    assert_takes(plan.drained_secs, 16.0 + 5.0);
}

#[test]
fn a_constant_rate_is_held_up_by_its_producers() {
    let mut settings = unlimited(10_000);
    settings.burst.shape = Shape::Constant { rate: 100.0 };
    let plan = plan(&settings);
    assert_taken(&plan, 100.0, Limit::Producers);
}

#[test]
fn duplicates_cost_a_write_only_if_their_environment_does_not_know_the_original() {
    let mut settings = unlimited(100_000);
    settings.burst.duplicates_percent = 50.0;
    let one = plan(&settings);
    assert_eq!((one.unique, one.usage.lock_writes), (50_000, 100_000.0));
    assert_eq!(one.usage.refused_writes, 0.0);
    settings.input.scaling = Scaling::Local(2);
    settings.input.batch_size = 5_000;
    settings.aggregator.micros_per_message = 100.0;
    let two = plan(&settings);
    // Bursts of `local` with two environments took 0.28 units (`cargo xtask bench table`, 2026-11-22).
    let refused = two.usage.refused_writes / 50_000.0;
    assert!((0.2..0.35).contains(&refused), "{refused}");
}

#[test]
fn the_same_seed_gives_the_same_plan_and_another_one_differs_a_little() {
    let settings = Settings {
        seed: 7,
        ..Settings::default()
    };
    let planned = |settings: &Settings| format!("{:?}", plan(settings));
    assert_eq!(planned(&settings), planned(&settings));
    let other = Settings {
        seed: 8,
        ..settings.clone()
    };
    assert_ne!(planned(&settings), planned(&other));
    let (a, b) = (plan(&settings).drained_secs, plan(&other).drained_secs);
    assert!((a / b - 1.0).abs() < 0.05, "{a} and {b}");
}

#[test]
fn every_message_is_claimed_or_a_duplicate_and_every_batch_is_delivered() {
    for (keys, bodies) in [
        (1, Bodies::Items),
        (7, Bodies::Items),
        (1, Bodies::LogTable),
        (7, Bodies::LogS3),
    ] {
        let mut settings = Settings::default();
        settings.batches.bodies = bodies;
        (settings.burst.messages, settings.burst.duplicates_percent) = (123_457, 12.3);
        settings.burst.keys = keys;
        let plan = plan(&settings);
        let claimed: u64 = plan.spans.iter().map(|batch| batch.count).sum();
        assert_eq!(claimed, plan.unique);
        assert!(plan.drained && plan.spans.iter().all(|batch| batch.completed_at.is_some()));
        assert_eq!(plan.samples.last().unwrap().taken, Some(123_457));
    }
}
