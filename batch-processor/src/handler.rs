//! One invocation: processes tickets and returns the tickets to retry, or runs the sweep.

use std::sync::Arc;
use std::time::Duration;

use aws_lambda_events::event::sqs::{SqsBatchResponse, SqsEvent, SqsMessage};
use lambda_runtime::Diagnostic;
use protocol::ids::LeaseOwner;
use protocol::retry::RetryPolicy;
use protocol::time::Timestamp;
use shared::dry_run::DryRunFailed;
use shared::metrics::{About, Count, write_line};
use shared::ports::{PortError, Ports};
use shared::retry::{Budget, NoTime};
use shared::traces;
use shared::traces::names::FAILED_COUNT;
use shared::wire::{Ticket, TicketError};
use sinks::{AnswerPlace, Sink};
use tracing::field::display;
use tracing::{Instrument as _, error, error_span, info, warn};

use crate::answers::{AnsweredParts, Answers};
use crate::config::Config;
use crate::dry_run::dry_run;
use crate::event::{Event, Response};
use crate::invocation::{Budgets, Invocation, Report};
use crate::metrics::BatchProcessorMetrics;
use crate::sweep::Sweep;
use crate::ticket_end::TicketEnd;
use crate::ticket_processor::TicketProcessor;

/// Why a whole event fails and comes back.
#[derive(Debug, thiserror::Error)]
pub enum HandlerError {
    /// A message without an id, which the response cannot name.
    #[error(
        "record {index} of the event: got no message id, expected one: the event fails as a whole, because nothing else can \
         be reported"
    )]
    NoMessageId {
        /// The position of the message in the event, from 0.
        index: usize,
    },
    /// `DEADLINE_MARGIN_MS` leaves no time.
    #[error(transparent)]
    NoTime(#[from] NoTime),
    /// The sweep could not read the batch table in time.
    #[error("sweep: {0}")]
    Sweep(#[from] PortError),
    /// A dry run found places that cannot be used.
    #[error(transparent)]
    DryRun(#[from] DryRunFailed),
}

impl From<HandlerError> for Diagnostic {
    fn from(error: HandlerError) -> Diagnostic {
        let error_type = match error {
            HandlerError::NoMessageId { .. } => "NoMessageId",
            HandlerError::NoTime(_) => "NoTime",
            HandlerError::Sweep(_) => "Sweep",
            HandlerError::DryRun(_) => "DryRun",
        };
        Diagnostic {
            error_type: error_type.to_owned(),
            error_message: error.to_string(),
        }
    }
}

/// Handles all invocations of one environment, several at once if necessary.
pub struct Handler {
    config: Config,
    ports: Ports,
    tickets: TicketProcessor,
    sweep: Sweep,
    sink: Arc<dyn Sink>,
    answered_parts: Option<Arc<AnsweredParts>>,
    answers: Option<Answers>,
}

impl Handler {
    /// Returns a handler that delivers to `sink`.
    pub fn new(config: Config, ports: Ports, sink: Arc<dyn Sink>) -> Handler {
        let answered_parts = config.sink.answers.as_ref().map(|answers| {
            let common = &config.common;
            let (window, concurrency) = (common.dedup_window, common.write_concurrency);
            Arc::new(AnsweredParts::new(&ports, answers, window, concurrency))
        });
        Handler {
            tickets: TicketProcessor::new(&config, &ports, sink.clone(), answered_parts.clone()),
            sweep: Sweep::new(&config, &ports),
            sink,
            answered_parts,
            answers: None,
            config,
            ports,
        }
    }

    /// Returns the handler with answers that its sweep reads from `place`, if the configuration has answers.
    #[must_use]
    pub fn with_answers(self, place: Arc<dyn AnswerPlace>) -> Handler {
        let (config, parts) = (self.config.sink.answers.as_ref(), &self.answered_parts);
        let answers = config.zip(parts.clone()).map(|(config, parts)| {
            let concurrency = self.config.common.write_concurrency;
            Answers::new(config, place, parts, &self.ports, concurrency)
        });
        Handler { answers, ..self }
    }

    /// Handles one event: tickets (one, as a rule), or the sweep. An SQS event without tickets is a dry run.
    ///
    /// # Errors
    /// [`HandlerError`]. SQS then delivers all messages of the event again.
    pub async fn handle(
        &self,
        event: Event,
        invocation: &Invocation,
    ) -> Result<Response, HandlerError> {
        let margin = self.config.common.deadline_margin;
        let work = Budget::new(&self.ports, invocation.deadline.saturating_sub(margin));
        let has_time = work.check_time(invocation.deadline, margin);
        has_time.inspect_err(|error| error!(%error, "no time to deliver"))?;
        Ok(match event {
            Event::Tickets(event) if event.records.is_empty() => {
                let window = self.config.common.dedup_window;
                let answers = self.answers.as_ref();
                dry_run(&self.ports, &*self.sink, answers, window, work).await?;
                Response::Tickets(SqsBatchResponse::default())
            }
            Event::Tickets(event) => Response::Tickets(self.tickets(event, invocation).await?),
            Event::Sweep => {
                let budgets = self.budgets(invocation, 1);
                let answers = self.answers.as_ref();
                Response::Swept(self.sweep.run(answers, invocation, &budgets).await?)
            }
        })
    }

    async fn tickets(
        &self,
        event: SqsEvent,
        invocation: &Invocation,
    ) -> Result<SqsBatchResponse, HandlerError> {
        let messages: Vec<(String, SqsMessage)> = event
            .records
            .into_iter()
            .enumerate()
            .map(|(index, mut message)| match message.message_id.take() {
                Some(id) if !id.is_empty() => Ok((id, message)),
                Some(_) | None => Err(HandlerError::NoMessageId { index }),
            })
            .collect::<Result<_, _>>()?;
        let started = self.ports.clock.now();
        let mut report = Report {
            tickets_count: messages.len(),
            ..Report::default()
        };
        let mut response = SqsBatchResponse::default();
        for (id, message) in messages {
            let ticket = Ticket::from_body(message.body.as_deref().unwrap_or_default());
            // At the level ERROR, so that every line about a batch has its id, whatever `LOG_LEVEL` leaves out.
            let batch_id = ticket.as_ref().ok().map(|ticket| display(ticket.batch_id));
            let span = error_span!("ticket", batch_id);
            let done = self.message(&id, ticket, &message, invocation, &mut report);
            if !done.instrument(span).await {
                response.add_failure(id);
            }
        }
        report.given_back_count = response.batch_item_failures.len();
        self.report(&report, started, invocation);
        Ok(response)
    }

    /// Handles one message of the batch queue; returns whether it may be acknowledged.
    async fn message(
        &self,
        id: &str,
        ticket: Result<Ticket, TicketError>,
        message: &SqsMessage,
        invocation: &Invocation,
        report: &mut Report,
    ) -> bool {
        let budgets = self.budgets(invocation, receive_count(message));
        // The message id tells two tickets of one invocation apart, in case they name the same batch.
        let owner = format!("{}/{}/{id}", invocation.function, invocation.request_id);
        let end = match (ticket, LeaseOwner::try_from(owner)) {
            (Ok(ticket), Ok(owner)) => {
                let tickets = &self.tickets;
                tickets.process(&ticket, owner, &budgets, report).await
            }
            (Err(error), _) => malformed(&error),
            (_, Err(error)) => malformed(&error),
        };
        match &end {
            TicketEnd::Done(outcome) => info!(sqs_message_id = id, outcome, "ticket done"),
            TicketEnd::Retry { why, .. } => {
                warn!(sqs_message_id = id, reason = why, "ticket will be retried");
            }
        }
        let away_for = end.away_for(budgets.backoff);
        if let Some(away_for) = away_for {
            let receipt = message.receipt_handle.as_deref().unwrap_or_default();
            self.retry_after(id, receipt, away_for, &budgets).await;
        }
        away_for.is_none()
    }

    /// Makes a ticket come back after `away_for` instead of after the queue's visibility timeout, which is longer than
    /// an invocation. If the request fails, the sweep sends another ticket before the visibility timeout is over.
    async fn retry_after(
        &self,
        id: &str,
        receipt: &str,
        away_for: Duration,
        budgets: &Budgets<'_>,
    ) {
        if receipt.is_empty() {
            return;
        }
        let away_for = Duration::from_secs((away_for.as_millis() as u64).div_ceil(1_000));
        let retry = || self.ports.batch_queue.retry_after(receipt, away_for);
        if let Err(error) = budgets.wrap_up.call(RetryPolicy::CONTROL, retry).await {
            warn!(
                sqs_message_id = id,
                away_secs = away_for.as_secs(),
                %error,
                "visibility not changed; ticket returns after the queue's timeout"
            );
        }
    }

    /// Logs a summary of the invocation, and writes the metrics of each source.
    fn report(&self, report: &Report, started: Timestamp, invocation: &Invocation) {
        traces::count(FAILED_COUNT, report.given_back_count as u64);
        let now = self.ports.clock.now();
        let sum = |count: fn(&BatchProcessorMetrics) -> Count| -> u64 {
            report.metrics.values().map(|one| count(one).get()).sum()
        };
        info!(
            tickets_count = report.tickets_count,
            given_back_count = report.given_back_count,
            parts_count = sum(|one| one.parts_delivered),
            items_count = sum(|one| one.batch_items),
            completed_count = sum(|one| one.batches_completed),
            elapsed_ms = (now - started).as_millis() as u64,
            "invocation done"
        );
        for (source, metrics) in &report.metrics {
            // A ticket that finds nothing to do writes no line.
            if *metrics == BatchProcessorMetrics::default() {
                continue;
            }
            let about = About {
                function: &invocation.function,
                source: source.as_str(),
                at: now,
            };
            write_line(&*self.ports.metric_log, about, metrics);
        }
    }

    fn budgets(&self, invocation: &Invocation, receives: u32) -> Budgets<'_> {
        let margin = self.config.common.deadline_margin;
        Budgets::new(invocation.deadline, margin, receives, &self.ports)
    }
}

/// Returns the end of a ticket that cannot be processed. It goes to the dead-letter queue.
fn malformed(error: &dyn std::error::Error) -> TicketEnd {
    error!(%error, "ticket is malformed");
    TicketEnd::retry(error.to_string())
}

/// Returns how often SQS has delivered a message, this time included.
fn receive_count(message: &SqsMessage) -> u32 {
    let count = message.attributes.get("ApproximateReceiveCount");
    count.and_then(|count| count.parse().ok()).unwrap_or(1)
}

#[cfg(test)]
#[path = "handler_tests/mod.rs"]
mod tests;
