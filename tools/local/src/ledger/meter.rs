//! The meter: counts the requests of the functions to DynamoDB, the queues and a sink, and their capacity units.
//!
//! It counts the requests that reach the service. A request or statement that a fault refused is not counted, because AWS
//! would not charge it. One that was applied although its reply was lost is counted.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::time::SystemTime;

use axum::body::Bytes;
use emulators::dynamodb::capacity::{
    CapacityKind, StatementResult, capacity_kind, failed_condition_table, parse_reply,
    with_capacity_requested,
};
use emulators::proxy::{Observer, Reply, Service, ServiceRequest};
use emulators::sqs::RequestCount;
use protocol::ids::BatchId;
use serde::Serialize;

use super::actions::{Action, actions, function};
use super::claims::claimed;
use super::purposes::{UnitsPurpose, purpose};
use super::s3::{S3Key, S3Requests};
use crate::dynamodb::{BATCH_TABLE, LOCK_TABLE};
use crate::locked::locked;

/// Counts requests as the observer of the proxies.
#[derive(Debug, Default)]
pub struct Meter {
    counts: Mutex<Counts>,
    actions: Mutex<BTreeSet<Action>>,
}

/// Counts of requests and capacity units, and the times of claims.
#[derive(Clone, Debug, Default)]
pub struct Counts {
    /// Requests by service and operation.
    pub requests: BTreeMap<(Service, String), RequestCount>,
    /// Capacity units by table and purpose.
    pub units: BTreeMap<(String, UnitsPurpose), Units>,
    /// Write units of failed conditions that DynamoDB did not report, estimated as one each. `units` includes them.
    pub unreported: f64,
    pub s3: BTreeMap<S3Key, S3Requests>,
    /// Claims that were written.
    pub claims: u64,
    /// When the table acknowledged the first claim.
    pub first_claim: Option<SystemTime>,
    /// When the table acknowledged the last claim of each batch.
    pub last_claims: BTreeMap<BatchId, SystemTime>,
}

/// Capacity units.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Units {
    pub writes: f64,
    pub reads: f64,
}

impl Meter {
    pub fn counts(&self) -> Counts {
        locked(&self.counts).clone()
    }

    /// Returns how many claims were written so far.
    pub fn claims(&self) -> u64 {
        locked(&self.counts).claims
    }

    /// Returns the IAM actions of all requests so far, whether they succeeded or not.
    pub fn actions(&self) -> BTreeSet<Action> {
        locked(&self.actions).clone()
    }
}

impl Observer for Meter {
    fn received(&self, service: Service, request: &ServiceRequest) {
        let asked = actions(service, request);
        locked(&self.actions).extend(asked);
    }

    /// Counts a request. Returns its body, in which a request to DynamoDB also asks for the capacity units that it uses.
    fn forwards(&self, service: Service, request: &ServiceRequest) -> Bytes {
        let (operation, body) = (request.operation.clone(), request.body.clone());
        let kind = capacity_kind(&operation);
        let key = (service, operation);
        let mut counts = locked(&self.counts);
        counts.requests.entry(key).or_default().add(body.len());
        drop(counts);
        match service {
            Service::DynamoDb if kind.is_some() => {
                with_capacity_requested(&body).map_or(body, Bytes::from)
            }
            Service::DynamoDb | Service::Sqs | Service::S3 | Service::Http => body,
        }
    }

    fn replied(&self, service: Service, request: &ServiceRequest, reply: &Reply) {
        let operation = request.operation.as_str();
        if service == Service::S3 {
            let key = S3Key::of(function(request).unwrap_or_default(), request);
            let mut counts = locked(&self.counts);
            counts.s3.entry(key).or_default().add(request, reply);
            return;
        }
        let Some(kind) = capacity_kind(operation).filter(|_| service == Service::DynamoDb) else {
            return;
        };
        if !reply.status.is_success() {
            if let Some(table) = failed_condition_table(&request.body, &reply.body) {
                locked(&self.counts).unreported(&table, 1.0);
            }
            return;
        }
        let response = parse_reply(operation, &reply.body);
        let statements = &response.statements;
        let claimed = claimed(operation, &request.body, &reply.body, statements);
        let now = SystemTime::now();
        let mut counts = locked(&self.counts);
        for consumed in &response.consumed {
            let table = &*consumed.table_name;
            let of_items = match table {
                BATCH_TABLE => purpose(&request.body),
                _ => UnitsPurpose::Items,
            };
            counts.add(table, of_items, kind, consumed.table_units());
            for (index, units) in consumed.index_units() {
                counts.add(table, UnitsPurpose::Index(index.to_owned()), kind, units);
            }
            let failed = consumed.failed_units();
            counts.add(table, UnitsPurpose::FailedConditions, kind, failed);
        }
        if response.consumed.is_empty() {
            let failed =
                |statement: &&StatementResult| **statement == StatementResult::ConditionFailed;
            let failed = response.statements.iter().filter(failed).count();
            counts.unreported(LOCK_TABLE, failed as f64);
        }
        if !claimed.is_empty() {
            counts.first_claim.get_or_insert(now);
        }
        counts.claims += claimed.len() as u64;
        let claims = claimed.into_iter().map(|batch| (batch, now));
        counts.last_claims.extend(claims);
    }
}

