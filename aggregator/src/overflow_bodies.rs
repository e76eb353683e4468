//! Stores and removes the bodies that do not fit their lock items.

use std::sync::Arc;

use protocol::claim::Outcome;
use protocol::limits::OVERFLOW_CALLS_MAX;
use protocol::retry::RetryPolicy;
use shared::ports::{OverflowStore, Ports};
use shared::retry::{Budget, RequestPermits, bounded};
use tracing::warn;

use crate::claim_attempt::{ClaimAttempt, ClaimResult, Seated, State};

/// Stores bodies before their claims are written, and removes those whose claims were not written.
pub struct OverflowBodies {
    overflow_store: Arc<dyn OverflowStore>,
    permits: Arc<RequestPermits>,
}

impl OverflowBodies {
    pub fn new(ports: &Ports, permits: Arc<RequestPermits>) -> OverflowBodies {
        OverflowBodies {
            overflow_store: ports.overflow_store.clone(),
            permits,
        }
    }

    /// Stores the bodies that do not fit their lock items. Must come before the claims, which name the objects. An attempt
    /// whose body was not stored has the outcome `Failed` afterwards.
    pub async fn store(&self, attempts: &mut [ClaimAttempt<'_>], budget: &Budget<'_>) {
        let large = attempts
            .iter_mut()
            .filter(|attempt| attempt.overflow.is_some());
        let stores = large
            .map(|attempt| self.store_one(attempt, budget))
            .collect();
        bounded(stores, OVERFLOW_CALLS_MAX).await;
    }

    async fn store_one(&self, attempt: &mut ClaimAttempt<'_>, budget: &Budget<'_>) {
        let Some(object) = &attempt.overflow else {
            return;
        };
        let body = &attempt.seated.candidate.body;
        let put = || {
            let request = self.overflow_store.put(object, body);
            self.permits.with(budget, request)
        };
        if let Err(error) = budget.call(RetryPolicy::ITEMS, put).await {
            let Seated {
                candidate, seat, ..
            } = &attempt.seated;
            warn!(batch_id = %seat.batch, seq = seat.seq, event_id = %candidate.event_id, %error, "body not stored");
            attempt.state = State::Done(Outcome::Failed, None);
        }
    }

    /// Removes the bodies whose claims were not written and never will be. A body that cannot be removed stays until the
    /// bucket's lifecycle rule removes it.
    pub async fn remove_unused(&self, results: &mut [ClaimResult], budget: &Budget<'_>) {
        let unused = results.iter_mut().filter_map(|one| one.unused.take());
        let removals = unused
            .map(|object| async move {
                let remove = || {
                    let request = self.overflow_store.remove(&object);
                    self.permits.with(budget, request)
                };
                if let Err(error) = budget.call(RetryPolicy::ITEMS, remove).await {
                    warn!(key = object.key, %error, "unused body not removed");
                }
            })
            .collect();
        bounded(removals, OVERFLOW_CALLS_MAX).await;
    }
}
