//! Watches a burst on its way: the input queue, the batch records, and what was set aside.

mod batches;
mod watched;

use std::collections::{BTreeMap, BTreeSet};
use std::pin::pin;
use std::time::{Duration, Instant};

use planner::{BatchSpan, Flushed, PartTime, Sample};
use protocol::text::counted;

use crate::connection::Connection;
use crate::error::WatchError;
use crate::queues::{self, Depth};
use batches::BatchState;

pub use watched::Watched;

/// How a burst is watched.
#[derive(Clone, Copy, Debug)]
pub struct WatchOptions {
    /// When the run began, in epoch milliseconds: batches that were opened earlier are not of this run.
    pub began_at_ms: u64,
    /// Distinct events of the burst. Once that many are claimed, the end need not be waited for.
    pub unique: u64,
    /// Time between two looks.
    pub every: Duration,
    /// How long the input queue must look empty until it counts as empty, unless all events are claimed. SQS counts with a
    /// delay of up to a minute.
    /// Source: <https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-available-cloudwatch-metrics.html> (2026-08).
    pub quiet: Duration,
    /// How long nothing may change before the watch gives up.
    pub patience: Duration,
}

/// What was seen until everything was delivered, or until the watch gave up.
#[derive(Clone, Debug, PartialEq)]
pub struct Seen {
    pub samples: Vec<Sample>,
    /// The batches of the run, in the order in which they were opened.
    pub batches: Vec<BatchSpan>,
    /// When the parts of these batches were delivered, if that is known.
    pub parts: Vec<PartTime>,
    /// When the input queue was first seen empty after the last message was sent, in seconds from the beginning.
    pub claimed_after_secs: Option<f64>,
    /// When the last batch was delivered, by the clock of the service.
    pub drained_after_secs: Option<f64>,
    /// Batches that wait for an operator.
    pub in_error: u64,
    /// Messages that were set aside during the run.
    pub set_aside: u64,
    /// Why the watch ended before everything was delivered, if it did.
    pub ended_early: Option<String>,
}

/// Progress of the sender, as the watch needs it.
#[derive(Clone, Copy, Debug, Default)]
pub struct SentSoFar {
    /// Messages that the queue acknowledged.
    pub messages: u64,
    /// Whether sending has ended.
    pub ended: bool,
}

/// Watches until the burst is delivered, or until `stopped` completes. `sent` returns how far the sender is, and `look` is called
/// after each look.
///
/// # Errors
/// The queues or the batch table cannot be read.
pub async fn watch(
    connection: &Connection,
    watched: &Watched,
    options: WatchOptions,
    stopped: impl Future<Output = ()>,
    sent: &(dyn Fn() -> SentSoFar + Sync),
    look: &(dyn Fn(&Sample) + Sync),
) -> Result<Seen, WatchError> {
    let mut watch = Watch::start(connection, watched, options).await?;
    let mut ticks = tokio::time::interval(options.every);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut stopped = pin!(stopped);
    loop {
        tokio::select! {
            _ = ticks.tick() => {}
            () = &mut stopped => return watch.finish(Some("stopped before everything was delivered".to_owned())).await,
        }
        let sent = sent();
        look(watch.look(sent).await?);
        let stuck = watch.stuck();
        if stuck.is_some() || watch.drained(sent) {
            return watch.finish(stuck).await;
        }
    }
}

struct Watch<'a> {
    connection: &'a Connection,
    watched: &'a Watched,
    options: WatchOptions,
    began: Instant,
    /// Batches that were not complete before the run. Of those, only what is added counts.
    former: BTreeMap<String, BatchState>,
    batches: BTreeMap<String, BatchState>,
    set_aside_before: u64,
    samples: Vec<Sample>,
    depth: Depth,
    /// Since when the input queue looks empty, after the last message was sent.
    empty_since: Option<Instant>,
    last_change: (String, Instant),
}

