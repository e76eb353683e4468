//! Places of quotas: reserved before claims are made, and taken or given back when their results are known.
//!
//! An account is written twice for each key, period and invocation. If the environment dies between, the places stay reserved until
//! their batches are complete: then the records say which claims were delivered, and the next aggregator that needs a place finishes them. What could not
//! be written is kept, and written with the next reservation of the same key and period.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use protocol::batch::BatchRecord;
use protocol::claim::Outcome;
use protocol::ids::{BatchId, Seat};
use protocol::limits::{QUOTA_BATCHES_MAX, QUOTA_SCOPES_MAX, QUOTA_SETTLE_TIME_MAX};
use protocol::quota::{QuotaAccount, QuotaScope};
use protocol::retry::RetryPolicy;
use protocol::seqs::SeqSet;
use shared::named_items::Versioned;
use shared::ports::{BatchStore, NamedItems, Ports};
use shared::retry::{Budget, bounded};
use tracing::warn;

use crate::claim_attempt::{ClaimAttempt, ClaimResult, SeatPlace, Seated};
use crate::config::Config;
use crate::quota::QuotaRule;
use crate::records::Record;

/// The places of this environment's seats.
pub struct Quotas {
    rule: Option<QuotaRule>,
    named_items: Arc<dyn NamedItems>,
    batch_store: Arc<dyn BatchStore>,
    concurrency: usize,
    /// Results that are not in the accounts yet.
    unwritten: Mutex<BTreeMap<QuotaScope, ResolvedPlaces>>,
}

/// The resolved seats of some batches.
type ResolvedPlaces = BTreeMap<BatchId, ResolvedSeats>;

#[derive(Clone, Debug, Default)]
struct ResolvedSeats {
    claimed: SeqSet,
    free: SeqSet,
}

/// Candidates with seats, and whether their quotas have places for them.
#[derive(Default)]
pub struct Placed<'a> {
    pub with_place: Vec<Seated<'a>>,
    pub without: Vec<(Seated<'a>, SeatPlace)>,
}

impl Quotas {
    pub fn new(config: &Config, ports: &Ports) -> Quotas {
        Quotas {
            rule: config.quota.clone(),
            named_items: ports.named_items.clone(),
            batch_store: ports.batch_store.clone(),
            concurrency: config.common.write_concurrency,
            unwritten: Mutex::default(),
        }
    }

