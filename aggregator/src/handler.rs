//! One invocation: SQS records in, the messages that must come back out.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use aws_lambda_events::event::sqs::SqsBatchResponse;
use lambda_runtime::Diagnostic;
use protocol::claim::{Answer, Candidate, Outcome, classify_follower};
use protocol::ids::{EventId, SourceArn, SqsMessageId};
use protocol::planted::{Bug, planted};
use protocol::time::Timestamp;
use shared::calls::Budget;
use shared::metrics::Metrics;
use shared::ports::{PortError, Ports, Quarantined, SourceQueues};
use shared::writes::SharedPaces;
use tokio::sync::{Semaphore, SemaphorePermit};
use tracing::{error, info};

use crate::attempts::Settled;
use crate::claims::{Budgets, Leader};
use crate::config::Config;
use crate::current::CurrentBatches;
use crate::drained::Received;
use crate::event::{Event, MalformedEvent};
use crate::records::{self, Bad, Good, NoMessageId, Record};

/// What Lambda says about an invocation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invocation {
    /// Name of the function.
    pub function: String,
    /// When it is killed.
    pub deadline: Timestamp,
}

/// Why a whole event fails.
#[derive(Debug, thiserror::Error)]
pub enum HandlerError {
    /// The payload is no SQS event.
    #[error(transparent)]
    MalformedEvent(#[from] MalformedEvent),
    /// A message cannot be named in the answer.
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
    source_queues: Arc<dyn SourceQueues>,
    current: Arc<CurrentBatches>,
    requests: Semaphore,
    paces: SharedPaces,
}

/// What happens during an invocation besides outcomes.
#[derive(Debug, Default)]
pub struct Tally {
    opened: AtomicU64,
    sealed: AtomicU64,
    throttles: AtomicU64,
}

impl Tally {
    pub(crate) fn opened(&self) {
        self.opened.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn sealed(&self) {
        self.sealed.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn throttled(&self) {
        self.throttles.fetch_add(1, Ordering::Relaxed);
    }
}

impl Handler {
    /// A handler over the current batches of its environment.
    pub fn new(
        config: Config,
        ports: Ports,
        source_queues: Arc<dyn SourceQueues>,
        current: Arc<CurrentBatches>,
    ) -> Handler {
        let requests = Semaphore::new(config.common.write_concurrency);
        Handler {
            config,
            ports,
            source_queues,
            current,
            requests,
            paces: SharedPaces::default(),
        }
    }

    pub(crate) fn config(&self) -> &Config {
        &self.config
    }

    pub(crate) fn ports(&self) -> &Ports {
        &self.ports
    }

    pub(crate) fn source_queues(&self) -> &dyn SourceQueues {
        &*self.source_queues
    }

    pub(crate) fn current(&self) -> &CurrentBatches {
        &self.current
    }

    /// How fast the index keys of the current batches can be written.
    pub(crate) fn paces(&self) -> &SharedPaces {
        &self.paces
    }

    /// Waits for a place among the requests in flight of the whole environment.
    ///
    /// # Errors
    /// [`PortError::DeadlineReached`] where a place is free only when the time is over: many may wait for one.
    pub(crate) async fn place(
        &self,
        budget: &Budget<'_>,
    ) -> Result<SemaphorePermit<'_>, PortError> {
        let place = self.requests.acquire().await;
        let place = place.expect("the semaphore is never closed");
        match budget.open() {
            true => Ok(place),
            false => Err(PortError::DeadlineReached),
        }
    }

    /// Runs a request in a place among those in flight.
    ///
    /// # Errors
    /// As [`place`](Self::place), and those of the request.
    pub(crate) async fn limited<T>(
        &self,
        budget: &Budget<'_>,
        request: impl Future<Output = Result<T, PortError>>,
    ) -> Result<T, PortError> {
        let _place = self.place(budget).await?;
        request.await
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
        let budgets = self.budgets(invocation.deadline);
        if !budgets.claims.open() {
            let margin_ms = self.config.common.deadline_margin.as_millis() as u64;
            error!(
                margin_ms,
                "the deadline is within `DEADLINE_MARGIN_MS`: nothing can be claimed"
            );
        }
        let tally = Tally::default();
        let verdicts = self.decide(&records, &budgets, &tally).await;

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
        self.report(metrics, &tally, invocation, started, failed.len());
        let mut response = SqsBatchResponse::default();
        response.set_failures(failed.iter().map(SqsMessageId::to_string));
        Ok(response)
    }

    fn budgets(&self, deadline: Timestamp) -> Budgets<'_> {
        let margin = self.config.common.deadline_margin;
        let budget = |margin| Budget {
            clock: &*self.ports.clock,
            entropy: &*self.ports.entropy,
            stop_at: deadline.saturating_sub(margin),
        };
        // Counts, seals and witnesses of what was claimed last may start later than claims, but must end in time.
        Budgets {
            deadline,
            claims: budget(margin),
            wrap_up: budget(margin / 3),
        }
    }

