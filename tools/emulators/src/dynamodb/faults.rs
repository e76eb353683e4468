//! Faults of tables: an index that lags, and limits of write units that throttle writes.
//!
//! The faults see every write to the watched table. Queries of an index that lags never reach the table: the fault returns
//! the entries that it has seen added and removed. A request that may write to the watched table in an unsupported way gets
//! an error.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use serde_json::{Value, json};

use super::capacity::{TableUnits, consumed_by};
use super::dry_run::DryRun;
use super::index_history::{IndexHistory, Position};
use super::options::{TableFaultOptions, WatchedTable};
use super::reports::{IndexLagReport, KeyLimitReport, TableLimitUsage};
use super::throttles::{RequestOutcome, Throttles};
use super::token_buckets::{BucketKey, Charge};
use super::watched_requests::{IndexQuery, WatchedRequest, Write, parse};
use crate::locked::locked;
use crate::proxy::{NoReply, Reply, ServiceFaults, ServiceRequest, Upstream};
use crate::random::RandomStream;

/// The faults of the tables behind one proxy.
pub struct TableFaults {
    started: Instant,
    watched: WatchedTable,
    lag: Option<Lag>,
    throttles: Option<Throttles>,
    /// The other table; `None` if nothing limits it.
    other_table: Option<OtherTable>,
}

struct OtherTable {
    name: String,
    /// Locked during a write, so that the item does not change between the dry run and the write.
    dry_run: tokio::sync::Mutex<DryRun>,
}

#[derive(Debug)]
struct Lag {
    most: Duration,
    draws: RandomStream,
    index: Mutex<IndexHistory>,
    report: Mutex<IndexLagReport>,
    ended: AtomicBool,
}

/// A write after the limits were applied: the units it took, or which bucket throttled it. `None` is not a write.
type Admitted<'a> = Option<Result<Vec<Charge>, (&'a Throttles, BucketKey)>>;

impl TableFaults {
    /// Makes the faults that the options turn on; `None` if they turn on none.
    ///
    /// # Errors
    /// The scratch database for the other table could not be created.
    pub fn new(options: &TableFaultOptions) -> anyhow::Result<Option<TableFaults>> {
        let lag = options.index_lag.map(|most| Lag {
            most,
            draws: RandomStream::new(options.seed, "index lag"),
            index: Mutex::new(IndexHistory::new(most)),
            report: Mutex::default(),
            ended: AtomicBool::new(false),
        });
        let throttles = Throttles::new(options);
        let other = options.other_table.as_ref();
        let other = other.filter(|_| options.key_limit.or(options.table_limit).is_some());
        let other = other.map(|(name, table)| {
            anyhow::Ok(OtherTable {
                name: name.clone(),
                dry_run: tokio::sync::Mutex::new(DryRun::new(name, table)?),
            })
        });
        let other_table = other.transpose()?;
        Ok((lag.is_some() || throttles.is_some()).then(|| TableFaults {
            started: Instant::now(),
            watched: options.watched.clone(),
            lag,
            throttles,
            other_table,
        }))
    }

    /// Ends the faults: the limits, as raised ones would, and the lag, as an index that has caught up. The counts stay.
    pub fn end(&self) {
        if let Some(lag) = &self.lag {
            lag.ended.store(true, Ordering::Relaxed);
        }
        if let Some(throttles) = &self.throttles {
            throttles.end();
        }
    }

    /// Returns the counts of queries so far; `None` if the index does not lag.
    pub fn lag_report(&self) -> Option<IndexLagReport> {
        self.lag.as_ref().map(|lag| *locked(&lag.report))
    }

    /// Returns the writes throttled by single keys so far; `None` if keys have no limit.
    pub fn key_report(&self) -> Option<KeyLimitReport> {
        self.throttles.as_ref()?.key_report()
    }

    /// Returns how much of the limit of the table was used so far; `None` if it has no limit.
    pub fn table_report(&self) -> Option<TableLimitUsage> {
        self.throttles.as_ref()?.table_report()
    }

    fn now(&self) -> Duration {
        self.started.elapsed()
    }
}

#[async_trait]
impl ServiceFaults for TableFaults {
    async fn reply(&self, request: ServiceRequest, upstream: &Upstream) -> Result<Reply, NoReply> {
        let Ok(body) = serde_json::from_slice::<Value>(&request.body) else {
            return upstream.send(request).await;
        };
        if let Some((other, throttles)) = self.other_table.as_ref().zip(self.throttles.as_ref())
            && DryRun::applies_to(&other.name, &request.operation, &body)
        {
            let write = self.other_table_write(other, throttles, request, &body, upstream);
            return write.await;
        }
        match parse(&self.watched, &request.operation, &body) {
            WatchedRequest::Other => upstream.send(request).await,
            WatchedRequest::Query(query) => match &self.lag {
                Some(lag) if !lag.ended.load(Ordering::Relaxed) => {
                    let reply = lag.query(&self.watched, &query, self.now());
                    upstream.observe_substitute(&request, &reply);
                    Ok(reply)
                }
                Some(_) | None => upstream.send(request).await,
            },
            WatchedRequest::Write(write) => self.write(&write, request, upstream).await,
            WatchedRequest::Batch(writes) => self.batch(&writes, request, body, upstream).await,
            WatchedRequest::Unsupported(what) => {
                let table = &self.watched.table;
                let text = format!("table `{table}`: request not supported by its faults: {what}");
                eprintln!("error: {text}");
                let name = "com.amazon.coral.validate#ValidationException";
                Ok(Reply::error(400, name, &text))
            }
        }
    }
}

