//! The lock table's own faults: an index that lags, and keys that take so many writes a second and no more.
//!
//! Both watch the writes that go by. Queries of a lagging index never reach the table: they are answered from what was
//! seen. What could write to the table in a way that is not understood is refused, loudly.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::Counter;
use super::draws::Draws;
use super::index::{Index, Position};
use super::limits::{Charge, Key, Limits};
use super::options::FaultOptions;
use super::report::{IndexLagReport, PartitionLimitReport};
use super::requests::{IndexQuery, Request, Write, read};
use crate::dynamodb::{BATCH_INDEX, LOCK_TABLE};
use crate::proxy::{Call, Refused, Reply, Upstream};

const THROTTLED: &str = "Throughput exceeds the current capacity of your table or index. DynamoDB is automatically \
                         scaling your table or index so please try again shortly.";

/// The faults of the lock table.
#[derive(Debug)]
pub(crate) struct TableFaults {
    started: Instant,
    lag: Option<Lag>,
    limit: Option<Limit>,
}

#[derive(Debug)]
struct Lag {
    most: Duration,
    draws: Draws,
    index: Mutex<Index>,
    queries: Counter,
    stale: Counter,
    hidden: Counter,
    gone: Counter,
}

#[derive(Debug)]
struct Limit {
    draws: Draws,
    limits: Mutex<Limits>,
    by_item: Counter,
    by_index_key: Counter,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl TableFaults {
    /// What the options ask for; `None` if that is nothing.
    pub(super) fn new(options: &FaultOptions) -> Option<TableFaults> {
        let lag = options.index_lag.map(|most| Lag {
            most,
            draws: Draws::new(options.seed, "index lag"),
            index: Mutex::new(Index::new(most)),
            queries: Counter::default(),
            stale: Counter::default(),
            hidden: Counter::default(),
            gone: Counter::default(),
        });
        let limit = options.partition_limit.map(|units| Limit {
            draws: Draws::new(options.seed, "partition limit"),
            limits: Mutex::new(Limits::new(units)),
            by_item: Counter::default(),
            by_index_key: Counter::default(),
        });
        (lag.is_some() || limit.is_some()).then(|| TableFaults {
            started: Instant::now(),
            lag,
            limit,
        })
    }

    pub(super) fn lag_report(&self) -> Option<IndexLagReport> {
        self.lag.as_ref().map(|lag| IndexLagReport {
            queries: lag.queries.get(),
            stale: lag.stale.get(),
            hidden: lag.hidden.get(),
            gone: lag.gone.get(),
        })
    }

    pub(super) fn limit_report(&self) -> Option<PartitionLimitReport> {
        self.limit.as_ref().map(|limit| PartitionLimitReport {
            by_item: limit.by_item.get(),
            by_index_key: limit.by_index_key.get(),
        })
    }

    /// Answers a call, with or without the table.
    ///
    /// # Errors
    /// When the table could not be reached.
    pub(crate) async fn answer(
        &self,
        mut call: Call,
        upstream: &Upstream,
    ) -> Result<Reply, Refused> {
        let Ok(mut body) = serde_json::from_slice::<Value>(&call.body) else {
            return upstream.send(call).await;
        };
        match read(&call.operation, &body) {
            Request::Other => upstream.send(call).await,
            Request::Query(query) => match &self.lag {
                Some(lag) => {
                    let reply = lag.answer(&query, self.now());
                    upstream.stood_in_for(&call, &reply);
                    Ok(reply)
                }
                None => upstream.send(call).await,
            },
            Request::Write(write) => {
                let charges = match self.admit(&write) {
                    Ok(charges) => charges,
                    Err(limit) => return Ok(limit.refusal()),
                };
                let sent = upstream.send(call).await;
                let applied = sent.as_ref().is_ok_and(|reply| reply.status.is_success());
                self.settle(&write, &charges, applied);
                sent
            }
            Request::Batch(writes) => {
                let Some(statements) = body["Statements"].as_array_mut() else {
                    return upstream.send(call).await;
                };
                let admitted: Vec<_> = writes
                    .iter()
                    .map(|write| write.as_ref().map(|write| self.admit(write)).transpose())
                    .collect();
                let mut member = admitted.iter();
                statements.retain(|_| member.next().is_none_or(Result::is_ok));
                let reply = if statements.is_empty() {
                    Reply::json(200, &json!({ "Responses": [] }))
                } else {
                    if statements.len() < writes.len() {
                        call.body = body.to_string().into();
                    }
                    upstream.send(call).await?
                };
                Ok(self.merged(&writes, &admitted, reply))
            }
            Request::NotUnderstood(what) => {
                eprintln!("error: the faults of the lock table do not understand: {what}");
                let message = format!("the faults in front of the lock table do not know {what}");
                Ok(Reply::error(
                    400,
                    "com.amazon.coral.validate#ValidationException",
                    &message,
                ))
            }
        }
    }

    fn now(&self) -> Duration {
        self.started.elapsed()
    }

    /// Takes the units of a write, if there are enough.
    fn admit(&self, write: &Write) -> Result<Vec<Charge>, &Limit> {
        let Some(limit) = &self.limit else {
            return Ok(Vec::new());
        };
        let charges = write.charges();
        let taken = lock(&limit.limits)
            .take(&charges, self.now())
            .map_err(|short| match short.key {
                Key::Item(_) => limit.by_item.add(1),
                Key::Index(_) => limit.by_index_key.add(1),
            });
        match taken {
            Ok(()) => Ok(charges),
            Err(()) => Err(limit),
        }
    }

    /// Notes what became of a write that was let through. One that failed its condition has touched no index key, but
    /// it has cost its item's units.
    fn settle(&self, write: &Write, charges: &[Charge], applied: bool) {
        if !applied {
            if let Some(limit) = &self.limit {
                lock(&limit.limits).give_back(charges.get(1..).unwrap_or_default());
            }
            return;
        }
        // A claim written again in its own seat neither comes nor goes.
        if let Some(lag) = &self.lag
            && write.comes != write.goes
        {
            let now = self.now();
            let mut index = lock(&lag.index);
            if let Some(entry) = &write.comes {
                index.came(entry, now);
            }
            if let Some(entry) = &write.goes {
                index.went(entry, now);
            }
        }
    }

    /// Puts the refusals of members that were not let through between the answers of the others.
    fn merged(
        &self,
        writes: &[Option<Write>],
        admitted: &[Result<Option<Vec<Charge>>, &Limit>],
        reply: Reply,
    ) -> Reply {
        let body = serde_json::from_slice::<Value>(&reply.body).ok();
        let responses = body.filter(|_| reply.status.is_success()).map(|mut body| {
            let responses = body["Responses"].as_array_mut().map(std::mem::take);
            (body, responses.unwrap_or_default())
        });
        let Some((mut body, responses)) = responses else {
            for (write, charges) in writes.iter().zip(admitted) {
                if let (Some(write), Ok(Some(charges))) = (write, charges) {
                    self.settle(write, charges, false);
                }
            }
            return reply;
        };
        let mut responses = responses.into_iter();
        let mut merged = Vec::with_capacity(writes.len());
        for (write, admitted) in writes.iter().zip(admitted) {
            match admitted {
                Err(limit) => merged.push(limit.member_refusal()),
                Ok(charges) => {
                    let response = responses.next().unwrap_or_default();
                    if let (Some(write), Some(charges)) = (write, charges) {
                        self.settle(write, charges, response.get("Error").is_none());
                    }
                    merged.push(response);
                }
            }
        }
        body["Responses"] = Value::Array(merged);
        reply.with_body(&body)
    }
}

impl Limit {
    /// Both exceptions say it, and clients must know both.
    fn refusal(&self) -> Reply {
        let name = match self.draws.below(2) {
            0 => "com.amazonaws.dynamodb.v20120810#ProvisionedThroughputExceededException",
            _ => "com.amazon.coral.availability#ThrottlingException",
        };
        Reply::error(400, name, THROTTLED)
    }

