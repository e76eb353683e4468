//! Reads and removes the bodies that do not fit their lock items.

use std::sync::Arc;

use protocol::claim::Overflow;
use protocol::ids::{BodyHash, EventId};
use protocol::limits::OVERFLOW_CALLS_MAX;
use protocol::retry::RetryPolicy;
use protocol::seqs::SeqSet;
use shared::ports::{OverflowStore, PortError, Ports, StoredEvent};
use shared::retry::{Budget, RequestPermits, bounded};
use tracing::warn;

use crate::reading::HandOverError;

/// Why a body from the overflow store cannot be delivered.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BodyProblem {
    #[error(
        "body of event ‹{event_id}›: missing: got no object at `{object}`; restore the object, or set the batch aside"
    )]
    Missing { event_id: EventId, object: String },
    /// The store refused the request, or the object is not text. A retry would fail too.
    #[error(
        "body of event ‹{event_id}›: {source}; make the object readable, or remove it and set the batch aside"
    )]
    Refused {
        event_id: EventId,
        #[source]
        source: PortError,
    },
    #[error(
        "body of event ‹{event_id}›: `{object}` differs from the claimed body; restore the object, or set the batch aside"
    )]
    Replaced { event_id: EventId, object: String },
    /// A retry may succeed.
    #[error(transparent)]
    Unavailable(PortError),
}

impl From<BodyProblem> for HandOverError {
    fn from(problem: BodyProblem) -> HandOverError {
        match problem {
            BodyProblem::Unavailable(source) => HandOverError::Service(source),
            problem => HandOverError::Permanent(problem.to_string()),
        }
    }
}

/// Reads and removes bodies in the overflow store.
pub(crate) struct OverflowBodies {
    overflow_store: Arc<dyn OverflowStore>,
    permits: Arc<RequestPermits>,
}

impl OverflowBodies {
    pub(crate) fn new(ports: &Ports, permits: Arc<RequestPermits>) -> OverflowBodies {
        OverflowBodies {
            overflow_store: ports.overflow_store.clone(),
            permits,
        }
    }

    /// Fetches the bodies of all events whose bodies are in the overflow store.
    pub(crate) async fn fetch_all(
        &self,
        events: &mut [StoredEvent],
        budget: &Budget<'_>,
    ) -> Result<(), BodyProblem> {
        let stored_apart = events.iter_mut().filter(|event| event.overflow.is_some());
        let fetches = stored_apart
            .map(|event| self.fetch(event, budget))
            .collect();
        let fetched = bounded(fetches, OVERFLOW_CALLS_MAX).await;
        fetched.into_iter().collect()
    }

    /// Fetches the body of an event, if it is in the overflow store.
    pub(crate) async fn fetch(
        &self,
        event: &mut StoredEvent,
        budget: &Budget<'_>,
    ) -> Result<(), BodyProblem> {
        let Some(object) = &event.overflow else {
            return Ok(());
        };
        let get = || self.permits.with(budget, self.overflow_store.get(object));
        let read = budget.call(RetryPolicy::ITEMS, get).await;
        let (event_id, object) = (event.event_id.clone(), object.to_string());
        let read = read.map_err(|source| match source {
            PortError::Refused { .. } => BodyProblem::Refused {
                event_id: event_id.clone(),
                source,
            },
            source => BodyProblem::Unavailable(source),
        })?;
        match read {
            Some(body) if BodyHash::of(body.as_bytes()) == event.body_hash => {
                event.body = body;
                Ok(())
            }
            Some(_) => Err(BodyProblem::Replaced { event_id, object }),
            None => Err(BodyProblem::Missing { event_id, object }),
        }
    }

    /// Removes the bodies of released events. A body that cannot be removed stays until the bucket's lifecycle rule
    /// removes it.
    pub(crate) async fn remove(
        &self,
        events: &[StoredEvent],
        released: &SeqSet,
        budget: &Budget<'_>,
    ) {
        let released = events.iter().filter(|event| released.contains(event.seq));
        let removals = released
            .filter_map(|event| event.overflow.as_ref())
            .map(|object| self.remove_one(object, budget))
            .collect();
        bounded(removals, OVERFLOW_CALLS_MAX).await;
    }

    async fn remove_one(&self, object: &Overflow, budget: &Budget<'_>) {
        let remove = || {
            self.permits
                .with(budget, self.overflow_store.remove(object))
        };
        if let Err(error) = budget.call(RetryPolicy::ITEMS, remove).await {
            warn!(key = object.key, %error, "body of a released claim not removed");
        }
    }
}
