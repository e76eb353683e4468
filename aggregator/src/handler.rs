//! One invocation: SQS records in, the messages that must come back out.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use aws_lambda_events::event::sqs::{SqsBatchResponse, SqsEvent};
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
use crate::invocation::{Budgets, Invocation, InvocationCounts};
use crate::open_batches::OpenBatches;
use crate::overflow_bodies::OverflowBodies;
use crate::quarantine::Quarantine;
use crate::records::{self, NoMessageId, Record};
use crate::shared_allocator::SharedAllocator;

impl From<NoMessageId> for Diagnostic {
    fn from(error: NoMessageId) -> Diagnostic {
        Diagnostic {
            error_type: "NoMessageId".to_owned(),
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
    /// [`NoMessageId`], before anything was claimed: an error brings the whole event back.
    pub async fn handle(
        &self,
        event: SqsEvent,
        invocation: &Invocation,
    ) -> Result<SqsBatchResponse, NoMessageId> {
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
        let outcomes = self.claim(&records, &budgets, &counts).await;
        let in_quarantine = self.send_to_quarantine(&records, &outcomes, &budgets).await;

        let mut failed = BTreeSet::new();
        let mut metrics: BTreeMap<&SourceArn, Metrics> = BTreeMap::new();
        for (index, (record, outcome)) in records.iter().zip(outcomes).enumerate() {
            let in_quarantine = in_quarantine.contains(&index);
            let success = match outcome.response(self.config.rule) {
                Response::Success => true,
                Response::Failure => false,
                Response::Quarantine => in_quarantine || planted(Bug::QuarantineNotAwaited),
            };
            let (id, source) = names(record);
            if !success {
                failed.insert(id);
            }
            let metrics = metrics.entry(source).or_default();
            metrics.count("Received", 1);
            for name in [
                metric(outcome),
                in_quarantine.then_some("Quarantined"),
                (!success).then_some("Failed"),
            ] {
                name.inspect(|name| metrics.count(name, 1));
            }
        }
        self.report(metrics, &counts, invocation, started, failed.len());
        let mut response = SqsBatchResponse::default();
        response.set_failures(failed.into_iter().map(SqsMessageId::to_string));
        Ok(response)
    }

    /// Claims what can be claimed; returns an outcome for each record.
    async fn claim(
        &self,
        records: &[Result<Record, Quarantined>],
        budgets: &Budgets<'_>,
        counts: &InvocationCounts,
    ) -> Vec<Outcome> {
        let mut leader_of: HashMap<&EventId, usize> = HashMap::with_capacity(records.len());
        let mut leaders = Vec::new();
        let mut received = Received::new();
        for record in records {
            if let Ok(record) = record {
                let event_id = &record.candidate.event_id;
                leader_of.entry(event_id).or_insert_with(|| {
                    leaders.push(record);
                    leaders.len() - 1
                });
            }
            if self.config.seal_when_drained {
                *received.entry(names(record).1).or_default() += 1;
            }
        }
        let mut settled = self
            .claim_rounds
            .claim_all(&leaders, &received, budgets, counts)
            .await;
        settled.sort_unstable_by_key(|one| one.leader);
        debug_assert_eq!(settled.len(), leaders.len());
        let outcome = |record: &Result<Record, Quarantined>| match record {
            Ok(Record { candidate, .. }) => {
                let leader = leader_of[&candidate.event_id];
                outcome_of(candidate, &leaders[leader].candidate, &settled[leader])
            }
            // A bad record goes where an unstorable one goes.
            Err(_) => Outcome::Unstorable,
        };
        records.iter().map(outcome).collect()
    }

    /// Sends what cannot be processed to the quarantine; returns the positions of the records that are there.
    async fn send_to_quarantine(
        &self,
        records: &[Result<Record, Quarantined>],
        outcomes: &[Outcome],
        budgets: &Budgets<'_>,
    ) -> BTreeSet<usize> {
        let (indices, messages): (Vec<usize>, Vec<Quarantined>) = records
            .iter()
            .zip(outcomes)
            .enumerate()
            .filter(|(_, (_, outcome))| outcome.response(self.config.rule) == Response::Quarantine)
            .map(|(index, (record, outcome))| (index, to_quarantine(record, *outcome)))
            .unzip();
        let sent = self.quarantine.send(&messages, &budgets.wrap_up).await;
        let sent = indices.into_iter().zip(sent).filter(|(_, sent)| *sent);
        sent.map(|(index, _)| index).collect()
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

fn names(record: &Result<Record, Quarantined>) -> (&SqsMessageId, &SourceArn) {
    match record {
        Ok(Record { candidate, .. }) => (&candidate.sqs_message_id, &candidate.source),
        Err(bad) => (&bad.sqs_message_id, &bad.source),
    }
}

fn to_quarantine(record: &Result<Record, Quarantined>, outcome: Outcome) -> Quarantined {
    let candidate = match record {
        Ok(Record { candidate, .. }) => candidate,
        Err(bad) => return bad.clone(),
    };
    let reason = match outcome {
        Outcome::Conflict => "another message carries the same event id with different content",
        _ => "the lock table cannot hold the message",
    };
    Quarantined {
        sqs_message_id: candidate.sqs_message_id.clone(),
        event_id: Some(candidate.event_id.clone()),
        source: candidate.source.clone(),
        reason: reason.to_owned(),
        body: candidate.body.clone(),
    }
}

/// Returns the metric that counts messages with this outcome.
fn metric(outcome: Outcome) -> Option<&'static str> {
    match outcome {
        Outcome::Claimed => Some("Claimed"),
        Outcome::Redelivered | Outcome::RedeliveredLate => Some("Redelivered"),
        Outcome::Duplicate => Some("Duplicates"),
        Outcome::Conflict => Some("Conflicts"),
        Outcome::Unstorable | Outcome::Failed => None,
    }
}

#[cfg(test)]
mod tests;
