//! The index of the log, as the commands read and change it.

use std::collections::{BTreeMap, BTreeSet};

use protocol::batch::BatchRecord;
use protocol::bodies::Bodies;
use protocol::ids::{BatchId, BodyHash, EventId, ObjectId, Seq};
use protocol::limits::{BATCH_LIFE_MAX, RUNS_MAX};
use protocol::log::{
    ENTRY_BYTES, IdHash, IndexSecret, Manifest, Match, Matches, Owner, RunList, RunRef, Tally,
    runs_of,
};
use protocol::time::Timestamp;
use shared::index::{IndexError, IndexStore, OpenIndex, Run, damaged};
use shared::named_items::Versioned;
use shared::ports::PortError;
use shared::retry::Budget;
use uuid::Uuid;

use crate::event_state::{Classification, EventState, classify_entry, classify_primed};
use crate::failure::Failure;
use crate::service::Service;

/// How often a commit is tried that others come before.
pub const COMMITS_MAX: usize = 20;
/// The most bytes of runs that a command keeps to look for further events.
const RUNS_BYTES_MAX: usize = 1 << 30;

/// Entries that are to be committed, each with its owner.
pub type NewEntries = Vec<(Owner, protocol::log::Entry)>;

/// An event that the index remembers.
pub struct Entry {
    /// What became of the event.
    pub classification: Classification,
    /// The record of the batch that this is about; `None` if it is missing, or the event was only primed.
    pub record: Option<BatchRecord>,
    /// The hash of the body with which it won there.
    body: Option<u64>,
    /// Until when the event is primed.
    pub primed_until: Option<Timestamp>,
    /// Where the index is.
    pub bodies: Bodies,
    /// Every entry of a batch.
    of_batches: Vec<Match>,
    secret: IndexSecret,
}

impl Entry {
    /// Returns whether the event won with this body; `None` if its body is not known.
    pub fn has_body(&self, body: &[u8]) -> Option<bool> {
        Some(self.secret.body(BodyHash::of(body)) == self.body?)
    }

    /// Returns whether the entry is of the index with this secret.
    pub fn is_of(&self, secret: IndexSecret) -> bool {
        self.secret == secret
    }

    /// Returns the entries that have the event forgotten.
    pub fn forgetting(&self, id: &EventId) -> NewEntries {
        let forget = |one: &Match| {
            let batch = match one.owner {
                Owner::Batch { batch, .. } => batch,
                Owner::Primed { .. } | Owner::PrimedMessage { .. } | Owner::Forget { .. } => {
                    return None;
                }
            };
            let entry = protocol::log::Entry {
                id: self.secret.id(id),
                owner: 0,
                seq: one.seq,
                message: one.message,
                body: one.body,
            };
            let ends_at = one.owner.ends_at();
            Some((Owner::Forget { batch, ends_at }, entry))
        };
        self.of_batches.iter().filter_map(forget).collect()
    }
}

/// Returns what reads and writes the index.
pub fn store<'a>(service: &'a Service, budget: &'a Budget<'a>) -> IndexStore<'a> {
    IndexStore {
        objects: &*service.object_store,
        named_items: &*service.named_items,
        permits: &service.permits,
        budget,
    }
}

/// Reads a run. Each takes as long as a step may.
async fn read_run(service: &Service, run: &RunRef) -> Result<Run, IndexError> {
    let budget = service.budget();
    store(service, &budget).run(run).await
}

/// Runs that were read, by name. A run never changes.
#[derive(Default)]
pub struct Runs {
    read: BTreeMap<Uuid, Run>,
    bytes: usize,
}

impl Runs {
    /// Reads a run, unless it was read before and is kept.
    async fn get(&mut self, service: &Service, run: &RunRef) -> Result<&Run, IndexError> {
        if !self.read.contains_key(&run.run) {
            let bytes = run.entries as usize * ENTRY_BYTES;
            if self.bytes + bytes > RUNS_BYTES_MAX {
                *self = Runs::default();
            }
            let read = read_run(service, run).await?;
            self.bytes += bytes;
            self.read.insert(run.run, read);
        }
        Ok(&self.read[&run.run])
    }
}

