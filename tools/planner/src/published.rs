//! The one published run of such a service: a public proof of concept in Node.
//!
//! What it was: 1.2 million messages into a dormant stack with a warmed table; 26 batches, 22 of them full, all done in
//! 21 minutes. Its configuration is in its repository, `kurtismash/aws-serverless-unique-event-aggregator` (081be89,
//! June 2024), and in the article about it: <https://medium.com/@nooptech/serverless-event-aggregation-with-aws-lambda-and-dynamodb-96fe1a742a81>.

use super::costs::dollars;
use super::engine::plan;
use super::plan::Plan;
use super::plan_report::duration;
use super::prices::Prices;
use super::settings::{Bodies, Function, Scaling, Settings};
use super::shape::Shape;

/// Messages of the published run, its batches, how many of them were full, and when it was done.
pub const MESSAGES: u64 = 1_200_000;
pub const BATCHES: u64 = 26;
pub const FULL: u64 = 22;
pub const DONE_SECS: f64 = 21.0 * 60.0;

/// Time of one event in the proof of concept's aggregator, in microseconds of a whole processor: Node 18 and one PutItem
/// an event with the SDK for JavaScript. The run does not tell it. Below 1,000 it makes no difference: the one key of a
/// batch takes 1,000 units a second.
pub const NODE_MICROS_PER_EVENT: f64 = 800.0;
/// The same of its batch-processor, which deletes 25 items a request. Here too, the key is slower.
const NODE_MICROS_PER_DELETE: f64 = 100.0;

/// What a reader of the comparison must know: where the values are from, and how the figures come about.
pub const NOTES: [&str; 5] = [
    "from its repository: 1,769 MB, timeout 60 s, visibility timeout 10 min, BatchSize 10000, batching window 300 s, \
     MaximumConcurrency 2, MAX_BATCH_SIZE 50000, MAX_SECONDARY_BATCHING_WINDOW 300, one index key a batch, a table warmed to 40,000 \
     units; each environment fills batches of its own, and a full one waits for its window too; no batch records, no dead-letter queue",
    "assumed: all messages are in the queue at the start and none is a duplicate; Node takes 0.8 ms of CPU for an event and 0.1 ms for \
     a delete. Below 1 ms Node makes no difference, because the one index key of a batch takes 1,000 units a second",
    "no value was fitted. 2 environments x 1,000 claims a second take 10 min; the mapping holds the last messages for its window of \
     300 s, because they fill no invocation; the batches that they open wait for 60 + 300 s. Each of the two environments has a \
     batch that is not full before that pause and one after it: 4",
    "assumed: the mapping receives more than 1,000 messages a second for each of its two environments. With less the run would have \
     taken longer, so it is the only figure there is for this rate; plans assume 1,000",
    "the writers of the proof of concept do not slow down when a key throttles. The model gives them all of the key's units, and no \
     message that comes back",
];

/// Returns the settings of the published run.
pub fn settings() -> Settings {
    let mut settings = Settings::default();
    let burst = &mut settings.burst;
    (burst.messages, burst.size_bytes, burst.shape) = (MESSAGES, 50, Shape::Burst);
    let input = &mut settings.input;
    (input.batch_size, input.window_secs) = (10_000, 300.0);
    input.scaling = Scaling::MaximumConcurrency(2);
    (input.visibility_secs, input.receives_max) = (600.0, u32::MAX);
    // More than the keys let through, so that the keys are the limit.
    input.receive_rate = 2_000.0;
    settings.aggregator = Function {
        memory_mb: 1_769,
        timeout_secs: 60.0,
        micros_per_message: NODE_MICROS_PER_EVENT,
        cold_start_secs: 1.0,
        concurrency: 2,
        per_environment: 1,
        arm64: false,
    };
    settings.processor = Function {
        timeout_secs: 300.0,
        micros_per_message: NODE_MICROS_PER_DELETE,
        // Its mapping has no maximum; five batches run at once at first, and no more are due.
        concurrency: 5,
        ..settings.aggregator.clone()
    };
    let batches = &mut settings.batches;
    (batches.window_secs, batches.items_max) = (300.0, 50_000);
    (batches.bodies, batches.seal_when_drained) = (Bodies::Items, false);
    batches.full_starts_at_once = false;
    (batches.own_batches, batches.deadline_margin_secs) = (true, 0.0);
    let tables = &mut settings.tables;
    (tables.lock, tables.batch) = (40_000.0, 40_000.0);
    (tables.shards, tables.paced_share) = (1, 1.0);
    let requests = &mut settings.requests;
    (requests.concurrency, requests.items, requests.write_secs) = (50, 1, 0.005);
    settings.sink.secs_per_part = 0.0;
    settings
}

