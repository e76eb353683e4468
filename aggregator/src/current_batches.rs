//! The current batches that an environment remembers: static state, which all its invocations share.
//!
//! It saves reads and writes. No promise depends on it, because a batch that takes no reservations refuses them.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use protocol::claim::{Candidate, ExistingClaim};
use protocol::ids::BatchId;
use protocol::limits::KNOWN_CLAIMS_MAX;
use protocol::scope::{BatchScope, CurrentBatch};
use protocol::time::Timestamp;

use crate::remembered_claims::RememberedClaims;

/// The current batches that an environment remembers.
#[derive(Debug, Default)]
pub struct CurrentBatches(Mutex<BTreeMap<BatchScope, Known>>);

#[derive(Debug)]
struct Known {
    current: CurrentBatch,
    /// The last reservation in it, as far as the environment knows.
    last_at: Timestamp,
    /// The claims that the environment made in it.
    claims: RememberedClaims,
}

impl CurrentBatches {
    fn known(&self) -> MutexGuard<'_, BTreeMap<BatchScope, Known>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Remembers a batch as the current one of its scope. If there are `keys_max`, forgets those whose window has ended.
    pub(crate) fn remember(&self, current: &CurrentBatch, keys_max: usize, now: Timestamp) {
        let mut known = self.known();
        if known.len() >= keys_max {
            known.retain(|_, known| known.current.is_open_at(now));
        }
        match known.get_mut(&current.scope) {
            Some(known) if known.current.batch == current.batch => known.last_at = now,
            Some(_) | None => {
                let one = Known {
                    current: current.clone(),
                    last_at: now,
                    claims: RememberedClaims::default(),
                };
                known.insert(current.scope.clone(), one);
            }
        }
    }

    pub(crate) fn forget(&self, batch: BatchId) {
        self.known().retain(|_, known| known.current.batch != batch);
    }

    /// Returns the batch of a scope.
    pub(crate) fn of(&self, scope: &BatchScope) -> Option<CurrentBatch> {
        self.known().get(scope).map(|known| known.current.clone())
    }

    /// Returns all batches, those whose window has ended among them.
    pub(crate) fn all(&self) -> Vec<CurrentBatch> {
        let known = self.known();
        known.values().map(|known| known.current.clone()).collect()
    }

    /// Notes that a batch got a reservation.
    pub(crate) fn reserved(&self, current: &CurrentBatch, at: Timestamp) {
        if let Some(known) = self.known().get_mut(&current.scope) {
            known.last_at = known.last_at.max(at);
        }
    }

    /// Returns the batches of which the environment knows no reservation after `since`.
    pub(crate) fn idle(&self, since: Timestamp) -> Vec<CurrentBatch> {
        let known = self.known();
        let idle = known.values().filter(|known| known.last_at <= since);
        idle.map(|known| known.current.clone()).collect()
    }

    /// Returns which of `scopes` may have a batch: no more with a key or a period than `keys_max` at once.
    pub(crate) fn admitted(
        &self,
        scopes: &[&BatchScope],
        keys_max: usize,
        now: Timestamp,
    ) -> Vec<bool> {
        let known = self.known();
        let is_open = |known: &Known| known.current.is_open_at(now);
        let of_many = known.iter().filter(|(scope, _)| scope.is_one_of_many());
        let open_count = of_many.filter(|(_, known)| is_open(known)).count();
        let mut room = keys_max.saturating_sub(open_count);
        let admit = |scope: &&BatchScope| {
            let is_new = scope.is_one_of_many() && !known.get(*scope).is_some_and(is_open);
            let is_admitted = !is_new || room > 0;
            room -= usize::from(is_new && is_admitted);
            is_admitted
        };
        scopes.iter().map(admit).collect()
    }

    /// Returns how each candidate relates to a claim that the environment made in this batch; `None` if only the lock table can tell. The
    /// caller must know that the batch was open after the message came.
    pub(crate) fn existing<'a>(
        &self,
        current: &CurrentBatch,
        candidates: impl Iterator<Item = &'a Candidate>,
    ) -> Vec<Option<ExistingClaim>> {
        let known = self.known();
        let of_scope = known.get(&current.scope);
        let of_batch = of_scope.filter(|known| known.current.batch == current.batch);
        candidates
            .map(|candidate| of_batch?.claims.existing(candidate))
            .collect()
    }

    /// Remembers claims in a batch whose slots are filled.
    pub(crate) fn remember_claims<'a>(
        &self,
        current: &CurrentBatch,
        claimed: impl Iterator<Item = &'a Candidate>,
    ) {
        let mut known = self.known();
        let count: usize = known.values().map(|known| known.claims.len()).sum();
        let of_scope = known.get_mut(&current.scope);
        if let Some(known) = of_scope.filter(|known| known.current.batch == current.batch) {
            for candidate in claimed.take(KNOWN_CLAIMS_MAX.saturating_sub(count)) {
                known.claims.add(candidate);
            }
        }
    }
}