impl<'a> Watch<'a> {
    async fn start(
        connection: &'a Connection,
        watched: &'a Watched,
        options: WatchOptions,
    ) -> Result<Watch<'a>, WatchError> {
        let former = batches::incomplete(&connection.dynamodb, &watched.batch_table).await?;
        let mut former = batches::read(&connection.dynamodb, &watched.batch_table, &former).await?;
        // A run that is continued has batches too.
        former.retain(|_, batch| batch.created_at < options.began_at_ms);
        Ok(Watch {
            set_aside_before: queues::total(&connection.sqs, &watched.set_aside_urls).await?,
            connection,
            watched,
            options,
            began: Instant::now(),
            former,
            batches: BTreeMap::new(),
            samples: Vec::new(),
            depth: Depth::default(),
            empty_since: None,
            last_change: (String::new(), Instant::now()),
        })
    }

    async fn look(&mut self, sent: SentSoFar) -> Result<&Sample, WatchError> {
        let at_secs = self.began.elapsed().as_secs_f64();
        self.depth = queues::depth(&self.connection.sqs, &self.watched.input_queue_url).await?;
        let (dynamodb, table) = (&self.connection.dynamodb, &self.watched.batch_table);
        let mut ids = BTreeSet::from_iter(batches::incomplete(dynamodb, table).await?);
        let known = self.batches.values().filter(|batch| batch.status.is_some());
        ids.extend(known.map(|batch| batch.batch_id.clone()));
        let found = batches::read(dynamodb, table, &Vec::from_iter(ids)).await?;
        self.batches.extend(found);
        let empty = sent.ended && self.depth.all() == 0;
        self.empty_since = match empty {
            true => self.empty_since.or_else(|| Some(Instant::now())),
            false => None,
        };
        // A seat of a duplicate counts as an event until its batch is closed.
        let claimed = self.added(BatchState::events).min(self.options.unique);
        let before = self.samples.last().and_then(|sample| sample.claimed);
        let claimed = claimed.max(before.unwrap_or_default());
        let delivered = self.added(|batch| batch.delivered);
        let state = format!("{:?} {claimed} {delivered} {}", self.depth, sent.messages);
        if state != self.last_change.0 {
            self.last_change = (state, Instant::now());
        }
        self.samples.push(Sample {
            at_secs,
            sent: Some(sent.messages),
            claimed: Some(claimed),
            delivered: Some(delivered),
            visible: Some(self.depth.visible),
            in_flight: Some(self.depth.in_flight),
            ..Sample::default()
        });
        Ok(self.samples.last().expect("a sample was pushed"))
    }

    /// Returns the sum of a count over all batches, without what batches had before the run.
    fn added(&self, count: impl Fn(&BatchState) -> u64) -> u64 {
        let before = |batch: &BatchState| self.former.get(&batch.batch_id).map_or(0, &count);
        let batches = self.batches.values();
        let added = batches.map(|batch| count(batch).saturating_sub(before(batch)));
        added.sum()
    }

    fn drained(&self, sent: SentSoFar) -> bool {
        let mut batches = self.batches.values();
        let idle = !batches.any(|batch| batch.under_way() && batch.events() > 0);
        let all_claimed = self.added(BatchState::counted) >= self.options.unique;
        let since = self.empty_since;
        let quiet = since.is_some_and(|since| all_claimed || since.elapsed() >= self.options.quiet);
        sent.ended && idle && quiet
    }

    /// Returns why the watch gives up, if it does.
    fn stuck(&self) -> Option<String> {
        let still = self.last_change.1.elapsed();
        (still > self.options.patience).then(|| {
            let batches = self.batches.values();
            let under_way = batches.filter(|batch| batch.under_way()).count();
            format!(
                "no progress for {} s: input queue has {} and {} in flight, {} not complete",
                still.as_secs(),
                counted(self.depth.visible + self.depth.delayed, "message"),
                self.depth.in_flight,
                counted(under_way, "batch")
            )
        })
    }

    async fn finish(mut self, ended_early: Option<String>) -> Result<Seen, WatchError> {
        // Batches that were opened and completed between two looks.
        let (dynamodb, table) = (&self.connection.dynamodb, &self.watched.batch_table);
        let scanned = batches::scan(dynamodb, table, self.options.began_at_ms).await?;
        for batch in scanned {
            self.batches.insert(batch.batch_id.clone(), batch);
        }
        let set_aside = queues::total(&self.connection.sqs, &self.watched.set_aside_urls).await?;
        let batches = self.batches.values();
        let mut of_run: Vec<&BatchState> = batches.filter(|one| self.is_of_run(one)).collect();
        of_run.sort_by_key(|batch| batch.created_at);
        let parts = of_run.iter().flat_map(|batch| self.part_times(batch));
        let parts = parts.collect();
        let spans: Vec<BatchSpan> = of_run.iter().map(|batch| self.span(batch)).collect();
        let delivered = spans.iter().filter_map(|span| span.delivered_secs);
        let claimed_after = self.empty_since.map(|since| since - self.began);
        Ok(Seen {
            claimed_after_secs: claimed_after.map(|after| after.as_secs_f64()),
            drained_after_secs: delivered.max_by(f64::total_cmp),
            in_error: of_run.iter().filter(|batch| batch.in_error()).count() as u64,
            set_aside: set_aside.saturating_sub(self.set_aside_before),
            samples: self.samples,
            batches: spans,
            parts,
            ended_early,
        })
    }

    /// Returns whether a batch was opened in the run, or got events in it. A batch without events is left out.
    fn is_of_run(&self, batch: &BatchState) -> bool {
        let before = self.former.get(&batch.batch_id);
        batch.events() > before.map_or(0, BatchState::events)
            || (batch.in_error() && batch.created_at >= self.options.began_at_ms)
    }

    /// Returns a time of the service in seconds from the beginning of the run.
    fn secs(&self, ms: u64) -> f64 {
        (ms as f64 - self.options.began_at_ms as f64) / 1e3
    }

    fn part_times(&self, batch: &BatchState) -> impl Iterator<Item = PartTime> {
        let parts = (0..).zip(&batch.parts_delivered_at);
        parts.filter_map(|(part, at)| {
            Some(PartTime {
                batch_id: batch.batch_id.clone(),
                part,
                at_secs: self.secs((*at)?),
            })
        })
    }

    fn span(&self, batch: &BatchState) -> BatchSpan {
        let secs = |ms| self.secs(ms);
        let max = self.watched.batch_items_max;
        let full = max.is_some_and(|max| batch.seats() >= max);
        let in_time = batch.sealed_at.is_some_and(|at| at < batch.closes_at);
        BatchSpan {
            batch_id: batch.batch_id.clone(),
            batch_key: batch.batch_key.clone(),
            opened_secs: secs(batch.created_at),
            sealed_secs: batch.sealed_at.map(secs),
            leased_secs: None,
            delivered_secs: batch.delivered_at.map(secs),
            events: batch.events(),
            parts: batch.parts,
            flushed: match (full, in_time) {
                (true, _) => Some(Flushed::Full),
                (false, true) if self.watched.seal_when_drained => Some(Flushed::Drained),
                // Sealed because it was full by bytes, or by a limit that is not known.
                (false, true) => None,
                (false, false) => Some(Flushed::Window),
            },
            invocations: batch.slots,
        }
    }
}