/// Returns what the index remembers of an event; `None` if it does not know it, or there is no index. Reads every run that is not in
/// `runs`.
///
/// # Errors
/// [`IndexError::Damaged`] if an object of the index is missing or damaged.
pub async fn find(
    service: &Service,
    id: &EventId,
    runs: &mut Runs,
) -> Result<Option<Entry>, Failure> {
    let budget = service.budget();
    let index = store(service, &budget);
    let Some(open) = index.read().await? else {
        return Ok(None);
    };
    let list = index.list_for(&open.manifest.value, service.now()).await?;
    let hash = open.secret.id(id);
    let mut matches = Matches::of_ids([hash]);
    for run in runs_with_entries(&list, service.now()) {
        let read = runs.get(service, run).await?;
        let added = matches.add(&read.header.owners, &read.entries);
        added.map_err(|error| damaged(ObjectId::Run(run.run), &error))?;
    }
    let (now, mut primed_until) = (service.now(), None);
    let mut of_batches = Vec::new();
    let mut seats = Vec::new();
    for one in matches.of(hash) {
        match one.owner {
            Owner::Batch { batch, .. } => {
                let record = service.record(batch).await?;
                let seat = classify_entry((batch, one.seq), record.as_ref(), now);
                seats.push((seat, record, one.body));
                of_batches.push(*one);
            }
            Owner::Primed { until } => primed_until = primed_until.max(Some(until)),
            // Of messages only, or of other entries.
            Owner::PrimedMessage { .. } | Owner::Forget { .. } => {}
        }
    }
    let counts = seats.into_iter().max_by_key(|(seat, ..)| weight(seat));
    let (classification, record, body) = match (counts, primed_until) {
        (Some((seat, record, body)), _) => (seat, record, Some(body)),
        (None, Some(until)) => (classify_primed(until, now), None, None),
        (None, None) => return Ok(None),
    };
    Ok(Some(Entry {
        classification,
        record,
        body,
        primed_until,
        bodies: open.manifest.value.bodies.clone(),
        of_batches,
        secret: open.secret,
    }))
}

/// Orders what became of the seats of an event: that of the largest weight counts. An event that is still to be delivered by any batch is
/// live, and one that any batch has it remembered for is delivered; otherwise its latest batch says what became of it.
fn weight(seat: &Classification) -> (u8, Option<Timestamp>) {
    let opened_at = seat.seat.map(|(batch, _)| batch.opened_at());
    match seat.state {
        EventState::Live => (3, opened_at),
        EventState::Unclear => (2, opened_at),
        EventState::Delivered => (1, seat.until),
        EventState::Forgotten
        | EventState::Rejected
        | EventState::SetAside
        | EventState::Orphan
        | EventState::Unknown => (0, opened_at),
    }
}

/// All that the index remembers.
pub struct Contents {
    pub secret: IndexSecret,
    /// The events that won, and were not forgotten.
    pub winners: BTreeSet<(IdHash, BatchId, Seq)>,
    /// The primed events that have not ended.
    pub primed: BTreeSet<IdHash>,
}

/// Returns what the index remembers; `None` if there is no index. Reads every run.
///
/// # Errors
/// [`IndexError::Damaged`] if an object of the index is missing or damaged.
pub async fn contents(service: &Service) -> Result<Option<Contents>, Failure> {
    let budget = service.budget();
    let index = store(service, &budget);
    let Some(open) = index.read().await? else {
        return Ok(None);
    };
    let now = service.now();
    let list = index.list_for(&open.manifest.value, now).await?;
    let mut found = Contents {
        secret: open.secret,
        winners: BTreeSet::new(),
        primed: BTreeSet::new(),
    };
    let mut forgotten = Vec::new();
    for run in runs_with_entries(&list, now) {
        let read = read_run(service, run).await?;
        for entry in read.entries.iter().map(protocol::log::Entry::from_bytes) {
            match read.header.owners.get(entry.owner as usize) {
                Some(Owner::Forget { batch, .. }) => {
                    forgotten.push((entry.id, *batch, entry.seq));
                }
                Some(Owner::Batch { batch, .. }) => {
                    found.winners.insert((entry.id, *batch, entry.seq));
                }
                Some(Owner::Primed { until }) if *until > now => {
                    found.primed.insert(entry.id);
                }
                Some(Owner::Primed { .. } | Owner::PrimedMessage { .. }) | None => {}
            }
        }
    }
    // A merge takes a forgotten entry out together with what forgets it, so what is in no run is not remembered.
    for seat in forgotten {
        found.winners.remove(&seat);
    }
    Ok(Some(found))
}

/// Commits a change of the list, however often others commit before. `change` is called with the present list and returns the next one.
/// If there is no index, it begins with that list: a batch must not be decided by less.
///
/// # Errors
/// Those of `change`; or others always come first.
pub async fn commit(
    service: &Service,
    bodies: &Bodies,
    mut change: impl AsyncFnMut(&OpenIndex, &RunList) -> Result<RunList, Failure>,
) -> Result<(), Failure> {
    for _ in 0..COMMITS_MAX {
        let budget = service.budget();
        let index = store(service, &budget);
        let open = index.read().await?;
        let open = open.unwrap_or_else(|| index.new_index(bodies));
        let list = index.list_for(&open.manifest.value, service.now()).await?;
        let next = change(&open, &list).await?;
        // The change may have stored many runs.
        let budget = service.budget();
        let index = store(service, &budget);
        if next.runs.len() > RUNS_MAX {
            return Err(Failure::Refused(format!(
                "index: list: got {} runs, expected at most {RUNS_MAX}",
                next.runs.len()
            )));
        }
        let manifest = &open.manifest.value;
        let to = index.store_list(manifest, bodies, &next).await?;
        let replaced = match open.manifest.version {
            0 => index.begin_epoch(&Versioned::default(), &to).await?,
            _ => {
                let replace = index.replace_manifest(open.epoch, &open.manifest, &to);
                replace.await?
            }
        };
        if replaced || is_present(&index, &to).await? {
            return Ok(());
        }
    }
    Err(Failure::Refused(format!(
        "index: {COMMITS_MAX} commits were refused, because others came first; try again"
    )))
}

