//! One invocation: tickets in, the tickets that must come back out; or the sweep.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use aws_lambda_events::event::sqs::{SqsBatchResponse, SqsEvent, SqsMessage};
use lambda_runtime::Diagnostic;
use protocol::ids::{IdError, LeaseOwner};
use protocol::retry::RetryPolicy;
use protocol::time::Timestamp;
use shared::calls::Budget;
use shared::ports::{PortError, Ports};
use shared::wire::{Ticket, TicketError};
use shared::writes::SharedPaces;
use tokio::sync::{Semaphore, SemaphorePermit};
use tracing::{error, info, warn};

use crate::config::Config;
use crate::event::{Event, Response};
use crate::give_back::GiveBack;
use crate::process::{Budgets, Done, Report};
use sinks::Sink;

/// What Lambda says about an invocation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invocation {
    /// Name of the function.
    pub function: String,
    /// Unique to the invocation.
    pub request_id: String,
    /// When it is killed.
    pub deadline: Timestamp,
}

/// Why a whole event fails.
#[derive(Debug, thiserror::Error)]
pub enum HandlerError {
    /// A message cannot be named in the answer.
    #[error(
        "record {index} of the event has no message id; nothing can be reported for it, so the event fails whole"
    )]
    NoMessageId {
        /// Its position in the event.
        index: usize,
    },
    /// The sweep could not look at the batch table.
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

/// Why one message of the batch queue is given back.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error(transparent)]
    Malformed(#[from] TicketError),
    #[error(transparent)]
    Owner(#[from] IdError),
    #[error(transparent)]
    GivenBack(#[from] GiveBack),
}

/// The batch processor. One per environment; any number of invocations at once.
pub struct Handler {
    config: Config,
    ports: Ports,
    sink: Arc<dyn Sink>,
    requests: Semaphore,
    paces: SharedPaces,
}

impl Handler {
    /// A handler.
    pub fn new(config: Config, ports: Ports, sink: Arc<dyn Sink>) -> Handler {
        let requests = Semaphore::new(config.common.write_concurrency);
        Handler {
            config,
            ports,
            sink,
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

    pub(crate) fn sink(&self) -> &dyn Sink {
        &*self.sink
    }

    /// How fast the index keys of the batches at hand can be written.
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

    /// Handles one event: tickets, as a rule one, or the sweep.
    ///
    /// # Errors
    /// [`HandlerError`] before anything was done: an error brings the whole event back.
    pub async fn handle(
        &self,
        event: Event,
        invocation: &Invocation,
    ) -> Result<Response, HandlerError> {
        Ok(match event {
            Event::Tickets(event) => Response::Tickets(self.tickets(event, invocation).await?),
            Event::Sweep => Response::Swept(self.sweep(invocation).await?),
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
            let mut report = Report::default();
            let budgets = self.budgets(invocation.deadline, receive_count(&message));
            let body = message.body.as_deref().unwrap_or_default();
            let away_for = match self.one(body, &id, invocation, &budgets, &mut report).await {
                Ok(done) => {
                    info!(sqs_message_id = id, outcome = ?done, "ticket done");
                    None
                }
                Err(Failure::GivenBack(reason)) => {
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
                self.retry_ticket(&id, receipt, away_for, &budgets).await;
                response.add_failure(id);
            }
            if !report.metrics.is_empty() {
                let source = report
                    .source
                    .as_ref()
                    .map_or("unknown", |source| source.as_str());
                let line =
                    report
                        .metrics
                        .line(&invocation.function, source, self.ports.clock.now());
                self.ports.metric_log.write(&line);
            }
        }
        Ok(response)
    }

    /// Has a ticket come back after `away_for` and not after the queue's visibility timeout, which is for invocations
    /// that died. If this fails, the sweep is earlier than the ticket.
    async fn retry_ticket(
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

    async fn one(
        &self,
        body: &str,
        message_id: &str,
        invocation: &Invocation,
        budgets: &Budgets<'_>,
        report: &mut Report,
    ) -> Result<Done, Failure> {
        let ticket = Ticket::from_body(body)?;
        // The message id tells two tickets of one invocation apart, should they name one batch.
        let owner = format!(
            "{}/{}/{message_id}",
            invocation.function, invocation.request_id
        );
        Ok(self
            .process(&ticket, LeaseOwner::try_from(owner)?, budgets, report)
            .await?)
    }

    /// The time limits of an invocation for a ticket that was received so many times.
    pub(crate) fn budgets(&self, deadline: Timestamp, receives: u32) -> Budgets<'_> {
        let margin = self.config.common.deadline_margin;
        let budget = |margin| Budget {
            clock: &*self.ports.clock,
            entropy: &*self.ports.entropy,
            stop_at: deadline.saturating_sub(margin),
        };
        Budgets {
            deadline,
            work: budget(margin),
            wrap_up: budget(margin / 3),
            backoff: RetryPolicy::TICKET.pause(receives, self.ports.entropy.jitter()),
        }
    }
}

/// How often SQS has handed a message out, this time included.
fn receive_count(message: &SqsMessage) -> u32 {
    let count = message.attributes.get("ApproximateReceiveCount");
    count.and_then(|count| count.parse().ok()).unwrap_or(1)
}

#[cfg(test)]
#[path = "handler_tests.rs"]
mod tests;