impl TableFaults {
    /// Forwards a write to the other table, unless it or the keys of its indexes have too few units left.
    async fn other_table_write(
        &self,
        other: &OtherTable,
        throttles: &Throttles,
        request: ServiceRequest,
        body: &Value,
        upstream: &Upstream,
    ) -> Result<Reply, NoReply> {
        let dry_run = other.dry_run.lock().await;
        let get_item = dry_run.read_request(&request.operation, body);
        let target = "DynamoDB_20120810.GetItem";
        let reply = upstream
            .send_unobserved(&request, target, &get_item)
            .await?;
        let reply: Value = serde_json::from_slice(&reply.body).unwrap_or_default();
        let of_index = match dry_run.units(&request.operation, body, &reply) {
            Ok(units) => match throttles.admit_other(&units, self.now()) {
                Ok(of_index) => of_index,
                Err(_) => return Ok(throttles.error()),
            },
            Err(error) => {
                let text = "write not limited, its dry run failed";
                eprintln!("error: table `{}`: {text}: {error:#}", other.name);
                Vec::new()
            }
        };
        let sent = upstream.send(request).await;
        if !sent.as_ref().is_ok_and(|reply| reply.status.is_success()) {
            throttles.give_back(&of_index, self.now());
        }
        sent
    }

    /// Forwards a write to the watched table, unless it is throttled.
    async fn write(
        &self,
        write: &Write,
        request: ServiceRequest,
        upstream: &Upstream,
    ) -> Result<Reply, NoReply> {
        let operation = request.operation.clone();
        let mut outcome = RequestOutcome::default();
        let charges = match self.admit(write) {
            Ok(charges) => charges,
            Err((throttles, by)) => {
                outcome.throttled(&by);
                throttles.record(&outcome, None, self.now());
                return Ok(throttles.error());
            }
        };
        let sent = upstream.send(request).await;
        let applied = sent.as_ref().is_ok_and(|reply| reply.status.is_success());
        self.written(write, &charges, applied, &mut outcome);
        let consumed = sent.as_ref().ok().filter(|_| applied);
        self.record_outcome(&outcome, &operation, consumed);
        sent
    }

    /// Forwards those statements of a PartiQL batch that are not throttled.
    async fn batch(
        &self,
        writes: &[Option<Write>],
        mut request: ServiceRequest,
        mut body: Value,
        upstream: &Upstream,
    ) -> Result<Reply, NoReply> {
        let Some(statements) = body["Statements"].as_array_mut() else {
            return upstream.send(request).await;
        };
        let admit = |write: &Option<Write>| write.as_ref().map(|write| self.admit(write));
        let admitted: Vec<Admitted<'_>> = writes.iter().map(admit).collect();
        let mut member = admitted.iter();
        statements.retain(|_| !matches!(member.next(), Some(Some(Err(_)))));
        let operation = request.operation.clone();
        let sent = if statements.is_empty() {
            Ok(Reply::json(200, &json!({ "Responses": [] })))
        } else {
            if statements.len() < writes.len() {
                request.body = body.to_string().into();
            }
            upstream.send(request).await
        };
        let mut outcome = RequestOutcome::default();
        let merged = self.merged(writes, &admitted, sent, &mut outcome);
        self.record_outcome(&outcome, &operation, merged.as_ref().ok());
        merged
    }

    /// Takes the units of a write.
    ///
    /// # Errors
    /// The write is throttled.
    fn admit(&self, write: &Write) -> Result<Vec<Charge>, (&Throttles, BucketKey)> {
        let Some(throttles) = &self.throttles else {
            return Ok(Vec::new());
        };
        let admitted = throttles.admit(write, self.now());
        admitted.map_err(|by| (throttles, by))
    }

    /// Records a write that was not throttled.
    fn written(
        &self,
        write: &Write,
        charges: &[Charge],
        applied: bool,
        outcome: &mut RequestOutcome,
    ) {
        let unused = outcome.written(write, charges, applied);
        if let Some(throttles) = &self.throttles {
            throttles.give_back(&unused, self.now());
        }
        // A put that replaces an item under the same keys leaves the index unchanged.
        if let Some(lag) = &self.lag
            && applied
            && write.adds != write.removes
        {
            let now = self.now();
            let mut index = locked(&lag.index);
            if let Some(entry) = &write.adds {
                index.added(entry, now);
            }
            if let Some(entry) = &write.removes {
                index.removed(entry, now);
            }
        }
    }

