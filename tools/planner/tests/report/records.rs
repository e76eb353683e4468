//! Records made up for tests, the same at every run.

use planner::{
    BatchSpan, Cost, Flushed, LatencySummary, Outcome, Record, RecordKind, Sample, Setting,
    Throttle,
};

/// Returns a record of a run in which nothing was observed.
pub fn bare() -> Record {
    Record::bare(RecordKind::Burst, "nothing observed")
}

/// How a made-up run goes.
#[derive(Clone, Copy)]
pub struct Shape {
    pub messages: u64,
    /// Messages sent a second.
    pub sent_a_second: f64,
    /// Messages taken off the queue a second.
    pub taken_a_second: f64,
    pub batches: usize,
    pub samples: usize,
    pub throttled_percent: u64,
}

/// The shape of a run with a few batches.
pub const FEW: Shape = Shape {
    messages: 100_000,
    sent_a_second: 27_000.0,
    taken_a_second: 6_200.0,
    batches: 6,
    samples: 140,
    throttled_percent: 1,
};

/// Another, which throttles more and takes longer.
pub const SLOW: Shape = Shape {
    taken_a_second: 3_900.0,
    batches: 9,
    samples: 190,
    throttled_percent: 18,
    ..FEW
};

/// The largest run that a report must show well.
pub const LARGE: Shape = Shape {
    messages: 250_000_000,
    sent_a_second: 90_000.0,
    taken_a_second: 61_000.0,
    batches: 5_000,
    samples: planner::SAMPLES_MAX,
    throttled_percent: 4,
};

/// Returns a record in which everything was observed.
pub fn full(title: &str, shape: Shape) -> Record {
    let unique = shape.messages * 95 / 100;
    let taken_after = shape.messages as f64 / shape.taken_a_second;
    let drained_after = taken_after * 1.4 + 6.0;
    let batches = batches(shape, unique, taken_after, drained_after);
    let samples = samples(shape, drained_after, &batches);
    Record {
        title: title.into(),
        began_at_ms: Some(1_764_000_000_000),
        settings: settings(shape),
        outcome: Outcome {
            ok: Some(true),
            reasons: Vec::new(),
            sent: shape.messages,
            unique,
            duplicates: shape.messages - unique,
            delivered: Some(unique),
            lost: Some(0),
            repeated: Some(0),
            set_aside: Some(0),
            sent_after_secs: Some(shape.messages as f64 / shape.sent_a_second),
            claimed_after_secs: Some(taken_after),
            drained_after_secs: Some(drained_after),
            send_retries: Some(3),
        },
        samples,
        batches,
        latencies: vec![
            latency("scheduled send to delivery", unique, taken_after),
            latency("scheduled send to acknowledgement", shape.messages, 0.08),
            latency("request to acknowledgement", shape.messages, 0.02),
        ],
        throttles: vec![
            throttle(
                "lock-table",
                "key of the index",
                shape.throttled_percent * 410,
            ),
            throttle("lock-table", "whole table", shape.throttled_percent * 95),
            throttle("batch-table", "whole table", shape.throttled_percent * 3),
        ],
        costs: vec![
            cost("writes", "382,000 write units", 2.51),
            cost("reads", "97,800 read units", 0.13),
            cost("queues", "19,200 requests", 0.08),
            cost("functions", "34.2 GB-seconds", 0.02),
        ],
        notes: vec!["On this machine, seconds say little about AWS.".into()],
        ..bare()
    }
}

fn settings(shape: Shape) -> Vec<Setting> {
    let messages = shape.messages.to_string();
    let pairs = [
        ("Place", "local, stand-ins on one machine with 2 processors"),
        ("Version", "0.1.0"),
        ("Messages", messages.as_str()),
        ("Duplicates", "5 %"),
        ("Body", "300 bytes"),
        ("BODIES", "items"),
        ("MAX_BATCH_SIZE", "50000"),
        ("MAX_SECONDARY_BATCHING_WINDOW", "5"),
        (
            "SINK",
            "file:/a/long/path/of/a/directory/with/no/space/in/it/at/all/for/the/parts",
        ),
    ];
    let setting = |(name, value): (&str, &str)| Setting {
        name: name.into(),
        value: value.into(),
    };
    pairs.map(setting).into()
}