    /// Reserves places for the seats of `seated`.
    pub async fn reserve<'a>(
        &self,
        seated: Vec<Seated<'a>>,
        firsts: &[&Record],
        budget: &Budget<'_>,
    ) -> Placed<'a> {
        let Some(rule) = &self.rule else {
            return Placed {
                with_place: seated,
                without: Vec::new(),
            };
        };
        let mut placed = Placed::default();
        let mut scopes: BTreeMap<&QuotaScope, Vec<Seated<'a>>> = BTreeMap::new();
        for one in seated {
            match &firsts[one.first].candidate.quota {
                Some(scope) => scopes.entry(scope).or_default().push(one),
                None => placed.with_place.push(one),
            }
        }
        // The claims of the others need time too.
        let half = budget.half();
        let reserved = scopes
            .into_iter()
            .map(|(scope, seated)| self.reserve_in(scope, seated, rule, &half));
        for one in bounded(reserved.collect(), self.concurrency).await {
            placed.with_place.extend(one.with_place);
            placed.without.extend(one.without);
        }
        placed
    }

    async fn reserve_in<'a>(
        &self,
        scope: &QuotaScope,
        seated: Vec<Seated<'a>>,
        rule: &QuotaRule,
        budget: &Budget<'_>,
    ) -> Placed<'a> {
        let mut seats: BTreeMap<BatchId, SeqSet> = BTreeMap::new();
        for one in &seated {
            let of_batch = seats.entry(one.seat.batch).or_default();
            of_batch.insert(one.seat.seq);
        }
        let mut got = BTreeMap::new();
        let account = self
            .update(scope, rule, budget, |account| {
                got = seats
                    .iter()
                    .map(|(batch, seqs)| {
                        (
                            *batch,
                            account.reserve(*batch, seqs.iter(), rule.events_max),
                        )
                    })
                    .collect();
            })
            .await;
        // While it is not known of some place whether it is taken, it may still be given back: the message comes again.
        let all_taken = account
            .as_ref()
            .is_some_and(|account| account.taken >= rule.events_max);
        let none = match (all_taken, account.is_some()) {
            (true, _) => SeatPlace::None(Outcome::BeyondQuota),
            (false, true) => SeatPlace::None(Outcome::Failed),
            (false, false) => SeatPlace::Unknown,
        };
        let has_place = |one: &Seated<'_>| {
            let got = got.get(&one.seat.batch);
            account.is_some() && got.is_some_and(|seqs: &SeqSet| seqs.contains(one.seat.seq))
        };
        let (with_place, without): (Vec<_>, Vec<_>) = seated.into_iter().partition(has_place);
        Placed {
            with_place,
            without: without.into_iter().map(|one| (one, none)).collect(),
        }
    }

    /// Gives back the reserved places of attempts that take other places over. An attempt whose account could not be written keeps
    /// both for now, and so may not make its claim.
    pub async fn give_back(&self, attempts: &mut [ClaimAttempt<'_>], budget: &Budget<'_>) {
        let hold_two = attempts.iter_mut();
        let mut hold_two: Vec<_> = hold_two
            .filter(|attempt| attempt.holds_two_places() && !attempt.unanswered)
            .collect();
        let freed = hold_two.iter().filter_map(|attempt| {
            let Seated {
                candidate, seat, ..
            } = &attempt.seated;
            Some((candidate.quota.as_ref()?, *seat, false))
        });
        let written = self.write(freed, budget).await;
        for attempt in &mut hold_two {
            let scope = attempt.seated.candidate.quota.as_ref();
            if scope.is_some_and(|scope| written.contains(scope)) {
                attempt.place = SeatPlace::None(Outcome::Failed);
            }
        }
    }

    /// Finishes the seats that had places: seats with claims, which are counted, and free seats.
    pub async fn finish(&self, results: &[ClaimResult], firsts: &[&Record], budget: &Budget<'_>) {
        let seats = results.iter().filter_map(|one| {
            let scope = firsts[one.first].candidate.quota.as_ref()?;
            let claimed = one.claimed();
            Some((scope, claimed.or(one.freed())?, claimed.is_some()))
        });
        // The messages are classified already, and their responses wait.
        self.write(seats, &budget.within(QUOTA_SETTLE_TIME_MAX))
            .await;
    }

    /// Writes what became of seats, each with its scope and whether it has a claim. Returns the scopes whose accounts were written. The
    /// others are written with the next reservation.
    async fn write<'s>(
        &self,
        seats: impl Iterator<Item = (&'s QuotaScope, Seat, bool)>,
        budget: &Budget<'_>,
    ) -> BTreeSet<&'s QuotaScope> {
        let Some(rule) = &self.rule else {
            return BTreeSet::new();
        };
        let mut scopes = BTreeSet::new();
        {
            let mut unwritten = self.unwritten();
            if unwritten.len() >= QUOTA_SCOPES_MAX {
                // As if this environment had died: the places are taken or given back when their batches are complete.
                unwritten.clear();
            }
            for (scope, seat, is_claimed) in seats {
                scopes.insert(scope);
                let of_scope = unwritten.entry(scope.clone()).or_default();
                let seats = of_scope.entry(seat.batch).or_default();
                match is_claimed {
                    true => seats.claimed.insert(seat.seq),
                    false => seats.free.insert(seat.seq),
                };
            }
        }
        let writes = scopes.into_iter().map(|scope| async move {
            let written = self.update(scope, rule, budget, |_| {}).await;
            written.is_some().then_some(scope)
        });
        let written = bounded(writes.collect(), self.concurrency).await;
        written.into_iter().flatten().collect()
    }

    /// Changes the account of a scope, and writes to it what is known of seats since. Returns the account; `None` if it could not be
    /// written in time.
    async fn update(
        &self,
        scope: &QuotaScope,
        rule: &QuotaRule,
        budget: &Budget<'_>,
        mut change: impl FnMut(&mut QuotaAccount),
    ) -> Option<QuotaAccount> {
        let resolved = self.unwritten().get(scope).cloned().unwrap_or_default();
        let mut ended: Option<Vec<(BatchId, Option<BatchRecord>)>> = None;
        let mut round = 0;
        loop {
            let read = || self.named_items.get(scope);
            let read = budget.call(RetryPolicy::CONTROL, read).await;
            let found: Versioned<QuotaAccount> = read
                .inspect_err(|error| warn!(%error, "account of a quota not read"))
                .ok()?;
            let mut account = found.value.clone();
            for (batch, seats) in &resolved {
                account.finish(*batch, &seats.claimed, &seats.free);
            }
            if account.is_full(rule.events_max) || account.reserved.len() > QUOTA_BATCHES_MAX {
                if ended.is_none() {
                    ended = Some(self.read_batches(&account, budget).await);
                }
                // A complete batch never changes, so its record holds for a later read of the account as well.
                for (batch, record) in ended.iter().flatten() {
                    account.finish_ended(*batch, record.as_ref());
                }
            }
            change(&mut account);
            let written = match account == found.value {
                true => Ok(true),
                false => {
                    let write = || self.named_items.replace(scope, &found, &account);
                    budget.call(RetryPolicy::CONTROL, write).await
                }
            };
            match written {
                Ok(true) => {
                    self.written(scope, &resolved);
                    return Some(account);
                }
                // Another environment wrote it, or an attempt without a reply did.
                Ok(false) => {}
                Err(error) => {
                    warn!(%error, "account of a quota not written");
                    return None;
                }
            }
            round += 1;
            if !budget.pause(RetryPolicy::CONTROL, round).await {
                return None;
            }
        }
    }

    /// Reads the records of the oldest batches with reserved seats.
    async fn read_batches(
        &self,
        account: &QuotaAccount,
        budget: &Budget<'_>,
    ) -> Vec<(BatchId, Option<BatchRecord>)> {
        let mut records = Vec::new();
        // One after the other, because many accounts may be written at once. Batch ids are in the order of their opening.
        for batch in account.reserved.keys().take(QUOTA_BATCHES_MAX) {
            let read = || self.batch_store.read(*batch);
            if let Ok(record) = budget.call(RetryPolicy::CONTROL, read).await {
                records.push((*batch, record));
            }
        }
        records
    }

    /// Forgets what was written.
    fn written(&self, scope: &QuotaScope, resolved: &ResolvedPlaces) {
        let mut unwritten = self.unwritten();
        let Some(of_scope) = unwritten.get_mut(scope) else {
            return;
        };
        for (batch, seats) in resolved {
            if let Some(rest) = of_scope.get_mut(batch) {
                rest.claimed.remove_from(&seats.claimed);
                rest.free.remove_from(&seats.free);
            }
        }
        of_scope.retain(|_, seats| !seats.claimed.is_empty() || !seats.free.is_empty());
        if of_scope.is_empty() {
            unwritten.remove(scope);
        }
    }

    fn unwritten(&self) -> MutexGuard<'_, BTreeMap<QuotaScope, ResolvedPlaces>> {
        self.unwritten
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}
