//! `batchctl rebuild-dedup`.

use std::fmt;

use clap::Args;
use protocol::batch::{BatchRecord, PartState};
use protocol::bodies::Bodies;
use protocol::ids::Seq;
use protocol::limits::{
    CLOCK_SKEW_MAX, DECIDED_WITHIN, LOG_RECORD_RETENTION, QUOTA_EVENT_AHEAD_MAX, QUOTA_PERIOD_MAX,
    QUOTA_TALLY_RETENTION,
};
use protocol::log::{IndexEpoch, IndexSecret, Manifest, Owner, RunList, Tallies};
use protocol::quota::Place;
use protocol::text::counted;
use protocol::time::Timestamp;
use serde::Serialize;
use shared::index::{IndexError, line_of};
use shared::named_items::Versioned;

use crate::change::{ChangeArgs, NOTHING_IS_CHANGED};
use crate::commands::dedup::retry_batches;
use crate::failure::{Done, Failure};
use crate::interrupt::Interrupt;
use crate::log_index::{NewEntries, is_present, no_index, place, store, store_entries};
use crate::object_events::read_each;
use crate::outcome::Output;
use crate::service::Service;

#[derive(Args)]
pub struct RebuildArgs {
    /// Where the new index is stored [default: where the loads of the latest batch are]
    #[arg(long, value_name = "BODIES")]
    pub bodies: Option<Bodies>,
    #[command(flatten)]
    pub change: ChangeArgs,
}

/// What `rebuild-dedup` prints.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Rebuilt {
    batches: usize,
    entries: usize,
    /// Why events of batches could not be read. They are not remembered.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    unread: Vec<String>,
    done: bool,
}

/// What is left of an index.
struct Left {
    epoch: Versioned<IndexEpoch>,
    manifest: Versioned<Manifest>,
}

/// The winners of all batches.
#[derive(Default)]
struct Winners {
    batches: usize,
    entries: NewEntries,
    /// A place for each winner with a quota that was, or may be, delivered.
    tallies: Tallies,
    unread: Vec<String>,
    /// The `BODIES` of the latest batch.
    bodies: Option<Bodies>,
    /// The latest end of events that need not be remembered any more.
    left_out_until: Timestamp,
}

/// Makes the index anew from the records and loads of all batches, if its manifest or its list is lost. Events that were forgotten or
/// primed are not among them.
pub async fn run(
    service: &Service,
    args: &RebuildArgs,
    interrupt: &Interrupt,
    output: Output<'_>,
) -> Result<Done, Failure> {
    let operator = args.change.operator()?;
    let left = Left::of(service).await?;
    let former = &left.manifest.value;
    let manifest = Manifest {
        secret: match former.secret() {
            Some(_) => former.secret.clone(),
            None => service.entropy.secret().to_vec(),
        },
        ..Manifest::default()
    };
    let secret = manifest.secret().expect("a secret has 32 bytes");
    let winners = Winners::of(service, secret).await?;
    let bodies = args.bodies.as_ref().or(winners.bodies.as_ref());
    let bodies = place(service, bodies).await?;
    let mut rebuilt = Rebuilt {
        batches: winners.batches,
        entries: winners.entries.len(),
        unread: winners.unread,
        done: false,
    };
    if operator.is_none() {
        return args.change.only_shown(output, &rebuilt, NOTHING_IS_CHANGED);
    }
    let tallies = winners.tallies.into_sums();
    let list = RunList {
        runs: store_entries(service, &bodies, winners.entries, &tallies).await?,
        left_out_until: winners.left_out_until,
        counted_from: counted_from(service.now()),
    };
    left.replace(service, &bodies, &manifest, &list).await?;
    rebuilt.done = true;
    output.print(&rebuilt, &rebuilt);
    retry_batches(service, &args.change, interrupt, output).await
}

impl Left {
    /// Returns what is left.
    ///
    /// # Errors
    /// The index can be read, or there never was one.
    async fn of(service: &Service) -> Result<Left, Failure> {
        let budget = service.budget();
        let index = store(service, &budget);
        let epoch = index.epoch().await?;
        let manifest = index.manifest_of(epoch.value.epoch).await?;
        let (bodies, list) = (&manifest.value.bodies, manifest.value.list);
        match (manifest.value.secret(), list) {
            _ if epoch.version == 0 => Err(no_index()),
            (None, _) => Ok(Left { epoch, manifest }),
            (Some(_), None) => Err(Failure::Refused(
                "index: it has no entries to lose".to_owned(),
            )),
            (Some(_), Some(list)) => match index.list(bodies, list).await {
                Err(IndexError::Damaged(_)) => Ok(Left { epoch, manifest }),
                Err(error) => Err(error.into()),
                Ok(list) => Err(Failure::Refused(format!(
                    "index: its list can be read: {}; `drop-run` takes out one that cannot",
                    counted(list.runs.len() as u64, "run")
                ))),
            },
        }
    }

    /// Replaces the damaged index by the new one. A lost manifest is not replaced under its name: an invocation that has read it
    /// and still runs would take the new one for it.
    async fn replace(
        &self,
        service: &Service,
        bodies: &Bodies,
        manifest: &Manifest,
        list: &RunList,
    ) -> Result<(), Failure> {
        let budget = service.budget();
        let index = store(service, &budget);
        let to = index.store_list(manifest, bodies, list).await?;
        let epoch = self.epoch.value.epoch;
        let replaced = match self.manifest.value.secret() {
            Some(_) => index.replace_manifest(epoch, &self.manifest, &to).await?,
            None => index.begin_epoch(&self.epoch, &to).await?,
        };
        match replaced || is_present(&index, &to).await? {
            true => Ok(()),
            false => Err(Failure::Refused(
                "index: changed since it was read; look again".to_owned(),
            )),
        }
    }
}