    /// Records the writes of a request, with the units that its reply reports.
    fn record_outcome(&self, outcome: &RequestOutcome, operation: &str, reply: Option<&Reply>) {
        if let Some(throttles) = &self.throttles {
            let wanted = reply.filter(|_| throttles.wants_consumed());
            let consumed: Option<TableUnits> =
                wanted.and_then(|reply| consumed_by(operation, &reply.body, &self.watched.table));
            throttles.record(outcome, consumed, self.now());
        }
    }

    /// Adds the errors of throttled statements to the results of the others, in the order of the request.
    fn merged(
        &self,
        writes: &[Option<Write>],
        admitted: &[Admitted<'_>],
        sent: Result<Reply, NoReply>,
        outcome: &mut RequestOutcome,
    ) -> Result<Reply, NoReply> {
        let responses = sent.as_ref().ok().and_then(|reply| {
            let body = serde_json::from_slice::<Value>(&reply.body).ok();
            let mut body = body.filter(|_| reply.status.is_success())?;
            let responses = body["Responses"].as_array_mut().map(std::mem::take);
            Some((body, responses.unwrap_or_default()))
        });
        let (body, responses) = responses.unzip();
        let succeeded = responses.is_some();
        let mut responses = responses.unwrap_or_default().into_iter();
        let mut merged = Vec::with_capacity(writes.len());
        for (write, admitted) in writes.iter().zip(admitted) {
            if let Some(Err((throttles, by))) = admitted {
                outcome.throttled(by);
                merged.push(throttles.statement_error());
                continue;
            }
            let response = responses.next().unwrap_or_default();
            if let (Some(write), Some(Ok(charges))) = (write, admitted) {
                let applied = succeeded && response.get("Error").is_none();
                self.written(write, charges, applied, outcome);
            }
            merged.push(response);
        }
        let reply = sent?;
        Ok(match body {
            Some(mut body) => {
                body["Responses"] = Value::Array(merged);
                reply.with_body(&body)
            }
            None => reply,
        })
    }
}

impl Lag {
    /// Returns the reply to a query: the index as it was a random time ago.
    fn query(&self, watched: &WatchedTable, query: &IndexQuery, now: Duration) -> Reply {
        let lag = self.draws.duration_up_to(self.most);
        let after = query.after.as_ref();
        let page = locked(&self.index).page(&query.hash, after, query.limit, now, lag);
        let mut report = locked(&self.report);
        report.queries += 1;
        report.stale += u64::from(page.hidden + page.gone > 0);
        report.hidden += page.hidden;
        report.gone += page.gone;
        drop(report);
        let item = |(range, key): &Position| {
            json!({
                watched.key.as_str(): { "S": key },
                watched.index_key.as_str(): { "S": query.hash },
                watched.index_sort_key.as_str(): { "N": range.to_string() },
            })
        };
        let items: Vec<Value> = page.positions.iter().map(item).collect();
        let units = page_units(watched, &query.hash, &page.positions);
        let mut body = json!({
            "Count": items.len(),
            "ScannedCount": items.len(),
            "ConsumedCapacity": {
                "TableName": watched.table,
                "CapacityUnits": units,
                "Table": { "CapacityUnits": 0.0 },
                "GlobalSecondaryIndexes": { watched.index.as_str(): { "CapacityUnits": units } },
            },
        });
        if let Some(last) = items.last().filter(|_| page.more) {
            body["LastEvaluatedKey"] = last.clone();
        }
        body["Items"] = Value::Array(items);
        Reply::json(200, &body)
    }
}

/// Returns the read units of a page of the index: half a unit per 4 KB begun, and at least half a unit. An entry has three
/// keys, each with its name. A number takes one byte per two digits, plus one.
/// Source: <https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/CapacityUnitCalculations.html> (2026-08).
fn page_units(watched: &WatchedTable, hash: &str, positions: &[Position]) -> f64 {
    let names = watched.key.len() + watched.index_key.len() + watched.index_sort_key.len();
    let entry = |(range, key): &Position| {
        let digits = range.to_string().len();
        names + key.len() + hash.len() + digits.div_ceil(2) + 1
    };
    let bytes: usize = positions.iter().map(entry).sum();
    bytes.div_ceil(4 << 10).max(1) as f64 / 2.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_of_the_index_costs_half_a_unit_for_every_4_kb_begun() {
        let watched = WatchedTable::locks();
        let page_units = |positions: &[Position]| page_units(&watched, "b#1", positions);
        assert_eq!(page_units(&[]), 0.5);
        // 19 bytes of names, 3 of the partition key, 2 of the number.
        let positions = |count: usize| vec![(7, "i".repeat(40)); count];
        assert_eq!(page_units(&positions(64)), 0.5);
        assert_eq!(page_units(&positions(65)), 1.0);
    }
}
