//! Measures a run: costs, latencies, outages, and the states of its batches.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::Context;
use aws::BatchCatalogue;
use emulators::lambda::EventSourceMapping;
use loadgen::DuplicateRule;
use protocol::batch::{BatchRecord, Listing, Status};
use protocol::ids::BatchId;
use protocol::limits::{CLOCK_SKEW_MAX, DUE_GRACE};
use protocol::time::Timestamp;
use shared::ports::{BatchStore, Overdue};
use sinks::directory_of;

use super::Stack;
use super::spans::seats_taken;
use crate::deploy::{AGGREGATOR, BATCH_PROCESSOR};
use crate::latency::{Claims, DeliveredBatch, Latencies, delivered_at};
use crate::ledger::{Bill, FunctionBill, Ledger};
use crate::recovery::{DueBatch, OutageReport};
use crate::sink::SinkReport;

struct ClaimedBatch {
    /// When the table acknowledged its last claim.
    claimed_at: SystemTime,
    record: Option<BatchRecord>,
    /// When each of its files was complete at the sink, sorted.
    delivered_at: Vec<SystemTime>,
}

impl Stack {
    /// Returns the number of batches with each status. Complete batches have no status, and are not counted.
    pub async fn batches_by_status(&self) -> anyhow::Result<BTreeMap<Status, usize>> {
        let mut counts = BTreeMap::new();
        for status in Status::ALL {
            let found = self.listed(Listing::Status(status)).await?;
            counts.insert(status, found.len());
        }
        Ok(counts)
    }

    /// Returns the number of complete batches whose notices were not sent yet.
    pub async fn notices_waiting(&self) -> anyhow::Result<usize> {
        Ok(self.listed(Listing::Notices).await?.len())
    }

    /// Returns how long the last open window stays open; `None` if no batch is open.
    pub async fn last_window(&self) -> anyhow::Result<Option<Duration>> {
        let open = self.listed(Listing::Status(Status::Open)).await?;
        let last = open.iter().map(|batch| batch.due_at).max();
        // A batch is due some time after its ticket, which comes when the window is closed.
        let now = Timestamp::from(SystemTime::now());
        Ok(last.map(|due_at| now.until(due_at.saturating_sub(DUE_GRACE))))
    }

    /// Returns what the run has cost so far, shared by `sent` messages with `unique` events.
    pub fn ledger(&self, sent: u64, unique: u64) -> Ledger {
        let functions = [
            (AGGREGATOR, &self.aggregator),
            (BATCH_PROCESSOR, &self.batch_processor),
        ];
        let [input, tickets] =
            [&self.input_mapping, &self.batch_mapping].map(EventSourceMapping::requests);
        let functions = functions.map(|(name, function)| {
            let memory_mb = function.config().memory_mb;
            FunctionBill::new(name, &function.stats(), memory_mb, &self.architecture)
        });
        let bill = Bill {
            counts: self.meter.counts(),
            mappings: vec![
                ("ReceiveMessage", input.receives.plus(tickets.receives)),
                ("DeleteMessageBatch", input.deletes.plus(tickets.deletes)),
            ],
            functions: functions.into(),
            load_buckets: self.load_buckets.clone(),
        };
        bill.ledger(sent, unique)
    }

    /// Returns how many claims were written so far, and how fast.
    pub fn claims(&self) -> Claims {
        let counts = self.meter.counts();
        let last = counts.last_claims.into_values().max();
        let span = counts.first_claim.zip(last);
        let span = span.and_then(|(first, last)| last.duration_since(first).ok());
        Claims::new(counts.claims, span.unwrap_or_default())
    }

    /// Writes the parts as files below [`out`](Self::out), if the sink keeps them elsewhere.
    pub async fn export_parts(&self) -> anyhow::Result<()> {
        self.sink.others.export_parts().await
    }

    /// Returns how often each event must be delivered.
    pub fn duplicate_rule(&self) -> DuplicateRule {
        match self.variable("ON_DUPLICATE") {
            Some("requeue") => DuplicateRule::Requeue,
            Some(_) | None => DuplicateRule::Drop,
        }
    }

    /// Returns what the sink has received so far.
    pub fn sink_report(&self) -> SinkReport {
        self.sink.report()
    }

