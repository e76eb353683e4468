//! Sends events to the quarantine, when an operator set their batch aside.
//!
//! The lease writes the operator's decision to the batch record, so that the next invocation continues after a crash.
//! Events that were sent and are not in the record yet are sent again: an event that is in the quarantine twice is
//! better than a lost one.

use std::sync::Arc;

use shared::ports::{Ports, QuarantineQueue, Quarantined, StoredEvent};
use shared::retry::{Budget, Unsent, send_to_quarantine};
use shared::sqs_text::sqs_text;

use crate::overflow_bodies::{BodyProblem, HandOverError, OverflowBodies};

/// Sends events to the quarantine queue, if there is one.
pub(crate) struct Quarantine {
    queue: Option<Arc<dyn QuarantineQueue>>,
    bodies: Arc<OverflowBodies>,
    concurrency: usize,
}

/// The result of sending events.
#[derive(Debug)]
pub(crate) struct Sent {
    /// The events that are in the quarantine.
    pub(crate) events: Vec<StoredEvent>,
    /// How many events may not be in the quarantine.
    pub(crate) unsent_count: usize,
    /// Why the queue refused one of them for good.
    pub(crate) refused: Option<String>,
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
    ) -> Result<Sent, HandOverError> {
        let Some(queue) = self.queue.as_deref() else {
            let error = "quarantine: no queue: `QUARANTINE_SQS_URL` is no longer set; set it, and send a ticket again";
            return Err(HandOverError::Permanent(error.to_owned()));
        };
        let mut messages = Vec::with_capacity(events.len());
        for event in &mut events {
            messages.push(self.message(event, reason, budget).await?);
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

    /// Returns the quarantine message of an event. If the body is missing from the overflow store or was changed, which
    /// may be why the batch is in error, the message has the error text instead of the body.
    ///
    /// # Errors
    /// [`BodyProblem`] if the body may exist but could not be read. Sending a text instead would lose the body, because it
    /// is removed with the claim.
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