impl Counts {
    fn add(&mut self, table: &str, purpose: UnitsPurpose, kind: CapacityKind, units: f64) {
        if units == 0.0 {
            return;
        }
        let sum = self.units.entry((table.to_owned(), purpose)).or_default();
        match kind {
            CapacityKind::Writes => sum.writes += units,
            CapacityKind::Reads => sum.reads += units,
        }
    }

    /// Counts failed conditions whose cost DynamoDB did not report, as one unit each, which is the least it charges.
    fn unreported(&mut self, table: &str, units: f64) {
        let purpose = UnitsPurpose::FailedConditions;
        self.add(table, purpose, CapacityKind::Writes, units);
        self.unreported += units;
    }
}

#[cfg(test)]
mod tests {
    use axum::http::{HeaderMap, Method};
    use serde_json::{Value, json};

    use emulators::sqs::SQS_CHUNK_BYTES;

    use super::*;

    const BATCH: &str = "0190163d-8694-739b-aea5-966c26f8ad91";

    fn call(operation: &str, body: Bytes) -> ServiceRequest {
        ServiceRequest {
            operation: operation.to_owned(),
            method: Method::POST,
            path_and_query: "/".to_owned(),
            headers: HeaderMap::new(),
            body,
        }
    }

    /// Passes a request and its reply through the meter. Returns the request as the service gets it.
    fn through(
        meter: &Meter,
        operation: &str,
        request: &Value,
        status: u16,
        body: &Value,
    ) -> Value {
        let mut request = call(operation, request.to_string().into());
        request.body = meter.forwards(Service::DynamoDb, &request);
        let reply = Reply::json(status, body);
        meter.replied(Service::DynamoDb, &request, &reply);
        serde_json::from_slice(&request.body).unwrap()
    }

    fn units(meter: &Meter, purpose: UnitsPurpose) -> (f64, f64) {
        let counts = meter.counts();
        let sum = counts.units.get(&("lock-table".to_owned(), purpose));
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
        let response = json!({ "Responses": [{}], "ConsumedCapacity": [consumed] });
        for _ in 0..2 {
            let request = through(&meter, "BatchExecuteStatement", &batch, 200, &response);
            assert_eq!(request["ReturnConsumedCapacity"], "INDEXES");
        }
        let query = json!({ "TableName": "lock-table" });
        let response = json!({ "Items": [], "ConsumedCapacity": consumed });
        through(&meter, "Query", &query, 200, &response);
        assert_eq!(units(&meter, UnitsPurpose::Items), (4.0, 2.0));
        let index = UnitsPurpose::Index("i".to_owned());
        assert_eq!(units(&meter, index), (4.0, 2.0));
        assert_eq!(units(&meter, UnitsPurpose::FailedConditions), (2.0, 1.0));
        assert_eq!(meter.counts().unreported, 0.0);
        let requests = meter.counts().requests.into_values();
        let requests = Vec::from_iter(requests.map(|one| one.count));
        assert_eq!(requests, [2, 1]);
    }

    #[test]
    fn failed_conditions_that_are_not_reported_count_one_each_and_throttles_nothing() {
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
        let response = json!({ "Responses": statements });
        through(&meter, "BatchExecuteStatement", &request, 200, &response);
        assert_eq!(units(&meter, UnitsPurpose::FailedConditions), (3.0, 0.0));
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
        let counts = meter.counts();
        assert_eq!((counts.claims, counts.first_claim), (2, Some(first)));
    }

    #[test]
    fn requests_to_queues_are_billed_by_chunks_and_those_about_tables_go_through_as_they_are() {
        let meter = Meter::default();
        for bytes in [0, SQS_CHUNK_BYTES, SQS_CHUNK_BYTES + 1] {
            let body = Bytes::from(vec![b' '; bytes]);
            let send = call("SendMessage", body.clone());
            assert_eq!(meter.forwards(Service::Sqs, &send), body);
        }
        let sent = (Service::Sqs, "SendMessage".to_owned());
        let sent = meter.counts().requests[&sent];
        assert_eq!((sent.count, sent.billed), (3, 4));
        let body = Bytes::from_static(b"{}");
        let create = call("CreateTable", body.clone());
        assert_eq!(meter.forwards(Service::DynamoDb, &create), body);
    }
}
