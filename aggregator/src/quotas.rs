//! Places of quotas: reserved before claims are made, and settled when it is known which were.
//!
//! What is settled is kept in memory, and written with the next reservation of the same key and period, or at once if the quota has no
//! place left. If the environment dies before, the places stay reserved until their batches are complete: then the records say which
//! claims were delivered, and whoever needs a place settles them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use protocol::claim::Outcome;
use protocol::ids::BatchId;
use protocol::limits::{QUOTA_BATCHES_MAX, QUOTA_SCOPES_MAX};
use protocol::planted::{Bug, planted};
use protocol::quota::{QuotaAccount, QuotaScope};
use protocol::retry::RetryPolicy;
use protocol::seqs::SeqSet;
use shared::ports::{BatchStore, Ports, QuotaStore};
use shared::retry::{Budget, bounded};
use tracing::warn;

use crate::claim_attempt::Settled;
use crate::config::Config;
use crate::quota::{BeyondQuota, QuotaRule};
use crate::records::Record;
use crate::shared_allocator::Seated;

/// The places of this environment's seats.
pub struct Quotas {
    rule: Option<QuotaRule>,
    quota_store: Arc<dyn QuotaStore>,
    batch_store: Arc<dyn BatchStore>,
    concurrency: usize,
    unwritten: Mutex<BTreeMap<QuotaScope, Unwritten>>,
}

/// What became of seats, and is not in the account yet.
#[derive(Debug, Default)]
struct Unwritten {
    batches: BTreeMap<BatchId, SettledSeats>,
    /// Whether the account had no place left when it was last read.
    is_full: bool,
}

#[derive(Clone, Debug, Default)]
struct SettledSeats {
    claimed: SeqSet,
    free: SeqSet,
}

/// Candidates with seats, and whether their quotas have places for them.
#[derive(Default)]
pub struct Placed<'a> {
    pub with_place: Vec<Seated<'a>>,
    /// Those without a place, each with its outcome if its event is not claimed already.
    pub without: Vec<(Seated<'a>, Outcome)>,
}

impl Quotas {
    pub fn new(config: &Config, ports: &Ports) -> Quotas {
        Quotas {
            rule: config.quota.clone(),
            quota_store: ports.quota_store.clone(),
            batch_store: ports.batch_store.clone(),
            concurrency: config.common.write_concurrency,
            unwritten: Mutex::default(),
        }
    }

