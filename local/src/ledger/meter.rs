//! The meter: what goes from the functions to DynamoDB, to the queues and to a sink, added up on its way.
//!
//! It stands behind the faults, where requests reach the service: what a fault refused, whole or as a statement of a
//! batch, was never charged, and what was applied although its reply was lost was.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use axum::body::Bytes;
use emulators::dynamodb::capacity::{Kind, StatementResult, asking, condition_failed, kind, read};
use emulators::proxy::{Call, Observer, Reply, Service};
use emulators::sqs::Requests;
use protocol::ids::BatchId;
use serde::Serialize;

use super::actions::{Action, actions};
use super::claims::claimed;

/// What has gone through so far.
#[derive(Debug, Default)]
pub struct Meter {
    counts: Mutex<Counts>,
    actions: Mutex<BTreeSet<Action>>,
}

/// Requests, units and claims.
#[derive(Clone, Debug, Default)]
pub struct Counts {
    /// By service and operation.
    pub requests: BTreeMap<(Service, String), Requests>,
    /// By table, and by what of it they are for.
    pub units: BTreeMap<(String, Part), Units>,
    /// Of the units of failed conditions, those that no answer told.
    pub unreported: f64,
    /// When the last claim into each batch was acknowledged.
    pub last_claims: BTreeMap<BatchId, SystemTime>,
}

/// What of a table units are for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// Its items.
    Items,
    /// Entries of this index.
    Index(String),
    /// Writes whose condition did not hold.
    FailedConditions,
}

/// Capacity units.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Units {
    /// Written.
    pub writes: f64,
    /// Read.
    pub reads: f64,
}

impl Meter {
    /// What has gone through so far.
    pub fn counts(&self) -> Counts {
        self.lock().clone()
    }