fn batches(shape: Shape, unique: u64, taken_after: f64, drained_after: f64) -> Vec<BatchSpan> {
    let count = shape.batches;
    let mut left = unique;
    (0..count)
        .map(|batch| {
            // So many batches, of as many keys, are open at a time.
            let at_once = if count > 100 { 100 } else { 2 };
            let share = 1.0 / (count as f64 / at_once as f64).ceil();
            let from =
                (batch / at_once) as f64 * share * taken_after + (batch % at_once) as f64 * 0.3;
            let sealed = from + share * taken_after;
            let leased =
                sealed + 0.4 + (batch % 7) as f64 * 0.02 * (drained_after - sealed).max(1.0);
            let even = unique / count as u64;
            let events = match batch + 1 == count {
                true => left,
                // On average, the even share.
                false => (even / 2 + batch as u64 * 7_919 % even).min(left),
            };
            left -= events;
            BatchSpan {
                batch_id: format!("0190163d-8694-739b-aea5-{batch:012x}"),
                batch_key: (batch % 3 == 0).then(|| format!("s{}", batch % 5)),
                opened_secs: from,
                sealed_secs: Some(sealed),
                leased_secs: Some(leased),
                delivered_secs: Some((leased + share * taken_after * 0.3 + 0.6).min(drained_after)),
                events,
                parts: 1 + batch as u64 % 2,
                flushed: Some(match batch % 6 {
                    5 => Flushed::Window,
                    4 => Flushed::Drained,
                    _ => Flushed::Full,
                }),
                invocations: (batch % 3 == 0).then_some(8),
            }
        })
        .collect()
}

fn samples(shape: Shape, drained_after: f64, batches: &[BatchSpan]) -> Vec<Sample> {
    let steps = shape.samples - 1;
    (0..=steps)
        .map(|step| {
            let at_secs = drained_after * step as f64 / steps as f64;
            let total = |a_second: f64| ((at_secs * a_second) as u64).min(shape.messages);
            let (sent, taken) = (total(shape.sent_a_second), total(shape.taken_a_second));
            let delivered = batches
                .iter()
                .filter(|batch| batch.delivered_secs <= Some(at_secs));
            let delivered: u64 = delivered.map(|batch| batch.events).sum();
            let waiting = sent - taken;
            let in_flight = waiting.min(10_000);
            let age = at_secs - taken as f64 / shape.sent_a_second;
            Sample {
                at_secs,
                sent: Some(sent),
                taken: Some(taken),
                claimed: Some(taken * 95 / 100),
                duplicates: Some(taken - taken * 95 / 100),
                delivered: Some(delivered),
                visible: Some(waiting - in_flight),
                in_flight: Some(in_flight),
                oldest_secs: Some(if waiting > 0 { age } else { 0.0 }),
                aggregators: Some(if waiting > 0 { 1 + step as u64 % 2 } else { 0 }),
                batch_processors: Some(if step % 5 > 1 { 2 } else { 0 }),
                throttled: Some(taken / 200 * shape.throttled_percent),
                returned: Some(taken / 900),
            }
        })
        .collect()
}

fn latency(name: &str, count: u64, most: f64) -> LatencySummary {
    LatencySummary {
        name: name.into(),
        count,
        min_secs: most * 0.1,
        p50_secs: most * 0.4,
        p90_secs: most * 0.7,
        p99_secs: most * 0.85,
        p999_secs: most * 0.9,
        max_secs: most,
    }
}

fn throttle(resource: &str, reason: &str, count: u64) -> Throttle {
    Throttle {
        resource: resource.into(),
        reason: reason.into(),
        count,
    }
}

fn cost(purpose: &str, quantity: &str, dollars_per_million_unique: f64) -> Cost {
    Cost {
        purpose: purpose.into(),
        quantity: quantity.into(),
        dollars: dollars_per_million_unique * 0.095,
        dollars_per_million_unique,
    }
}
