//! Handles one invocation: takes an SQS event, and returns the ids of the messages that SQS must deliver again.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use aws_lambda_events::event::sqs::SqsBatchResponse;
use lambda_runtime::Diagnostic;
use protocol::claim::{Candidate, Outcome, Response, classify_repeat};
use protocol::ids::{EventId, SourceArn, SqsMessageId};
use protocol::time::Timestamp;
use shared::dry_run::DryRunFailed;
use shared::message_attributes::MessageAttributes;
use shared::metrics::{About, Count, write_line};
use shared::ports::{Ports, Quarantined, SourceQueues};
use shared::quarantine_attributes::CONFLICT;
use shared::retry::{BulkWriter, NoTime, RequestPermits};
use shared::traces;
use shared::traces::names::FAILED_COUNT;
use tracing::{error, info};

use crate::claim_attempt::ClaimResult;
use crate::claim_rounds::ClaimRounds;
use crate::claim_writer::ClaimWriter;
use crate::config::Config;
use crate::current_batches::CurrentBatches;
use crate::drain_detector::{DrainDetector, ReceivedCounts};
use crate::dry_run::dry_run;
use crate::duplicates::{Duplicates, Holder};
use crate::event::SqsEvent;
use crate::grants::Grants;
use crate::intake::Intake;
use crate::invocation::{Budgets, Invocation, InvocationCounts};
use crate::metrics::AggregatorMetrics;
use crate::overflow_bodies::OverflowBodies;
use crate::quarantine::Quarantine;
use crate::records::{self, NoMessageId, Record};
use crate::scopes::Scopes;
use crate::witnesses::Witnesses;

