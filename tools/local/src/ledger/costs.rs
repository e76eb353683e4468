//! The cost of a run by purpose, for its record.

use planner::{Cost, MILLION};
use protocol::text::counted;

use super::Ledger;

impl Ledger {
    /// Returns what each purpose cost in a run with `unique` events. Purposes that cost nothing are left out.
    pub fn costs(&self, unique: u64) -> Vec<Cost> {
        let share = &self.per_unique;
        let dollars = &share.dollars_per_million;
        let whole = |each: f64| (each * unique as f64).round();
        let invocations: u64 = self.functions.iter().map(|one| one.invocations).sum();
        let gb_seconds: f64 = self.functions.iter().map(|one| one.gb_seconds).sum();
        let s3: u64 = self.s3.iter().map(|one| one.requests.count).sum();
        let costs = [
            (
                "table writes",
                counted(whole(share.write_units), "write unit"),
                dollars.write_units,
            ),
            (
                "table reads",
                counted(whole(share.read_units), "read unit"),
                dollars.read_units,
            ),
            (
                "queues",
                counted(whole(share.sqs_requests), "request"),
                dollars.sqs_requests,
            ),
            (
                "invocations",
                counted(invocations, "invocation"),
                dollars.lambda_requests,
            ),
            (
                "time of functions",
                format!("{gb_seconds:.1} GB-seconds"),
                dollars.lambda_gb_seconds,
            ),
            (
                "S3 requests",
                format!("{}, those to the sink included", counted(s3, "request")),
                dollars.s3_requests,
            ),
            (
                "storage",
                "loads, slots and runs, for as long as they are kept".to_owned(),
                dollars.storage,
            ),
        ];
        let some = costs.into_iter().filter(|(_, _, dollars)| *dollars > 0.0);
        some.map(|(purpose, quantity, dollars)| Cost {
            purpose: purpose.to_owned(),
            quantity,
            dollars: dollars * unique as f64 / MILLION,
            dollars_per_million_unique: dollars,
        })
        .collect()
    }
}
