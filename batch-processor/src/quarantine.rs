//! Sends the events of a batch that is set aside to the quarantine.
//!
//! The lease writes the decision to the batch record, so that the next invocation continues after a crash.
//! Events that were sent and are not in the record yet are sent again: an event that is in the quarantine twice is
//! better than a lost one.

use std::sync::Arc;

use protocol::batch::{BatchRecord, NO_ERROR};
use protocol::seqs::SeqSet;
use shared::ports::{Ports, QuarantineQueue, Quarantined, StoredEvent};
use shared::retry::{Budget, Unsent, send_to_quarantine};
use shared::sqs_text::sqs_text;

use crate::overflow_bodies::{BodyProblem, OverflowBodies};
use crate::reading::{HandOverError, Lost, ReadEvents};

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
    /// Their seats, and those of lost events that the quarantine has a message about.
    pub(crate) seqs: SeqSet,
    /// How many messages, each of an event or about a lost object, may not be in the quarantine.
    pub(crate) unsent_count: usize,
    /// Why the queue refused one of them permanently.
    pub(crate) refused: Option<String>,
}

impl Sent {
    fn not_sent(&mut self, unsent: Unsent, what: impl FnOnce() -> String) {
        self.unsent_count += 1;
        if let (Unsent::Refused(error), None) = (unsent, &self.refused) {
            self.refused = Some(format!("quarantine of {}: {error}", what()));
        }
    }
}

/// Returns the message about a lost object. Nothing but the seats of its events is known.
fn notice(lost: &Lost, record: &BatchRecord, reason: &str) -> Quarantined {
    let name = lost.object.to_string();
    Quarantined {
        sqs_message_id: name.parse().expect("the name of an object is a short text"),
        event_id: None,
        source: record.source.clone(),
        reason: reason.to_owned(),
        body: sqs_text(&lost.to_string()).into(),
        attributes: None,
    }
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

    /// Sends events of this batch, which is being set aside. For each lost object, sends a message that says so.
    pub(crate) async fn send(
        &self,
        read: ReadEvents,
        record: &BatchRecord,
        budget: &Budget<'_>,
    ) -> Result<Sent, HandOverError> {
        let Some(queue) = self.queue.as_deref() else {
            let error = "quarantine: no queue: `QUARANTINE_SQS_URL` is no longer set; set it, and send a ticket again";
            return Err(HandOverError::Permanent(error.to_owned()));
        };
        let reason = record.quarantine.as_deref().unwrap_or(NO_ERROR);
        let ReadEvents {
            mut events, lost, ..
        } = read;
        let mut messages = Vec::with_capacity(lost.len() + events.len());
        messages.extend(lost.iter().map(|lost| notice(lost, record, reason)));
        for event in &mut events {
            messages.push(self.message(event, reason, budget).await?);
        }
        let replies = send_to_quarantine(queue, &messages, self.concurrency, budget).await;
        let mut replies = replies.into_iter();
        let mut sent = Sent {
            events: Vec::with_capacity(events.len()),
            seqs: SeqSet::new(),
            unsent_count: 0,
            refused: None,
        };
        for (lost, reply) in lost.iter().zip(replies.by_ref()) {
            match reply {
                Ok(()) => sent.seqs.extend_from(&lost.seqs),
                Err(unsent) => sent.not_sent(unsent, || format!("`{}`", lost.object)),
            }
        }
        for (event, reply) in events.into_iter().zip(replies) {
            match reply {
                Ok(()) => {
                    sent.seqs.insert(event.seq);
                    sent.events.push(event);
                }
                Err(unsent) => sent.not_sent(unsent, || format!("event ‹{}›", event.event_id)),
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
            Err(problem @ (BodyProblem::Unavailable(_) | BodyProblem::Refused { .. })) => {
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
            attributes: event.attributes.clone(),
        })
    }
}