/// Why an event fails as a whole, before anything is claimed. SQS then delivers all of it again.
#[derive(Debug, thiserror::Error)]
pub enum HandlerError {
    /// A message without an id, which the response cannot name.
    #[error(transparent)]
    NoMessageId(#[from] NoMessageId),
    /// `DEADLINE_MARGIN_MS` leaves no time.
    #[error(transparent)]
    NoTime(#[from] NoTime),
    /// A dry run found places that cannot be used.
    #[error(transparent)]
    DryRun(#[from] DryRunFailed),
}

impl HandlerError {
    /// Returns the kind of the error, for traces.
    pub fn kind(&self) -> &'static str {
        match self {
            HandlerError::NoMessageId(_) => "no_message_id",
            HandlerError::NoTime(_) => "no_time",
            HandlerError::DryRun(_) => "dry_run",
        }
    }
}

impl From<HandlerError> for Diagnostic {
    fn from(error: HandlerError) -> Diagnostic {
        let error_type = match error {
            HandlerError::NoMessageId(_) => "NoMessageId",
            HandlerError::NoTime(_) => "NoTime",
            HandlerError::DryRun(_) => "DryRun",
        };
        Diagnostic {
            error_type: error_type.to_owned(),
            error_message: error.to_string(),
        }
    }
}

/// The aggregator. An environment has one; it may handle several invocations at once.
pub struct Handler {
    config: Config,
    ports: Ports,
    way_in: WayIn,
    quarantine: Quarantine,
    duplicates: Duplicates,
}

/// How messages come into batches, by `BODIES`.
enum WayIn {
    Claims(Box<ClaimRounds>),
    Log(Box<Intake>),
}

/// The outcome of a record.
struct Classified {
    outcome: Outcome,
    /// Of a duplicate, if duplicates are reported and it is known.
    holder: Option<Holder>,
}

impl Handler {
    /// Returns a handler that remembers batches in `current`, which all invocations of the environment share.
    pub fn new(
        config: Config,
        ports: Ports,
        source_queues: Arc<dyn SourceQueues>,
        current: Arc<CurrentBatches>,
    ) -> Handler {
        let concurrency = config.common.write_concurrency;
        let permits = Arc::new(RequestPermits::new(concurrency));
        let scopes = Scopes::new(&config, &ports, current);
        let drain_detector = DrainDetector::new(source_queues);
        let grants = Grants::new(&config, &ports, scopes, permits.clone(), drain_detector);
        let way_in = match config.bodies.is_log() {
            true => WayIn::Log(Box::new(Intake::new(&config, &ports, grants, permits))),
            false => {
                let bulk = BulkWriter::new(permits.clone(), concurrency);
                let witnesses = Arc::new(Witnesses::new(&config, &ports));
                WayIn::Claims(Box::new(ClaimRounds::new(
                    &config,
                    grants,
                    witnesses.clone(),
                    ClaimWriter::new(&config, &ports, witnesses, bulk),
                    OverflowBodies::new(&ports, permits),
                )))
            }
        };
        Handler {
            quarantine: Quarantine::new(&config, &ports),
            duplicates: Duplicates::new(&config, &ports),
            config,
            ports,
            way_in,
        }
    }

    /// Handles one event. Returns the ids of the messages that failed, which SQS delivers again. An event without messages is a dry
    /// run.
    ///
    /// # Errors
    /// [`HandlerError`], before anything is claimed.
    pub async fn handle(
        &self,
        event: SqsEvent,
        invocation: &Invocation,
    ) -> Result<SqsBatchResponse, HandlerError> {
        let started = self.ports.clock.now();
        let records = records::read(event, &self.config, started)?;
        let margin = self.config.common.deadline_margin;
        let budgets = Budgets::new(invocation.deadline, margin, &self.ports);
        let has_time = budgets.claims.check_time(invocation.deadline, margin);
        has_time.inspect_err(|error| error!(%error, "no time to claim"))?;
        if records.is_empty() {
            dry_run(&self.ports, &self.config, budgets.claims).await?;
            return Ok(SqsBatchResponse::default());
        }
        let counts = InvocationCounts::default();
        let classified = match &self.way_in {
            WayIn::Claims(rounds) => self.claim(rounds, &records, &budgets, &counts).await,
            WayIn::Log(intake) => self.bring(intake, &records, &budgets, &counts).await,
        };
        let in_quarantine = self.send_to_quarantine(&records, &classified, &budgets);
        let in_quarantine = in_quarantine.await;
        let unreported = self.report_duplicates(&records, &classified, &budgets);
        let unreported = unreported.await;

        let mut failed = BTreeSet::new();
        let mut metrics: BTreeMap<&SourceArn, AggregatorMetrics> = BTreeMap::new();
        // Counts that belong to no single message go to the first source. An invocation rarely has another.
        let first = records.iter().map(|record| id_and_source(record).1).min();
        metrics.extend(first.map(|source| (source, counts.into_metrics())));
        for (index, (record, Classified { outcome, .. })) in
            records.iter().zip(classified).enumerate()
        {
            let in_quarantine = in_quarantine.contains(&index);
            let success = match outcome.response(self.config.rule) {
                Response::Success => !unreported.contains(&index),
                Response::Failure => false,
                Response::Quarantine => in_quarantine,
            };
            let (id, source) = id_and_source(record);
            if !success {
                failed.insert(id);
            }
            let metrics = metrics.entry(source).or_default();
            metrics.received.add(1);
            metrics.count_outcome(outcome, body_bytes(record));
            metrics.quarantined.add(u64::from(in_quarantine));
            metrics.failed.add(u64::from(!success));
        }
        self.report(&metrics, invocation, started, failed.len());
        let mut response = SqsBatchResponse::default();
        response.set_failures(failed.into_iter().map(SqsMessageId::to_string));
        Ok(response)
    }

    /// Brings all records that could be read into batches of the log. Returns what became of each record, in order.
    async fn bring(
        &self,
        intake: &Intake,
        records: &[Result<Record, Quarantined>],
        budgets: &Budgets<'_>,
        counts: &InvocationCounts,
    ) -> Vec<Classified> {
        let received = self.received(records);
        let readable: Vec<&Record> = records.iter().flatten().collect();
        let taken = intake.take(&readable, &received, budgets, counts).await;
        let mut taken = taken.into_iter();
        let mut outcome = |record: &Result<Record, Quarantined>| match record {
            Ok(_) if taken.next() == Some(true) => Outcome::Claimed,
            Ok(_) => Outcome::Failed,
            Err(_) => Outcome::Unstorable,
        };
        let classified = records.iter().map(|record| Classified {
            outcome: outcome(record),
            holder: None,
        });
        classified.collect()
    }

    /// Returns how many messages each source sent, if batches are sealed when their source is drained.
    fn received<'a>(&self, records: &'a [Result<Record, Quarantined>]) -> ReceivedCounts<'a> {
        let mut received = ReceivedCounts::new();
        if self.config.seal_when_drained {
            for record in records {
                *received.entry(id_and_source(record).1).or_default() += 1;
            }
        }
        received
    }

