//! What a burst costs, by purpose.

use protocol::limits::LOG_RETENTION;

use super::plan::Plan;
use super::prices::{MILLION, Prices, gb_months};
use super::settings::{Function, Settings};
use super::usage::Usage;
use crate::record::Cost;

const HOUR_SECS: f64 = 3_600.0;

/// Returns what a burst of so many unique events costs, by purpose. Purposes that cost nothing are absent.
pub fn costs(usage: &Usage, settings: &Settings, prices: &Prices, unique: u64) -> Vec<Cost> {
    let writes = |purpose, units: f64| {
        let dollars = units * prices.dynamodb_million_write_units.dollars / MILLION;
        (purpose, format!("{units:.0} write units"), dollars)
    };
    let in_tables = gb_months(usage.log_bytes_table, LOG_RETENTION);
    let in_s3 = gb_months(usage.log_bytes_s3, LOG_RETENTION);
    let requests = prices.lambda_million_requests.dollars / MILLION;
    let function = |function: &Function, secs: f64, invocations: f64| {
        let gb_secs = secs * function.memory_mb as f64 / 1_024.0;
        let price = match function.arm64 {
            true => &prices.lambda_gb_second_arm64,
            false => &prices.lambda_gb_second_x86_64,
        };
        let quantity = format!("{gb_secs:.0} GB-seconds, {invocations:.0} invocations");
        (quantity, gb_secs * price.dollars + invocations * requests)
    };
    let lock = usage.lock_writes + usage.index_writes;
    let (of_aggregator, aggregator) = function(
        &settings.aggregator,
        usage.aggregator_secs,
        usage.aggregator_invocations,
    );
    let (of_processor, processor) = function(
        &settings.processor,
        usage.processor_secs,
        usage.processor_invocations,
    );
    let purposes = [
        writes("claims and releases", lock),
        writes("refused claims and reservations", usage.refused_writes),
        writes("batch records and slots", usage.record_writes),
        writes("loads in the table", usage.load_writes),
        writes("index of the log in the table", usage.run_writes),
        (
            "reads",
            format!("{:.0} read units", usage.reads),
            usage.reads * prices.dynamodb_million_read_units.dollars / MILLION,
        ),
        (
            "loads and index in S3",
            format!("{:.0} PUT, {:.0} GET", usage.s3_puts, usage.s3_gets),
            (usage.s3_puts * prices.s3_million_puts.dollars
                + usage.s3_gets * prices.s3_million_gets.dollars)
                / MILLION,
        ),
        (
            "storage of loads and index",
            format!("{in_tables:.3} GB-months in tables, {in_s3:.3} in S3"),
            in_tables * prices.dynamodb_gb_month.dollars + in_s3 * prices.s3_gb_month.dollars,
        ),
        (
            "queues",
            format!("{:.0} requests", usage.queue_requests),
            usage.queue_requests * prices.sqs_million_requests.dollars / MILLION,
        ),
        ("aggregator", of_aggregator, aggregator),
        ("batch-processor", of_processor, processor),
        (
            "provisioned pollers, during the burst",
            format!("{:.2} poller hours", usage.poller_secs / HOUR_SECS),
            usage.poller_secs / HOUR_SECS * prices.poller_hour.dollars,
        ),
    ];
    let costs = purposes.into_iter().filter(|(.., dollars)| *dollars > 0.0);
    let per_million = MILLION / unique.max(1) as f64;
    costs
        .map(|(purpose, quantity, dollars)| Cost {
            purpose: purpose.to_owned(),
            quantity,
            dollars: micros(dollars),
            dollars_per_million_unique: micros(dollars * per_million),
        })
        .collect()
}

/// Rounds dollars to millionths: what is less is not paid.
fn micros(dollars: f64) -> f64 {
    (dollars * 1e6).round() / 1e6
}

/// Returns what a planned burst costs, in dollars.
pub fn dollars(plan: &Plan, settings: &Settings, prices: &Prices) -> f64 {
    total(&costs(&plan.usage, settings, prices, plan.unique))
}

/// Returns the sum of costs, in dollars.
pub fn total(costs: &[Cost]) -> f64 {
    costs.iter().map(|cost| cost.dollars).sum()
}