/// Returns whether the present manifest names the list of `written`: the write was applied, and its reply was lost.
pub async fn is_present(index: &IndexStore<'_>, written: &Manifest) -> Result<bool, IndexError> {
    let present = index.read().await?;
    Ok(present.is_some_and(|open| open.manifest.value.list == written.list))
}

/// The error of a command that needs an index.
pub fn no_index() -> Failure {
    Failure::NotFound(
        "index: none: no batch of the log was resolved, and nothing was primed".to_owned(),
    )
}

pub async fn store_entries(
    service: &Service,
    bodies: &Bodies,
    entries: NewEntries,
    tallies: &[Tally],
) -> Result<Vec<RunRef>, IndexError> {
    let mut runs = Vec::new();
    for run in runs_of(entries, tallies) {
        // Each is as much as a step.
        let budget = service.budget();
        let index = store(service, &budget);
        runs.extend(index.store_merged(bodies, run).await?);
    }
    Ok(runs)
}

/// Returns where new objects of the index go: to `given`, or where the manifest says, or where `BODIES` says.
///
/// # Errors
/// None of them says so, or `given` is no place of a log.
pub async fn place(service: &Service, given: Option<&Bodies>) -> Result<Bodies, Failure> {
    if let Some(given) = given {
        return match given.is_log() {
            true => Ok(given.clone()),
            false => Err(Failure::Usage(format!(
                "`--bodies`: got `{given}`, expected `log:table` or `log:s3://bucket/prefix`"
            ))),
        };
    }
    let budget = service.budget();
    let index = store(service, &budget);
    let epoch = index.epoch().await?.value.epoch;
    let manifest = index.manifest_of(epoch).await?;
    let of_manifest = (manifest.version > 0).then_some(manifest.value.bodies);
    let of_stack = service.settings.value("BODIES");
    let of_stack = of_stack.and_then(|text| text.parse().ok());
    let places = [of_manifest, of_stack];
    let place = places.into_iter().flatten().find(Bodies::is_log);
    place.ok_or_else(|| {
        Failure::Usage(
            "`--bodies`: missing: expected `log:table` or `log:s3://bucket/prefix`, because the stack does not use the log yet"
                .to_owned(),
        )
    })
}

impl From<IndexError> for Failure {
    fn from(error: IndexError) -> Failure {
        match error {
            IndexError::Damaged(_) | IndexError::Unreadable(_) => {
                Failure::Service(PortError::Refused {
                    service: "the index of the log",
                    message: error.to_string(),
                })
            }
            IndexError::Port(error) => Failure::Service(error),
        }
    }
}

/// Returns the runs with entries that some line may still be decided by. The objects of others may be gone, although the list names them
/// for their tallies.
fn runs_with_entries(list: &RunList, now: Timestamp) -> impl Iterator<Item = &RunRef> {
    let runs = list.runs.iter();
    runs.filter(move |run| run.entries > 0 && now < run.ends_at + BATCH_LIFE_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seat_that_is_still_to_be_delivered_counts_whichever_batch_was_opened_first() {
        let seat = |state, opened_at: u128, until: Option<u64>| Classification {
            seat: Some((BatchId::new(Uuid::from_u128(opened_at << 80)), 0)),
            until: until.map(Timestamp::from_ms),
            ..Classification::of(state)
        };
        let counts = |seats: &[Classification]| {
            let counts = seats.iter().max_by_key(|seat| weight(seat)).unwrap();
            (counts.state, counts.seat.unwrap().0.opened_at().as_ms())
        };
        let live = seat(EventState::Live, 1, None);
        let unclear = seat(EventState::Unclear, 2, None);
        let delivered = seat(EventState::Delivered, 3, Some(90));
        let delivered_before = seat(EventState::Delivered, 4, Some(80));
        let set_aside = seat(EventState::SetAside, 5, Some(99));
        let forgotten = seat(EventState::Forgotten, 6, Some(1));
        let mut seats = vec![
            forgotten,
            set_aside,
            delivered_before,
            delivered,
            unclear,
            live,
        ];
        let mut found = Vec::new();
        while !seats.is_empty() {
            found.push(counts(&seats));
            seats.pop();
        }
        let expected = [
            (EventState::Live, 1),
            (EventState::Unclear, 2),
            (EventState::Delivered, 3),
            (EventState::Delivered, 4),
            (EventState::Forgotten, 6),
            (EventState::Forgotten, 6),
        ];
        assert_eq!(found, expected);
    }
}