    /// Claims the events of all records that could be read. Returns what became of each record, in order.
    async fn claim(
        &self,
        rounds: &ClaimRounds,
        records: &[Result<Record, Quarantined>],
        budgets: &Budgets<'_>,
        counts: &InvocationCounts,
    ) -> Vec<Classified> {
        let mut first_of: HashMap<&EventId, usize> = HashMap::with_capacity(records.len());
        let mut firsts = Vec::new();
        let received = self.received(records);
        for record in records.iter().flatten() {
            let event_id = &record.candidate.event_id;
            first_of.entry(event_id).or_insert_with(|| {
                firsts.push(record);
                firsts.len() - 1
            });
        }
        let mut results = rounds.claim_all(&firsts, &received, budgets, counts).await;
        results.sort_unstable_by_key(|one| one.first);
        debug_assert_eq!(results.len(), firsts.len());
        let classify = |record: &Result<Record, Quarantined>| match record {
            Ok(Record { candidate, .. }) => {
                let first = first_of[&candidate.event_id];
                let (first, result) = (&firsts[first].candidate, &results[first]);
                let outcome = outcome_of(candidate, first, result);
                let is_reported = outcome == Outcome::Duplicate && self.duplicates.are_reported();
                let holder = is_reported.then(|| Holder::of(candidate, first, result));
                Classified {
                    outcome,
                    holder: holder.flatten(),
                }
            }
            // A record that cannot be read is handled as one that cannot be stored: it goes to the quarantine.
            Err(_) => Classified {
                outcome: Outcome::Unstorable,
                holder: None,
            },
        };
        records.iter().map(classify).collect()
    }

    /// Reports the duplicates that are dropped. Returns the positions of those whose report was not acknowledged.
    async fn report_duplicates(
        &self,
        records: &[Result<Record, Quarantined>],
        classified: &[Classified],
        budgets: &Budgets<'_>,
    ) -> BTreeSet<usize> {
        if !self.duplicates.are_reported() {
            return BTreeSet::new();
        }
        let is_dropped = |one: &Classified| {
            let response = one.outcome.response(self.config.rule);
            one.outcome == Outcome::Duplicate && response == Response::Success
        };
        let classified = records.iter().zip(classified).enumerate();
        let dropped = classified.filter_map(|(index, (record, one))| {
            let Record { candidate, .. } = record.as_ref().ok().filter(|_| is_dropped(one))?;
            Some((index, (candidate, one.holder.as_ref())))
        });
        let (indices, dropped): (Vec<usize>, Vec<_>) = dropped.unzip();
        let now = self.ports.clock.now();
        let reported = self.duplicates.report(&dropped, now, &budgets.wrap_up);
        let reported = indices.into_iter().zip(reported.await);
        let unreported = reported.filter(|(_, reported)| !reported);
        unreported.map(|(index, _)| index).collect()
    }

