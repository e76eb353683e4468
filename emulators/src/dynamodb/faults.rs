//! The tables' own faults: an index that lags, and tables and keys that take so many writes a second and no more.
//!
//! They watch the writes that go by. Queries of a lagging index never reach the table: they are answered from what was
//! seen. What could write to the watched table in a way that is not understood is refused, loudly.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use serde_json::{Value, json};

use super::capacity::{TableUnits, consumed_by};
use super::index::{Index, Position};
use super::limits::Charge;
use super::options::{TableFaultOptions, WatchedTable};
use super::rehearsal::Rehearsal;
use super::reports::{IndexLagReport, KeyLimitReport, TableLimitUsage};
use super::requests::{IndexQuery, Request, Write, read};
use super::throttles::{Outcome, Refusal, Throttles};
use crate::counter::Counter;
use crate::draws::Draws;
use crate::proxy::{Call, Refused, Reply, ServiceFaults, Upstream};

/// The faults of the tables behind one proxy.
pub struct TableFaults {
    started: Instant,
    watched: WatchedTable,
    lag: Option<Lag>,
    throttles: Option<Throttles>,
    /// The other table, where its indexes' keys are limited.
    other_table: Option<OtherTable>,
}

struct OtherTable {
    name: String,
    /// One write at a time, or an item would change between its rehearsal and the write.
    rehearsal: tokio::sync::Mutex<Rehearsal>,
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

/// What the limits have made of a write: what it takes of them, or that it is refused. `None` for what is no write.
type Admitted<'a> = Option<Result<Vec<Charge>, (&'a Throttles, Refusal)>>;

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl TableFaults {
    /// Returns the faults that the options ask for; `None` if they ask for none.
    ///
    /// # Errors
    /// When there is no memory for what the limits must remember.
    pub fn new(options: &TableFaultOptions) -> anyhow::Result<Option<TableFaults>> {
        let lag = options.index_lag.map(|most| Lag {
            most,
            draws: Draws::new(options.seed, "index lag"),
            index: Mutex::new(Index::new(most)),
            queries: Counter::default(),
            stale: Counter::default(),
            hidden: Counter::default(),
            gone: Counter::default(),
        });
        let throttles = Throttles::new(options);
        let other = options.other_table.as_ref();
        let other = other.filter(|_| options.key_limit.is_some());
        let other = other.map(|(name, table)| {
            let rehearsal = tokio::sync::Mutex::new(Rehearsal::new(name, table)?);
            let name = name.clone();
            anyhow::Ok(OtherTable { name, rehearsal })
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

    /// Returns what lag has done so far; `None` if the index does not lag.
    pub fn lag_report(&self) -> Option<IndexLagReport> {
        self.lag.as_ref().map(|lag| IndexLagReport {
            queries: lag.queries.get(),
            stale: lag.stale.get(),
            hidden: lag.hidden.get(),
            gone: lag.gone.get(),
        })
    }

    /// Returns what the limit of keys has refused so far; `None` if they have no limit.
    pub fn key_report(&self) -> Option<KeyLimitReport> {
        self.throttles.as_ref()?.key_report()
    }

    /// Returns how much of the table's limit was used so far; `None` if it has no limit.
    pub fn table_report(&self) -> Option<TableLimitUsage> {
        self.throttles.as_ref()?.table_report()
    }

    fn now(&self) -> Duration {
        self.started.elapsed()
    }
}

#[async_trait]
impl ServiceFaults for TableFaults {
    async fn answer(&self, call: Call, upstream: &Upstream) -> Result<Reply, Refused> {
        let Ok(body) = serde_json::from_slice::<Value>(&call.body) else {
            return upstream.send(call).await;
        };
        if let Some((other, throttles)) = self.other_table.as_ref().zip(self.throttles.as_ref())
            && Rehearsal::concerns(&other.name, &call.operation, &body)
        {
            return self
                .other_table_write(other, throttles, call, &body, upstream)
                .await;
        }
        match read(&self.watched, &call.operation, &body) {
            Request::Other => upstream.send(call).await,
            Request::Query(query) => match &self.lag {
                Some(lag) => {
                    let reply = lag.answer(&self.watched, &query, self.now());
                    upstream.stood_in_for(&call, &reply);
                    Ok(reply)
                }
                None => upstream.send(call).await,
            },
            Request::Write(write) => self.write(&write, call, upstream).await,
            Request::Batch(writes) => self.batch(&writes, call, body, upstream).await,
            Request::NotUnderstood(what) => {
                let table = &self.watched.table;
                eprintln!("error: the faults of table `{table}` do not understand: {what}");
                let message = format!("the faults in front of table `{table}` do not know {what}");
                Ok(Reply::error(
                    400,
                    "com.amazon.coral.validate#ValidationException",
                    &message,
                ))
            }
        }
    }
}

impl TableFaults {
    /// A write to the other table: its indexes' keys must have the units for what it does to them.
    async fn other_table_write(
        &self,
        other: &OtherTable,
        throttles: &Throttles,
        call: Call,
        body: &Value,
        upstream: &Upstream,
    ) -> Result<Reply, Refused> {
        let rehearsal = other.rehearsal.lock().await;
        let question = rehearsal.question(&call.operation, body);
        let answer = upstream
            .ask(&call, "DynamoDB_20120810.GetItem", &question)
            .await?;
        let answer: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
        let charges = match rehearsal.charges(&call.operation, body, &answer) {
            Ok(charges) => charges,
            Err(error) => {
                let table = &other.name;
                eprintln!("error: a write to table `{table}` cannot be rehearsed: {error:#}");
                Vec::new()
            }
        };
        if throttles.take(&charges, self.now()).is_err() {
            return Ok(throttles.refusal());
        }
        let sent = upstream.send(call).await;
        if !sent.as_ref().is_ok_and(|reply| reply.status.is_success()) {
            throttles.give_back(&charges, self.now());
        }
        sent
    }

    async fn write(
        &self,
        write: &Write,
        call: Call,
        upstream: &Upstream,
    ) -> Result<Reply, Refused> {
        let operation = call.operation.clone();
        let mut outcome = Outcome::default();
        let charges = match self.admit(write) {
            Ok(charges) => charges,
            Err((throttles, refusal)) => {
                outcome.refused(&refusal);
                throttles.settle(&outcome, None, self.now());
                return Ok(throttles.refusal());
            }
        };
        let sent = upstream.send(call).await;
        let applied = sent.as_ref().is_ok_and(|reply| reply.status.is_success());
        self.written(write, &charges, applied, &mut outcome);
        let consumed = sent.as_ref().ok().filter(|_| applied);
        self.settled(&outcome, &operation, consumed);
        sent
    }

    async fn batch(
        &self,
        writes: &[Option<Write>],
        mut call: Call,
        mut body: Value,
        upstream: &Upstream,
    ) -> Result<Reply, Refused> {
        let Some(statements) = body["Statements"].as_array_mut() else {
            return upstream.send(call).await;
        };
        let admitted: Vec<Admitted<'_>> = writes
            .iter()
            .map(|write| write.as_ref().map(|write| self.admit(write)))
            .collect();
        let mut member = admitted.iter();
        statements.retain(|_| !matches!(member.next(), Some(Some(Err(_)))));
        let operation = call.operation.clone();
        let sent = if statements.is_empty() {
            Ok(Reply::json(200, &json!({ "Responses": [] })))
        } else {
            if statements.len() < writes.len() {
                call.body = body.to_string().into();
            }
            upstream.send(call).await
        };
        let mut outcome = Outcome::default();
        let merged = self.merged(writes, &admitted, sent, &mut outcome);
        self.settled(&outcome, &operation, merged.as_ref().ok());
        merged
    }

    /// Takes the units of a write, if there are enough.
    fn admit(&self, write: &Write) -> Result<Vec<Charge>, (&Throttles, Refusal)> {
        let Some(throttles) = &self.throttles else {
            return Ok(Vec::new());
        };
        throttles
            .admit(write, self.now())
            .map_err(|refusal| (throttles, refusal))
    }

    /// Notes what became of a write that was let through.
    fn written(&self, write: &Write, charges: &[Charge], applied: bool, outcome: &mut Outcome) {
        let unused = outcome.written(write, charges, applied);
        if let Some(throttles) = &self.throttles {
            throttles.give_back(&unused, self.now());
        }
        // An item put again under its own keys neither comes nor goes.
        if let Some(lag) = &self.lag
            && applied
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

    /// Notes what became of a request, with what its answer says that it consumed.
    fn settled(&self, outcome: &Outcome, operation: &str, reply: Option<&Reply>) {
        if let Some(throttles) = &self.throttles {
            let wanted = reply.filter(|_| throttles.wants_consumed());
            let consumed: Option<TableUnits> =
                wanted.and_then(|reply| consumed_by(operation, &reply.body, &self.watched.table));
            throttles.settle(outcome, consumed, self.now());
        }
    }

    /// Puts the refusals of members that were not let through between the answers of the others.
    fn merged(
        &self,
        writes: &[Option<Write>],
        admitted: &[Admitted<'_>],
        sent: Result<Reply, Refused>,
        outcome: &mut Outcome,
    ) -> Result<Reply, Refused> {
        let responses = sent.as_ref().ok().and_then(|reply| {
            let body = serde_json::from_slice::<Value>(&reply.body).ok();
            let mut body = body.filter(|_| reply.status.is_success())?;
            let responses = body["Responses"].as_array_mut().map(std::mem::take);
            Some((body, responses.unwrap_or_default()))
        });
        let (body, responses) = responses.unzip();
        let answered = responses.is_some();
        let mut responses = responses.unwrap_or_default().into_iter();
        let mut merged = Vec::with_capacity(writes.len());
        for (write, admitted) in writes.iter().zip(admitted) {
            if let Some(Err((throttles, refusal))) = admitted {
                outcome.refused(refusal);
                merged.push(throttles.member_refusal());
                continue;
            }
            let response = responses.next().unwrap_or_default();
            if let (Some(write), Some(Ok(charges))) = (write, admitted) {
                let applied = answered && response.get("Error").is_none();
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
    fn answer(&self, watched: &WatchedTable, query: &IndexQuery, now: Duration) -> Reply {
        let lag = self.draws.within(self.most);
        let after = query.after.as_ref();
        let page = lock(&self.index).page(&query.hash, after, query.limit, now, lag);
        self.queries.add(1);
        self.stale.add(u64::from(page.hidden + page.gone > 0));
        self.hidden.add(page.hidden);
        self.gone.add(page.gone);
        let items: Vec<Value> = page
            .positions
            .iter()
            .map(|(range, key)| {
                json!({
                    watched.key.as_str(): { "S": key },
                    watched.index_key.as_str(): { "S": query.hash },
                    watched.index_sort_key.as_str(): { "N": range.to_string() },
                })
            })
            .collect();
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

/// What reading a page of the index consumes: half a unit for every 4 KB begun, and no less. An entry has three keys,
/// each with its name; a number has two digits a byte, and one byte more.
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
        let watched = WatchedTable {
            table: "locks".to_owned(),
            key: "messageId".to_owned(),
            index: "by-batch".to_owned(),
            index_key: "batchId".to_owned(),
            index_sort_key: "seq".to_owned(),
        };
        let page_units = |positions: &[Position]| page_units(&watched, "b#1", positions);
        assert_eq!(page_units(&[]), 0.5);
        // 19 bytes of names, 3 of the partition key, 2 of the number.
        let positions = |count: usize| vec![(7, "i".repeat(40)); count];
        assert_eq!(page_units(&positions(64)), 0.5);
        assert_eq!(page_units(&positions(65)), 1.0);
    }
}
