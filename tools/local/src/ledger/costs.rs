//! The cost of a run by purpose, for its record.

use planner::{Cost, MILLION};
use protocol::text::counted;

use super::Ledger;

impl Ledger {
    /// Returns what each purpose cost in a run with `unique` events. Purposes that cost nothing are left out.
    pub fn costs(&self, unique: u64) -> Vec<Cost> {
        let share = &self.per_unique;
        let dollars = &share.dollars_per_million;
        let units = |each: f64, noun: &str| counted((each * unique as f64).round(), noun);
        let invocations: u64 = self.functions.iter().map(|one| one.invocations).sum();
        let gb_seconds: f64 = self.functions.iter().map(|one| one.gb_seconds).sum();
        let s3: u64 = self.s3.iter().map(|one| one.requests.count).sum();
        let writes = units(share.write_units, "write unit");
        let reads = units(share.read_units, "read unit");
        let queues = units(share.sqs_requests, "request");
        let invocations = counted(invocations, "invocation");
        let gb_seconds = format!("{gb_seconds:.1} GB-seconds");
        let s3 = format!("{}, those to the sink included", counted(s3, "request"));
        let kept = "loads, slots and runs, for as long as they are kept".to_owned();
        let costs = [
            ("table writes", writes, dollars.write_units),
            ("table reads", reads, dollars.read_units),
            ("queues", queues, dollars.sqs_requests),
            ("invocations", invocations, dollars.lambda_requests),
            ("time of functions", gb_seconds, dollars.lambda_gb_seconds),
            ("S3 requests", s3, dollars.s3_requests),
            ("storage", kept, dollars.storage),
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