    /// Sends the messages that cannot be processed to the quarantine. Returns the positions of the records that it
    /// acknowledged.
    async fn send_to_quarantine(
        &self,
        records: &[Result<Record, Quarantined>],
        classified: &[Classified],
        budgets: &Budgets<'_>,
    ) -> BTreeSet<usize> {
        let outcomes = classified.iter().map(|one| one.outcome);
        let (indices, messages): (Vec<usize>, Vec<Quarantined>) = records
            .iter()
            .zip(outcomes)
            .enumerate()
            .filter(|(_, (_, outcome))| outcome.response(self.config.rule) == Response::Quarantine)
            .map(|(index, (record, outcome))| (index, to_quarantine(record, outcome)))
            .unzip();
        let sent = self.quarantine.send(&messages, &budgets.wrap_up).await;
        let sent = indices.into_iter().zip(sent).filter(|(_, sent)| *sent);
        sent.map(|(index, _)| index).collect()
    }

    /// Logs a summary of the invocation, and writes the metrics of each source.
    fn report(
        &self,
        metrics: &BTreeMap<&SourceArn, AggregatorMetrics>,
        invocation: &Invocation,
        started: Timestamp,
        failed_count: usize,
    ) {
        traces::count(FAILED_COUNT, failed_count as u64);
        let now = self.ports.clock.now();
        let sum = |count: fn(&AggregatorMetrics) -> Count| -> u64 {
            metrics.values().map(|one| count(one).get()).sum()
        };
        let source = metrics.keys().next().map(tracing::field::display);
        info!(
            source,
            sources_count = metrics.len(),
            received_count = sum(|one| one.received),
            claimed_count = sum(|one| one.claimed),
            duplicates_count = sum(|one| one.duplicates),
            redelivered_count = sum(|one| one.redelivered),
            conflicts_count = sum(|one| one.conflicts),
            quarantined_count = sum(|one| one.quarantined),
            failed_count,
            opened_count = sum(|one| one.batches_opened),
            sealed_count = sum(|one| one.batches_sealed),
            elapsed_ms = (now - started).as_millis() as u64,
            "invocation done"
        );
        for (source, metrics) in metrics {
            let about = About {
                function: &invocation.function,
                source: source.as_str(),
                at: now,
            };
            write_line(&*self.ports.metric_log, about, metrics);
        }
    }
}

/// Returns what goes to the quarantine of a record with this outcome.
fn to_quarantine(record: &Result<Record, Quarantined>, outcome: Outcome) -> Quarantined {
    let candidate = match record {
        Ok(Record { candidate, .. }) => candidate,
        Err(bad) => return bad.clone(),
    };
    let reason = match outcome {
        Outcome::Conflict => CONFLICT.to_owned(),
        _ => "message: too large: the lock table refused the item".to_owned(),
    };
    Quarantined {
        sqs_message_id: candidate.sqs_message_id.clone(),
        event_id: Some(candidate.event_id.clone()),
        source: candidate.source.clone(),
        reason,
        body: candidate.body.clone(),
        attributes: candidate.attributes.as_deref().and_then(|text| {
            MessageAttributes::read(text).expect("the text was written from attributes")
        }),
    }
}

/// Returns the outcome of a candidate, given the result of the first message with its event id.
fn outcome_of(candidate: &Candidate, first: &Candidate, result: &ClaimResult) -> Outcome {
    if std::ptr::eq(candidate, first) {
        result.outcome
    } else {
        classify_repeat(candidate, first, result.outcome, result.winner.as_deref())
    }
}

fn id_and_source(record: &Result<Record, Quarantined>) -> (&SqsMessageId, &SourceArn) {
    match record {
        Ok(Record { candidate, .. }) => (&candidate.sqs_message_id, &candidate.source),
        Err(bad) => (&bad.sqs_message_id, &bad.source),
    }
}

/// Returns the bytes of the message's body; for a message that cannot be claimed, which no metric of bytes counts, zero.
fn body_bytes(record: &Result<Record, Quarantined>) -> u64 {
    let body = record.as_ref().map(|record| &record.candidate.body);
    body.map_or(0, |body| body.len() as u64)
}

#[cfg(test)]
mod tests;