impl Winners {
    /// Reads the winners of all batches that may still have to be remembered, and of all others that there are: those took places too.
    ///
    /// # Errors
    /// [`Failure::Refused`] if a batch is being decided: it may have committed to the index that is lost, and not noted it yet.
    async fn of(service: &Service, secret: IndexSecret) -> Result<Winners, Failure> {
        let now = service.now();
        let mut winners = Winners {
            // Records of batches that were complete before may be gone.
            left_out_until: now.saturating_sub(LOG_RECORD_RETENTION),
            ..Winners::default()
        };
        let mut batches = service.catalogue.of_log().await?;
        batches.sort_unstable_by_key(|batch| batch.opened_at());
        for batch in batches {
            let Some(record) = service.record(batch).await? else {
                continue;
            };
            if !record.bodies.is_log() {
                continue;
            }
            winners.bodies = Some(record.bodies.clone());
            if !record.is_resolved() {
                if let Some(until) = held(&record, now) {
                    let secs = now.until(until).as_secs() + 1;
                    return Err(Failure::Refused(format!(
                        "batch `{batch}`: it is being decided for another {secs} s at most; try again then"
                    )));
                }
                continue;
            }
            let owner = Owner::batch(batch, record.created_at, record.dedup_window);
            let owner = owner.with_events_end(|_| Some(&record));
            let has_entries = now < owner.events_end_at() + DECIDED_WITHIN;
            if !has_entries {
                winners.left_out_until = winners.left_out_until.max(owner.events_end_at());
            }
            winners.batches += usize::from(has_entries);
            let owner = has_entries.then_some(owner);
            winners.add(service, &record, owner, secret).await?;
        }
        Ok(winners)
    }

    async fn add(
        &mut self,
        service: &Service,
        record: &BatchRecord,
        owner: Option<Owner>,
        secret: IndexSecret,
    ) -> Result<(), Failure> {
        let Winners {
            entries, tallies, ..
        } = self;
        let now = service.now();
        let problems = read_each(service, record, &record.claimed, |event| {
            // When its load was stored does not matter any more.
            let line = line_of(secret, &event, record.created_at);
            let is_delivered = delivery_of(record, line.seq);
            let quota = line.quota.filter(|_| is_delivered != Some(false));
            if let Some(quota) = quota.filter(|quota| now < quota.ends_at) {
                tallies.take(quota);
            }
            let kept = quota.filter(|_| is_delivered == Some(true));
            let place = kept.map(|quota| Place {
                account: quota.account,
                taken_in: None,
            });
            entries.extend(owner.map(|owner| (owner.with_place(place), line.entry())));
        });
        // Of a batch whose events have ended, the loads may be gone.
        let problems = problems.await?.into_iter().filter(|_| owner.is_some());
        let batch = record.batch_id;
        self.unread
            .extend(problems.map(|problem| format!("batch `{batch}`: {problem}")));
        Ok(())
    }
}

/// Returns whether the event of a seat was or may still be delivered; `None` if it was set aside and the sink may have it.
///
/// An event that was rejected or set aside loses its place, and takes another one when it is redriven: another winner may have taken the
/// place over, or the batch was set aside undecided, so that all its lines are winners, and took no places.
fn delivery_of(record: &BatchRecord, seq: Seq) -> Option<bool> {
    let part = record.parts.iter().find(|part| part.members.contains(seq));
    let is_frozen = part.is_some_and(|part| part.state == PartState::Frozen);
    let is_delivered = record.delivered.contains(seq)
        || part.is_some_and(|part| matches!(part.state, PartState::Delivered { .. }));
    let is_set_aside = record.set_aside.contains(seq);
    if is_delivered || record.quarantine.is_none() {
        return Some(!is_set_aside);
    }
    // The record does not keep the members of a part that was set aside.
    let mut parts = record.parts.iter();
    let may_be_member = is_set_aside && parts.any(|part| part.state == PartState::SetAside);
    match is_frozen || may_be_member {
        true => None,
        false => Some(false),
    }
}

/// Returns from which end of a tally on all places of an account are known. Winners of others may have been of batches whose records have
/// expired.
fn counted_from(now: Timestamp) -> Timestamp {
    let first_won = now.saturating_sub(LOG_RECORD_RETENTION);
    first_won + QUOTA_EVENT_AHEAD_MAX + QUOTA_PERIOD_MAX + QUOTA_TALLY_RETENTION
}

/// Returns until when a batch may be decided under its lease, by whatever clock; `None` if it is not.
fn held(record: &BatchRecord, now: Timestamp) -> Option<Timestamp> {
    let until = record.lease.as_ref()?.until + CLOCK_SKEW_MAX;
    (until > now).then_some(until)
}

impl fmt::Display for Rebuilt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let batches = counted(self.batches as u64, "batch");
        let entries = counted(self.entries as u64, "entry");
        writeln!(f, "index    {entries} of {batches}")?;
        for problem in &self.unread {
            writeln!(f, "not read {problem}")?;
        }
        match self.done {
            true => writeln!(
                f,
                "rebuilt: batches in error because of the index are tried again. Repeat every earlier `forget` and `prime`"
            ),
            false => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests;