    fn member_refusal(&self) -> Value {
        let code = match self.draws.below(2) {
            0 => "ProvisionedThroughputExceeded",
            _ => "ThrottlingError",
        };
        json!({ "TableName": LOCK_TABLE, "Error": { "Code": code, "Message": THROTTLED } })
    }
}

impl Lag {
    fn answer(&self, query: &IndexQuery, now: Duration) -> Reply {
        let lag = self.draws.within(self.most);
        let after = query.after.as_ref();
        let page = lock(&self.index).page(&query.shard, after, query.limit, now, lag);
        self.queries.add(1);
        self.stale.add(u64::from(page.hidden + page.gone > 0));
        self.hidden.add(page.hidden);
        self.gone.add(page.gone);
        let items: Vec<Value> = page
            .positions
            .iter()
            .map(|(seq, message_id)| {
                json!({
                    "messageId": { "S": message_id },
                    "batchId": { "S": query.shard },
                    "seq": { "N": seq.to_string() },
                })
            })
            .collect();
        let units = page_units(&query.shard, &page.positions);
        let mut body = json!({
            "Count": items.len(),
            "ScannedCount": items.len(),
            "ConsumedCapacity": {
                "TableName": LOCK_TABLE,
                "CapacityUnits": units,
                "Table": { "CapacityUnits": 0.0 },
                "GlobalSecondaryIndexes": { BATCH_INDEX: { "CapacityUnits": units } },
            },
        });
        if let Some(last) = items.last().filter(|_| page.more) {
            body["LastEvaluatedKey"] = last.clone();
        }
        body["Items"] = Value::Array(items);
        Reply::json(200, &body)
    }
}

/// What reading a page of the index consumes: half a unit for every 4 KB begun, and no less. An entry has three keys,
/// each with its name; a number has two digits a byte, and one byte more.
/// Source: <https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/CapacityUnitCalculations.html> (2026-08).
fn page_units(shard: &str, positions: &[Position]) -> f64 {
    let names = "messageId".len() + "batchId".len() + "seq".len();
    let entry = |(seq, message_id): &Position| {
        let digits = seq.to_string().len();
        names + message_id.len() + shard.len() + digits.div_ceil(2) + 1
    };
    let bytes: usize = positions.iter().map(entry).sum();
    bytes.div_ceil(4 << 10).max(1) as f64 / 2.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_of_the_index_costs_half_a_unit_for_every_4_kb_begun() {
        assert_eq!(page_units("b#1", &[]), 0.5);
        // 19 bytes of names, 3 of the shard, 2 of the number.
        let positions = |count: usize| vec![(7, "i".repeat(40)); count];
        assert_eq!(page_units("b#1", &positions(64)), 0.5);
        assert_eq!(page_units("b#1", &positions(65)), 1.0);
    }
}