/// Returns the template's defaults for the same messages, with their names: each place of bodies, and a new table and a warmed one where
/// that matters. The template warms the lock table, to which the log writes nothing. The batch table stays as AWS makes it.
pub fn ours() -> Vec<(String, Settings)> {
    let all = [
        ("items, cold table", Bodies::Items, 4_000.0),
        ("items, warm table", Bodies::Items, 40_000.0),
        ("log:table", Bodies::LogTable, 4_000.0),
        ("log:s3", Bodies::LogS3, 4_000.0),
    ];
    let named = all.map(|(name, bodies, units)| {
        let mut settings = Settings::default();
        (settings.burst.messages, settings.burst.size_bytes) = (MESSAGES, 50);
        (settings.batches.bodies, settings.tables.lock) = (bodies, units);
        settings.use_measured_cpu();
        (format!("defaults, {name}"), settings)
    });
    named.into()
}

/// Returns the published run beside a plan of it, and beside what this service's defaults do with its messages, as text.
pub fn comparison(planned: &Plan, prices: &Prices) -> String {
    let mut lines = vec![
        "the published run: 1.2 million messages, dormant, a warmed table, one index key a batch\n"
            .to_owned(),
        "| | published | planned | off |\n|---|---:|---:|---:|".to_owned(),
    ];
    for (name, published, planned) in [
        ("batches", BATCHES as f64, planned.batches as f64),
        ("full batches", FULL as f64, planned.full as f64),
        (
            "all done, minutes",
            DONE_SECS / 60.0,
            planned.drained_secs / 60.0,
        ),
    ] {
        let off = (planned / published - 1.0) * 100.0;
        lines.push(format!(
            "| {name} | {published} | {planned:.1} | {off:+.1} % |"
        ));
    }
    lines.push(String::new());
    lines.extend(NOTES.iter().map(|note| format!("- {note}")));
    lines.push("\nthe same messages with this service's defaults\n".to_owned());
    lines.push(
        "| | batches | full | taken | delivered | drained | aggregators | $ | held up longest by |"
            .to_owned(),
    );
    lines.push("|---|---:|---:|---:|---:|---:|---:|---:|---|".to_owned());
    let rows = ours().into_iter();
    lines.extend(rows.map(|(name, settings)| row(&name, &settings, prices)));
    lines.join("\n") + "\n"
}

fn row(name: &str, settings: &Settings, prices: &Prices) -> String {
    let plan = plan(settings);
    let binds = plan.binds().map_or_else(
        || "nothing".to_owned(),
        |(limit, percent)| format!("{limit}, {percent:.0} %"),
    );
    format!(
        "| {name} | {} | {} | {} | {} | {} | {} | {:.2} | {binds} |",
        plan.batches,
        plan.full,
        duration(plan.claimed_secs),
        duration(plan.delivered_secs),
        duration(plan.drained_secs),
        plan.aggregators_most,
        dollars(&plan, settings, prices)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_run_comes_out_within_a_tenth() {
        let plan = plan(&settings());
        for (planned, published) in [
            (plan.batches as f64, BATCHES as f64),
            (plan.full as f64, FULL as f64),
            (plan.drained_secs, DONE_SECS),
        ] {
            let off = planned / published - 1.0;
            assert!(off.abs() <= 0.1, "{planned}, published {published}");
        }
        assert_eq!(plan.dead_letters, 0);
    }
}
