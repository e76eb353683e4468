//! Sending events to the quarantine, because an operator sets their batch aside.
//!
//! The order is in the batch record from the lease on, so whoever comes after a crash goes on with it. Events that were
//! sent and not yet noted in the record are sent again: in the quarantine an event is better twice than not at all.

use std::sync::Arc;

use shared::ports::{PortError, Ports, QuarantineQueue, Quarantined, StoredEvent};
use shared::retry::{Budget, Unsent, send_to_quarantine};
use shared::sqs_text::sqs_text;

use crate::overflow_bodies::{BodyProblem, OverflowBodies};

/// Sends events to the quarantine queue, if there is one.
pub(crate) struct Quarantine {
    queue: Option<Arc<dyn QuarantineQueue>>,
    bodies: Arc<OverflowBodies>,
    concurrency: usize,
}

/// What came of sending events.
#[derive(Debug)]
pub(crate) struct Sent {
    /// The events that are in the quarantine.
    pub(crate) events: Vec<StoredEvent>,
    /// How many are not known to be there.
    pub(crate) unsent_count: usize,
    /// Why one of those never will be.
    pub(crate) refused: Option<String>,
}

/// Why nothing was sent.
#[derive(Debug)]
pub(crate) enum QuarantineError {
    /// Another attempt would end the same.
    Permanent(String),
    /// A service could not be reached in time.
    Service(PortError),
}

impl Quarantine {
    pub(crate) fn new(
        ports: &Ports,
        bodies: Arc<OverflowBodies>,
        concurrency: usize,
    ) -> Quarantine {
        Quarantine {
            queue: ports.quarantine_queue.clone(),
            bodies,
            concurrency,
        }
    }

    /// Returns whether there is a quarantine queue.
    pub(crate) fn exists(&self) -> bool {
        self.queue.is_some()
    }

    /// Sends events with the reason why their batch is set aside.
    pub(crate) async fn send(
        &self,
        mut events: Vec<StoredEvent>,
        reason: &str,
        budget: &Budget<'_>,
    ) -> Result<Sent, QuarantineError> {
        let Some(queue) = self.queue.as_deref() else {
            let error = "quarantine: `QUARANTINE_SQS_URL` is not set any more; set it, and send a ticket again";
            return Err(QuarantineError::Permanent(error.to_owned()));
        };
        let mut messages = Vec::with_capacity(events.len());
        for event in &mut events {
            match self.message(event, reason, budget).await {
                Ok(message) => messages.push(message),
                Err(BodyProblem::Unread(source)) => return Err(QuarantineError::Service(source)),
                Err(problem) => return Err(QuarantineError::Permanent(problem.to_string())),
            }
        }
        let replies = send_to_quarantine(queue, &messages, self.concurrency, budget).await;
        let mut sent = Sent {
            events: Vec::with_capacity(events.len()),
            unsent_count: 0,
            refused: None,
        };
        for (event, reply) in events.into_iter().zip(replies) {
            match reply {
                Ok(()) => sent.events.push(event),
                Err(unsent) => {
                    sent.unsent_count += 1;
                    if let (Unsent::Refused(error), None) = (unsent, &sent.refused) {
                        let id = &event.event_id;
                        sent.refused = Some(format!("quarantine of event `{id}`: {error}"));
                    }
                }
            }
        }
        Ok(sent)
    }

    /// Returns what the quarantine gets of an event. A body in the overflow store that is gone, which may be why the batch
    /// is in error, is replaced by a text that says so.
    ///
    /// # Errors
    /// [`BodyProblem`] where the body may be there: it is removed with the claim, so the text alone would lose it.
    async fn message(
        &self,
        event: &mut StoredEvent,
        reason: &str,
        budget: &Budget<'_>,
    ) -> Result<Quarantined, BodyProblem> {
        let body = match self.bodies.fetch(event, budget).await {
            Ok(()) => event.body.clone(),
            Err(problem @ (BodyProblem::Unread(_) | BodyProblem::Refused { .. })) => {
                return Err(problem);
            }
            Err(problem @ (BodyProblem::Missing { .. } | BodyProblem::Replaced { .. })) => {
                sqs_text(&problem.to_string()).into()
            }
        };
        Ok(Quarantined {
            sqs_message_id: event.sqs_message_id.clone(),
            event_id: Some(event.event_id.clone()),
            source: event.source.clone(),
            reason: reason.to_owned(),
            body,
        })
    }
}
