//! One invocation: SQS records in, the messages that must come back out.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use aws_lambda_events::event::sqs::SqsBatchResponse;
use lambda_runtime::Diagnostic;
use protocol::claim::{Candidate, Outcome, Response, classify_follower};
use protocol::ids::{EventId, SourceArn, SqsMessageId};
use protocol::planted::{Bug, planted};
use protocol::time::Timestamp;
use shared::metrics::Metrics;
use shared::ports::{Ports, Quarantined, SourceQueues};
use shared::retry::{BulkWriter, RequestPermits};
use tracing::{error, info};

use crate::claim_attempt::Settled;
use crate::claim_rounds::ClaimRounds;
use crate::claim_writer::ClaimWriter;
use crate::config::Config;
use crate::drain_detector::{DrainDetector, Received};
use crate::event::{Event, MalformedEvent};
use crate::invocation::{Budgets, Invocation, InvocationCounts};
use crate::open_batches::OpenBatches;
use crate::overflow_bodies::OverflowBodies;
use crate::quarantine::Quarantine;
use crate::records::{self, Bad, Good, NoMessageId, Record};
use crate::shared_allocator::SharedAllocator;

/// Why a whole event fails.
#[derive(Debug, thiserror::Error)]
pub enum HandlerError {
    /// The payload is no SQS event.
    #[error(transparent)]
    MalformedEvent(#[from] MalformedEvent),
    /// A message has no id, so it cannot be named in the response.
    #[error(transparent)]
    NoMessageId(#[from] NoMessageId),
}

impl From<HandlerError> for Diagnostic {
    fn from(error: HandlerError) -> Diagnostic {
        let error_type = match error {
            HandlerError::MalformedEvent(_) => "MalformedEvent",
            HandlerError::NoMessageId(_) => "NoMessageId",
        };
        Diagnostic {
            error_type: error_type.to_owned(),
            error_message: error.to_string(),
        }
    }
}

/// The aggregator. One per environment; any number of invocations at once.
pub struct Handler {
    config: Config,
    ports: Ports,
    claim_rounds: ClaimRounds,
    quarantine: Quarantine,
}

impl Handler {
    /// A handler over the open batches of its environment.
    pub fn new(
        config: Config,
        ports: Ports,
        source_queues: Arc<dyn SourceQueues>,
        allocator: Arc<SharedAllocator>,
    ) -> Handler {
        let concurrency = config.common.write_concurrency;
        let permits = Arc::new(RequestPermits::new(concurrency));
        let bulk = BulkWriter {
            permits: permits.clone(),
            paces: Arc::default(),
            items_per_request: ports.lock_store.items_per_request(),
            concurrency,
        };
        let open_batches = Arc::new(OpenBatches::new(&config, &ports, allocator));
        let claim_rounds = ClaimRounds::new(
            &config,
            open_batches.clone(),
            ClaimWriter::new(&config, &ports, open_batches.clone(), bulk),
            OverflowBodies::new(&ports, permits),
            DrainDetector::new(source_queues, open_batches),
        );
        Handler {
            quarantine: Quarantine::new(&config, &ports),
            config,
            ports,
            claim_rounds,
        }
    }

    /// Handles one event.
    ///
    /// # Errors
    /// [`HandlerError`] only before anything was claimed: an error brings the whole event back.
    pub async fn handle(
        &self,
        event: Event,
        invocation: &Invocation,
    ) -> Result<SqsBatchResponse, HandlerError> {
        let started = self.ports.clock.now();
        let records = records::read(event, &self.config, started)?;
        let margin = self.config.common.deadline_margin;
        let budgets = Budgets::new(invocation.deadline, margin, &self.ports);
        if !budgets.claims.has_time() {
            let margin_ms = margin.as_millis() as u64;
            error!(
                margin_ms,
                "the deadline is within `DEADLINE_MARGIN_MS`: nothing can be claimed"
            );
        }
        let counts = InvocationCounts::default();
        let verdicts = self.decide(&records, &budgets, &counts).await;

        let mut failed = BTreeSet::new();
        let mut metrics: BTreeMap<&SourceArn, Metrics> = BTreeMap::new();
        for (record, verdict) in records.iter().zip(&verdicts) {
            if !verdict.success {
                failed.insert(record.sqs_message_id.clone());
            }
            let metrics = metrics.entry(&record.source).or_default();
            metrics.count("Received", 1);
            verdict.metrics().for_each(|name| metrics.count(name, 1));
        }
        self.report(metrics, &counts, invocation, started, failed.len());
        let mut response = SqsBatchResponse::default();
        response.set_failures(failed.iter().map(SqsMessageId::to_string));
        Ok(response)
    }

    async fn decide(
        &self,
        records: &[Record],
        budgets: &Budgets<'_>,
        counts: &InvocationCounts,
    ) -> Vec<Verdict> {
        let mut leader_of: HashMap<&EventId, usize> = HashMap::with_capacity(records.len());
        let mut leaders = Vec::new();
        let mut follows: Vec<Option<usize>> = Vec::with_capacity(records.len());
        for record in records {
            follows.push(record.content.as_ref().ok().map(|good| {
                *leader_of
                    .entry(&good.candidate.event_id)
                    .or_insert_with(|| {
                        leaders.push(good);
                        leaders.len() - 1
                    })
            }));
        }
        let mut received = Received::new();
        if self.config.seal_when_drained {
            for record in records {
                *received.entry(&record.source).or_default() += 1;
            }
        }
        let mut settled = self
            .claim_rounds
            .claim_all(&leaders, &received, budgets, counts)
            .await;
        settled.sort_unstable_by_key(|one| one.leader);
        debug_assert_eq!(settled.len(), leaders.len());

        let mut quarantined = Vec::new();
        let mut verdicts: Vec<Verdict> = Vec::with_capacity(records.len());
        for (record, leader) in records.iter().zip(follows) {
            let outcome = match (&record.content, leader) {
                (Ok(good), Some(leader)) => outcome_of(
                    &good.candidate,
                    &leaders[leader].candidate,
                    &settled[leader],
                ),
                // Only good records have a leader; a bad one goes where an unstorable one goes.
                (Ok(_) | Err(_), _) => Outcome::Unstorable,
            };
            let answer = outcome.response(self.config.rule);
            if answer == Response::Quarantine {
                quarantined.push((verdicts.len(), to_quarantine(record, outcome)));
            }
            verdicts.push(Verdict {
                outcome,
                success: answer == Response::Success,
                quarantined: false,
            });
        }
        let messages: Vec<Quarantined> = quarantined
            .iter()
            .map(|(_, message)| message.clone())
            .collect();
        let sent = self.quarantine.send(&messages, &budgets.wrap_up).await;
        for ((index, _), sent) in quarantined.into_iter().zip(sent) {
            verdicts[index].success = sent || planted(Bug::QuarantineNotAwaited);
            verdicts[index].quarantined = sent;
        }
        verdicts
    }

    fn report(
        &self,
        mut metrics: BTreeMap<&SourceArn, Metrics>,
        counts: &InvocationCounts,
        invocation: &Invocation,
        started: Timestamp,
        failed_count: usize,
    ) {
        let now = self.ports.clock.now();
        // What belongs to the invocation and not to a message is shown with its first source; as a rule the only one.
        if let Some(first) = metrics.values_mut().next() {
            for (name, count) in counts.metrics() {
                first.count(name, count);
            }
        }
        for (source, metrics) in &metrics {
            info!(
                %source,
                received_count = metrics.get("Received"),
                claimed_count = metrics.get("Claimed"),
                duplicates_count = metrics.get("Duplicates"),
                redelivered_count = metrics.get("Redelivered"),
                failed_count,
                elapsed_ms = (now - started).as_millis() as u64,
                "invocation done"
            );
            self.ports
                .metric_log
                .write(&metrics.line(&invocation.function, source.as_str(), now));
        }
    }
}

fn outcome_of(candidate: &Candidate, leader: &Candidate, settled: &Settled) -> Outcome {
    if std::ptr::eq(candidate, leader) {
        settled.outcome
    } else {
        classify_follower(
            candidate,
            leader,
            settled.outcome,
            settled.winner.as_deref(),
        )
    }
}

fn to_quarantine(record: &Record, outcome: Outcome) -> Quarantined {
    let (reason, event_id, body) = match &record.content {
        Err(Bad {
            reason,
            event_id,
            body,
        }) => (reason.to_string(), event_id.clone(), body.clone()),
        Ok(Good { candidate, .. }) => {
            let reason = match outcome {
                Outcome::Conflict => {
                    "another message carries the same event id with different content"
                }
                _ => "the lock table cannot hold the message",
            };
            (
                reason.to_owned(),
                Some(candidate.event_id.clone()),
                candidate.body.clone(),
            )
        }
    };
    Quarantined {
        sqs_message_id: record.sqs_message_id.clone(),
        event_id,
        source: record.source.clone(),
        reason,
        body,
    }
}

/// What the response says of a message, and why.
#[derive(Debug)]
struct Verdict {
    outcome: Outcome,
    success: bool,
    quarantined: bool,
}

impl Verdict {
    fn metrics(&self) -> impl Iterator<Item = &'static str> {
        let outcome = match self.outcome {
            Outcome::Claimed => Some("Claimed"),
            Outcome::Redelivered | Outcome::RedeliveredLate => Some("Redelivered"),
            Outcome::Duplicate => Some("Duplicates"),
            Outcome::Conflict => Some("Conflicts"),
            Outcome::Unstorable | Outcome::Failed => None,
        };
        let quarantined = self.quarantined.then_some("Quarantined");
        let failed = (!self.success).then_some("Failed");
        [outcome, quarantined, failed].into_iter().flatten()
    }
}

#[cfg(test)]
mod tests;