    /// Returns the latencies of the delivered batches. `body_bytes` is the size of every body, which decides when a batch
    /// is full.
    pub async fn latencies(&self, body_bytes: usize) -> anyhow::Result<Latencies> {
        let items_max = self.batch_items_max(body_bytes)?;
        let delivered = self.batches_with_claims().await?.into_iter();
        let delivered = delivered.filter_map(|batch| {
            let delivered_at = batch.delivered_at.last()?;
            let latency = delivered_at.duration_since(batch.claimed_at);
            Some(DeliveredBatch {
                // The clock with which the kernel stamps files may be a tick behind.
                latency: latency.unwrap_or_default(),
                full: batch.record.is_some_and(|record| {
                    record.sealed_at.is_some() && seats_taken(&record) >= items_max
                }),
            })
        });
        Ok(Latencies::of(&Vec::from_iter(delivered)))
    }

    /// Returns the number of items of a full batch. If redeploys change it, returns the smallest of the numbers.
    pub(super) fn batch_items_max(&self, body_bytes: usize) -> anyhow::Result<u64> {
        let mut variables = self.variables.clone();
        let mut items_max = u64::MAX;
        for changed in std::iter::once(&BTreeMap::new()).chain(self.redeploys.variables()) {
            variables.extend(changed.clone());
            let config = aggregator::config::Config::read(&|name| variables.get(name).cloned())?;
            let by_bytes = config.limits.bytes_max / body_bytes.max(1) as u64;
            items_max = items_max.min(by_bytes).min(config.limits.items_max);
        }
        Ok(items_max)
    }

    /// Returns the outages of the sink that have begun, with how fast deliveries resumed after each.
    pub async fn outages(&self) -> anyhow::Result<Vec<OutageReport>> {
        let outages = self.faults.outages();
        if outages.is_empty() {
            return Ok(Vec::new());
        }
        let batches = self.batches_with_claims().await?.into_iter();
        let due = batches.filter_map(|batch| {
            let record = batch.record?;
            // The ticket of an open batch is delayed until its window closes, plus the clock skew. A sealed batch gets one
            // at once.
            let closed_at = record.closes_at + CLOCK_SKEW_MAX;
            let due_at = record.sealed_at.unwrap_or(closed_at);
            Some(DueBatch {
                due_at: UNIX_EPOCH + Duration::from_millis(due_at.as_ms()),
                delivered_at: batch.delivered_at,
            })
        });
        let due = Vec::from_iter(due);
        let now = SystemTime::now();
        let timeline = &self.faults.timeline;
        let begun = outages
            .into_iter()
            .filter(|(outage, _)| timeline.clock_at(outage.at).is_some_and(|at| at <= now));
        let reports = begun.filter_map(|(outage, refused)| {
            let ended_at = timeline.clock_at(outage.end())?;
            Some(OutageReport::new(outage, refused, ended_at, &due))
        });
        Ok(reports.collect())
    }

    pub(super) async fn listed(&self, listing: Listing) -> anyhow::Result<Vec<Overdue>> {
        let found = self.catalogue.listed(listing, None).await;
        found.context("read the batch table")
    }

    pub(super) async fn record(&self, batch: BatchId) -> anyhow::Result<Option<BatchRecord>> {
        let record = self.batches.read(batch).await;
        record.context("read the batch table")
    }

    /// Returns every batch that has had a claim.
    async fn batches_with_claims(&self) -> anyhow::Result<Vec<ClaimedBatch>> {
        let mut batches = Vec::new();
        for (batch, claimed_at) in self.meter.counts().last_claims {
            batches.push(self.batch(batch, claimed_at).await?);
        }
        Ok(batches)
    }

    async fn batch(&self, batch: BatchId, claimed_at: SystemTime) -> anyhow::Result<ClaimedBatch> {
        let record = self.record(batch).await?;
        let batch_key = record.as_ref().and_then(|record| record.batch_key.as_ref());
        let directory = self.out.join(directory_of(batch, batch_key));
        Ok(ClaimedBatch {
            claimed_at,
            delivered_at: delivered_at(&directory)?,
            record,
        })
    }
}