    async fn decide(
        &self,
        records: &[Record],
        budgets: &Budgets<'_>,
        tally: &Tally,
    ) -> Vec<Verdict> {
        let mut leader_of: HashMap<&EventId, usize> = HashMap::with_capacity(records.len());
        let mut leaders = Vec::new();
        let mut follows: Vec<Option<usize>> = Vec::with_capacity(records.len());
        for record in records {
            follows.push(
                record
                    .content
                    .as_ref()
                    .ok()
                    .map(|Good { candidate, slot }| {
                        *leader_of.entry(&candidate.event_id).or_insert_with(|| {
                            leaders.push(Leader { candidate, slot });
                            leaders.len() - 1
                        })
                    }),
            );
        }
        let mut received = Received::new();
        if self.config.seal_when_drained {
            for record in records {
                *received.entry(&record.source).or_default() += 1;
            }
        }
        let mut settled = self.claim_all(&leaders, &received, budgets, tally).await;
        settled.sort_unstable_by_key(|one| one.leader);
        debug_assert_eq!(settled.len(), leaders.len());

        let mut quarantined = Vec::new();
        let mut verdicts: Vec<Verdict> = Vec::with_capacity(records.len());
        for (record, leader) in records.iter().zip(follows) {
            let outcome = match (&record.content, leader) {
                (Ok(good), Some(leader)) => {
                    outcome_of(&good.candidate, leaders[leader].candidate, &settled[leader])
                }
                // Only good records have a leader; a bad one goes where an unstorable one goes.
                (Ok(_) | Err(_), _) => Outcome::Unstorable,
            };
            let answer = outcome.answer(self.config.rule);
            if answer == Answer::Quarantine {
                quarantined.push((verdicts.len(), to_quarantine(record, outcome)));
            }
            verdicts.push(Verdict {
                outcome,
                success: answer == Answer::Success,
                quarantined: false,
            });
        }
        let messages: Vec<Quarantined> = quarantined
            .iter()
            .map(|(_, message)| message.clone())
            .collect();
        let sent = self.quarantine(&messages, &budgets.wrap_up).await;
        for ((index, _), sent) in quarantined.into_iter().zip(sent) {
            verdicts[index].success = sent || planted(Bug::QuarantineNotAwaited);
            verdicts[index].quarantined = sent;
        }
        verdicts
    }

    fn report(
        &self,
        mut metrics: BTreeMap<&SourceArn, Metrics>,
        tally: &Tally,
        invocation: &Invocation,
        started: Timestamp,
        failed_count: usize,
    ) {
        let now = self.ports.clock.now();
        // What belongs to the invocation and not to a message is shown with its first source; as a rule the only one.
        if let Some(first) = metrics.values_mut().next() {
            first.count("BatchesOpened", tally.opened.load(Ordering::Relaxed));
            first.count("BatchesSealed", tally.sealed.load(Ordering::Relaxed));
            first.count("Throttles", tally.throttles.load(Ordering::Relaxed));
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

/// What is answered for a message, and why.
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
#[path = "handler_tests.rs"]
mod tests;
