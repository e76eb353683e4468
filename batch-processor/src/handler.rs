//! One invocation: processes tickets and returns those that must come back, or runs the sweep.

use std::sync::Arc;
use std::time::Duration;

use aws_lambda_events::event::sqs::{SqsBatchResponse, SqsEvent, SqsMessage};
use lambda_runtime::Diagnostic;
use protocol::ids::{IdError, LeaseOwner};
use protocol::retry::RetryPolicy;
use shared::ports::{PortError, Ports};
use shared::wire::{Ticket, TicketError};
use sinks::Sink;
use tracing::{error, info, warn};

use crate::config::Config;
use crate::event::{Event, Response};
use crate::invocation::{Budgets, Invocation, Report};
use crate::outcome::{Done, RetryTicket};
use crate::sweep::Sweep;
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
    /// The sweep could not read the batch table in time.
    #[error("sweep: {0}")]
    Sweep(#[from] PortError),
}

impl From<HandlerError> for Diagnostic {
    fn from(error: HandlerError) -> Diagnostic {
        let error_type = match error {
            HandlerError::NoMessageId { .. } => "NoMessageId",
            HandlerError::Sweep(_) => "Sweep",
        };
        Diagnostic {
            error_type: error_type.to_owned(),
            error_message: error.to_string(),
        }
    }
}

/// Why one message of the batch queue is retried.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error(transparent)]
    Malformed(#[from] TicketError),
    #[error(transparent)]
    Owner(#[from] IdError),
    #[error(transparent)]
    Retry(#[from] RetryTicket),
}

/// Handles all invocations of one environment, several at once if necessary.
pub struct Handler {
    config: Config,
    ports: Ports,
    tickets: TicketProcessor,
    sweep: Sweep,
}

impl Handler {
    /// Returns a handler that delivers to `sink`.
    pub fn new(config: Config, ports: Ports, sink: Arc<dyn Sink>) -> Handler {
        Handler {
            tickets: TicketProcessor::new(&config, &ports, sink),
            sweep: Sweep::new(&ports, config.common.write_concurrency),
            config,
            ports,
        }
    }

    /// Handles one event: tickets (one, as a rule), or the sweep.
    ///
    /// # Errors
    /// [`HandlerError`]. SQS then delivers all messages of the event again.
    pub async fn handle(
        &self,
        event: Event,
        invocation: &Invocation,
    ) -> Result<Response, HandlerError> {
        Ok(match event {
            Event::Tickets(event) => Response::Tickets(self.tickets(event, invocation).await?),
            Event::Sweep => {
                let budgets = self.budgets(invocation, 1);
                Response::Swept(self.sweep.run(invocation, &budgets).await?)
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
        let mut response = SqsBatchResponse::default();
        for (id, message) in messages {
            if !self.message(&id, &message, invocation).await {
                response.add_failure(id);
            }
        }
        Ok(response)
    }

    /// Handles one message of the batch queue; returns whether it may be acknowledged.
    async fn message(&self, id: &str, message: &SqsMessage, invocation: &Invocation) -> bool {
        let mut report = Report::default();
        let budgets = self.budgets(invocation, receive_count(message));
        let body = message.body.as_deref().unwrap_or_default();
        let processed = self.ticket(body, id, invocation, &budgets, &mut report);
        let away_for = match processed.await {
            Ok(done) => {
                info!(sqs_message_id = id, outcome = ?done, "ticket done");
                None
            }
            Err(Failure::Retry(reason)) => {
                warn!(sqs_message_id = id, %reason, "ticket given back");
                Some(reason.away_for(budgets.backoff, self.ports.clock.now()))
            }
            Err(error @ (Failure::Malformed(_) | Failure::Owner(_))) => {
                error!(sqs_message_id = id, %error, "ticket given back");
                Some(budgets.backoff)
            }
        };
        if let Some(away_for) = away_for {
            let receipt = message.receipt_handle.as_deref().unwrap_or_default();
            self.retry_after(id, receipt, away_for, &budgets).await;
        }
        self.write_metrics(&report, invocation);
        away_for.is_none()
    }

    async fn ticket(
        &self,
        body: &str,
        message_id: &str,
        invocation: &Invocation,
        budgets: &Budgets<'_>,
        report: &mut Report,
    ) -> Result<Done, Failure> {
        let ticket = Ticket::from_body(body)?;
        // The message id tells two tickets of one invocation apart, in case they name the same batch.
        let owner = format!(
            "{}/{}/{message_id}",
            invocation.function, invocation.request_id
        );
        let owner = LeaseOwner::try_from(owner)?;
        let processed = self.tickets.process(&ticket, owner, budgets, report);
        Ok(processed.await?)
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
                "ticket stays away for the visibility timeout"
            );
        }
    }

    fn write_metrics(&self, report: &Report, invocation: &Invocation) {
        if report.metrics.is_empty() {
            return;
        }
        let source = report.source.as_ref().map(|source| source.as_str());
        let (source, now) = (source.unwrap_or("unknown"), self.ports.clock.now());
        let line = report.metrics.line(&invocation.function, source, now);
        self.ports.metric_log.write(&line);
    }

    fn budgets(&self, invocation: &Invocation, receives: u32) -> Budgets<'_> {
        let margin = self.config.common.deadline_margin;
        Budgets::new(invocation.deadline, margin, receives, &self.ports)
    }
}

/// Returns how often SQS has delivered a message, this time included.
fn receive_count(message: &SqsMessage) -> u32 {
    let count = message.attributes.get("ApproximateReceiveCount");
    count.and_then(|count| count.parse().ok()).unwrap_or(1)
}

#[cfg(test)]
#[path = "handler_tests/mod.rs"]
mod tests;