    /// Reserves places for the seats of `seated`.
    pub async fn reserve<'a>(
        &self,
        seated: Vec<Seated<'a>>,
        leaders: &[&Record],
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
            match &leaders[one.leader].quota {
                Some(scope) => scopes.entry(scope).or_default().push(one),
                None => placed.with_place.push(one),
            }
        }
        let reserved = scopes
            .into_iter()
            .map(|(scope, seated)| self.reserve_in(scope, seated, rule, budget));
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
        let outcome = match &account {
            // While it is not known of some place whether it is taken, it may still be given back: the message comes again.
            Some(account)
                if account.taken >= rule.events_max || planted(Bug::QuotaBeyondUndecided) =>
            {
                match rule.beyond {
                    BeyondQuota::Quarantine => Outcome::BeyondQuota,
                    BeyondQuota::Wait => Outcome::WaitsForQuota,
                }
            }
            Some(_) | None => Outcome::Failed,
        };
        let has_place = |one: &Seated<'_>| {
            let got = got.get(&one.seat.batch);
            account.is_some() && got.is_some_and(|seqs: &SeqSet| seqs.contains(one.seat.seq))
                || planted(Bug::QuotaUnreserved)
        };
        let (with_place, without): (Vec<_>, Vec<_>) = seated.into_iter().partition(has_place);
        Placed {
            with_place,
            without: without.into_iter().map(|one| (one, outcome)).collect(),
        }
    }

    /// Notes which of the seats that had places hold claims, which are counted, and which are free. Writes that to the accounts without
    /// a place left.
    pub async fn settle(&self, settled: &[Settled], leaders: &[&Record], budget: &Budget<'_>) {
        let Some(rule) = &self.rule else {
            return;
        };
        let full: Vec<QuotaScope> = {
            let mut unwritten = self.unwritten();
            for one in settled {
                let Some(scope) = &leaders[one.leader].quota else {
                    continue;
                };
                let Some(seat) = one.seat.or(one.freed) else {
                    continue;
                };
                let of_scope = unwritten.entry(scope.clone()).or_default();
                let seats = of_scope.batches.entry(seat.batch).or_default();
                match one.seat.is_some() {
                    true => seats.claimed.insert(seat.seq),
                    false => seats.free.insert(seat.seq),
                };
            }
            let full = unwritten
                .iter()
                .filter(|(_, one)| one.is_full && !one.batches.is_empty());
            full.map(|(scope, _)| scope.clone()).collect()
        };
        let writes = full
            .iter()
            .map(|scope| self.update(scope, rule, budget, |_| {}));
        bounded(writes.collect(), self.concurrency).await;
        let mut unwritten = self.unwritten();
        if unwritten.len() > QUOTA_SCOPES_MAX {
            // As if this environment had died: the seats are settled when their batches are complete.
            unwritten.clear();
        }
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
        let settled = {
            let unwritten = self.unwritten();
            let of_scope = unwritten.get(scope);
            of_scope.map_or_else(BTreeMap::new, |one| one.batches.clone())
        };
        let mut round = 0;
        loop {
            let read = || self.quota_store.read(scope);
            let read = budget.call(RetryPolicy::CONTROL, read).await;
            let found = read
                .inspect_err(|error| warn!(%error, "account of a quota not read"))
                .ok()?;
            let mut account = found.clone();
            for (batch, seats) in &settled {
                account.settle(*batch, &seats.claimed, &seats.free);
            }
            if account.is_full(rule.events_max) || account.reserved.len() > QUOTA_BATCHES_MAX {
                self.settle_ended(&mut account, budget).await;
            }
            change(&mut account);
            let written = match account == found {
                true => Ok(true),
                false => {
                    account.version = found.version + 1;
                    let write = || self.quota_store.replace(scope, found.version, &account);
                    budget.call(RetryPolicy::CONTROL, write).await
                }
            };
            match written {
                Ok(true) => {
                    self.written(scope, &settled, account.is_full(rule.events_max));
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

    /// Settles the seats of batches that are complete.
    async fn settle_ended(&self, account: &mut QuotaAccount, budget: &Budget<'_>) {
        let batches: Vec<BatchId> = account.reserved.keys().copied().collect();
        let reads = batches.into_iter().map(|batch| async move {
            let read = || self.batch_store.read(batch);
            let record = budget.call(RetryPolicy::CONTROL, read).await.ok()?;
            Some((batch, record))
        });
        for (batch, record) in bounded(reads.collect(), self.concurrency)
            .await
            .into_iter()
            .flatten()
        {
            account.settle_ended(batch, record.as_ref());
        }
    }

    /// Forgets what was written.
    fn written(
        &self,
        scope: &QuotaScope,
        settled: &BTreeMap<BatchId, SettledSeats>,
        is_full: bool,
    ) {
        let mut unwritten = self.unwritten();
        let of_scope = unwritten.entry(scope.clone()).or_default();
        of_scope.is_full = is_full;
        for (batch, seats) in settled {
            if let Some(rest) = of_scope.batches.get_mut(batch) {
                rest.claimed.remove_from(&seats.claimed);
                rest.free.remove_from(&seats.free);
            }
        }
        let has_seats = |seats: &SettledSeats| !seats.claimed.is_empty() || !seats.free.is_empty();
        of_scope.batches.retain(|_, seats| has_seats(seats));
    }

    fn unwritten(&self) -> std::sync::MutexGuard<'_, BTreeMap<QuotaScope, Unwritten>> {
        self.unwritten
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}