    /// Returns what the functions have asked for so far, whatever became of it.
    pub fn actions(&self) -> BTreeSet<Action> {
        self.actions
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    fn lock(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Observer for Meter {
    fn asked(&self, service: Service, call: &Call) {
        let asked = actions(service, call);
        let mut actions = self.actions.lock().unwrap_or_else(PoisonError::into_inner);
        actions.extend(asked);
    }

    /// Counts a request. Where it goes to DynamoDB, the body returned asks what the request consumes.
    fn sends(&self, service: Service, operation: &str, body: Bytes) -> Bytes {
        let key = (service, operation.to_owned());
        let mut counts = self.lock();
        counts.requests.entry(key).or_default().add(body.len());
        drop(counts);
        match service {
            Service::DynamoDb if kind(operation).is_some() => {
                asking(&body).map_or(body, Bytes::from)
            }
            Service::DynamoDb | Service::Sqs | Service::S3 | Service::Http => body,
        }
    }

    fn answered(&self, service: Service, operation: &str, request: &[u8], reply: &Reply) {
        let Some(kind) = kind(operation).filter(|_| service == Service::DynamoDb) else {
            return;
        };
        if !reply.status.is_success() {
            if let Some(table) = condition_failed(request, &reply.body) {
                self.lock().unreported(&table, 1.0);
            }
            return;
        }
        let answer = read(operation, &reply.body);
        let claimed = claimed(operation, request, &answer.statements);
        let now = SystemTime::now();
        let mut counts = self.lock();
        for consumed in &answer.consumed {
            let table = &*consumed.table_name;
            counts.add(table, Part::Items, kind, consumed.table_units());
            for (index, units) in consumed.index_units() {
                counts.add(table, Part::Index(index.to_owned()), kind, units);
            }
            counts.add(table, Part::FailedConditions, kind, consumed.failed_units());
        }
        if answer.consumed.is_empty() {
            let failed =
                |statement: &&StatementResult| **statement == StatementResult::ConditionFailed;
            let failed = answer.statements.iter().filter(failed).count();
            counts.unreported(crate::dynamodb::LOCK_TABLE, failed as f64);
        }
        for batch in claimed {
            counts.last_claims.insert(batch, now);
        }
    }
}

impl Counts {
    fn add(&mut self, table: &str, part: Part, kind: Kind, units: f64) {
        if units == 0.0 {
            return;
        }
        let sum = self.units.entry((table.to_owned(), part)).or_default();
        match kind {
            Kind::Writes => sum.writes += units,
            Kind::Reads => sum.reads += units,
        }
    }

    /// Conditions that did not hold, of which no answer told the cost: the least there is, one unit each.
    fn unreported(&mut self, table: &str, units: f64) {
        self.add(table, Part::FailedConditions, Kind::Writes, units);
        self.unreported += units;
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use emulators::sqs::SQS_CHUNK_BYTES;

    use super::*;

    const BATCH: &str = "0190163d-8694-739b-aea5-966c26f8ad91";

    /// Sends a request through, and answers what it looked like behind the meter.
    fn through(
        meter: &Meter,
        operation: &str,
        request: &Value,
        status: u16,
        answer: &Value,
    ) -> Value {
        let request = Bytes::from(request.to_string());
        let request = meter.sends(Service::DynamoDb, operation, request);
        let reply = Reply::json(status, answer);
        meter.answered(Service::DynamoDb, operation, &request, &reply);
        serde_json::from_slice(&request).unwrap()
    }

    fn units(meter: &Meter, part: Part) -> (f64, f64) {
        let counts = meter.counts();
        let sum = counts.units.get(&("lock-table".to_owned(), part));
        sum.map_or((0.0, 0.0), |units| (units.writes, units.reads))
    }

    #[test]
    fn units_add_up_by_what_they_are_for() {
        let meter = Meter::default();
        let consumed = json!({
            "TableName": "lock-table",
            "CapacityUnits": 5.0,
            "Table": { "CapacityUnits": 2.0 },
            "GlobalSecondaryIndexes": { "i": { "CapacityUnits": 2.0 } },
        });
        let statement = json!({ "Statement": "UPDATE", "Parameters": [{ "S": "e" }] });
        let batch = json!({ "Statements": [statement] });
        let answer = json!({ "Responses": [{}], "ConsumedCapacity": [consumed] });
        for _ in 0..2 {
            let request = through(&meter, "BatchExecuteStatement", &batch, 200, &answer);
            assert_eq!(request["ReturnConsumedCapacity"], "INDEXES");
        }
        let query = json!({ "TableName": "lock-table" });
        let answer = json!({ "Items": [], "ConsumedCapacity": consumed });
        through(&meter, "Query", &query, 200, &answer);
        assert_eq!(units(&meter, Part::Items), (4.0, 2.0));
        assert_eq!(units(&meter, Part::Index("i".to_owned())), (4.0, 2.0));
        assert_eq!(units(&meter, Part::FailedConditions), (2.0, 1.0));
        assert_eq!(meter.counts().unreported, 0.0);
        let requests = Vec::from_iter(meter.counts().requests.into_values());
        assert_eq!(
            requests.iter().map(|one| one.count).collect::<Vec<_>>(),
            [2, 1]
        );
    }

    #[test]
    fn failed_conditions_that_nobody_reports_count_one_each_and_throttles_nothing() {
        let meter = Meter::default();
        let request = json!({ "TableName": "lock-table", "Item": {} });
        let failure =
            |kind: &str| json!({ "__type": format!("com.amazonaws.dynamodb.v20120810#{kind}") });
        let put = |kind| through(&meter, "PutItem", &request, 400, &failure(kind));
        put("ConditionalCheckFailedException");
        put("ProvisionedThroughputExceededException");
        let statement = |code: &str| json!({ "Error": { "Code": code } });
        let statements = ["DuplicateItem", "ThrottlingError", "DuplicateItem"].map(statement);
        let request = json!({ "Statements": [] });
        let answer = json!({ "Responses": statements });
        through(&meter, "BatchExecuteStatement", &request, 200, &answer);
        assert_eq!(units(&meter, Part::FailedConditions), (3.0, 0.0));
        assert_eq!(meter.counts().unreported, 3.0);
    }

    #[test]
    fn the_last_claim_of_a_batch_is_the_last_that_was_acknowledged() {
        let meter = Meter::default();
        let item = json!({ "batchId": { "S": format!("{BATCH}#1") } });
        let claim = json!({ "TableName": "lock-table", "Item": item });
        let claimed = |status| {
            through(&meter, "PutItem", &claim, status, &json!({}));
            meter.counts().last_claims.into_values().next()
        };
        assert_eq!(claimed(500), None);
        let first = claimed(200).unwrap();
        assert_eq!(claimed(500), Some(first));
        assert!(claimed(200).unwrap() >= first);
    }

    #[test]
    fn requests_to_queues_are_billed_by_chunks_and_those_about_tables_go_through_as_they_are() {
        let meter = Meter::default();
        for bytes in [0, SQS_CHUNK_BYTES, SQS_CHUNK_BYTES + 1] {
            let body = Bytes::from(vec![b' '; bytes]);
            assert_eq!(meter.sends(Service::Sqs, "SendMessage", body.clone()), body);
        }
        let sent = (Service::Sqs, "SendMessage".to_owned());
        let expected = Requests {
            count: 3,
            billed: 4,
        };
        assert_eq!(meter.counts().requests[&sent], expected);
        let body = Bytes::from_static(b"{}");
        assert_eq!(
            meter.sends(Service::DynamoDb, "CreateTable", body.clone()),
            body
        );
    }
}
