//! Looks events up in the index of the log.

use protocol::batch::BatchRecord;
use protocol::ids::{BatchId, BodyHash, EventId, ObjectId, Seq};
use protocol::log::{IndexSecret, Manifest, Matches, Owner};
use protocol::retry::RetryPolicy;
use shared::index_run::{decode_list, decode_run};
use shared::named_items::Versioned;
use shared::ports::PortError;
use shared::retry::read_object;

use crate::service::Service;

/// An event that the index remembers.
pub struct Entry {
    pub seat: (BatchId, Seq),
    /// The record of the batch; `None` if it is missing.
    pub record: Option<BatchRecord>,
    secret: IndexSecret,
    body: u64,
}

impl Entry {
    /// Returns whether the event won with this body.
    pub fn has_body(&self, body: &[u8]) -> bool {
        self.secret.body(BodyHash::of(body)) == self.body
    }
}

/// Returns the latest entry of an event; `None` if the index has none, or there is no index. Reads every run.
///
/// # Errors
/// [`PortError::Refused`] if an object of the index is missing or damaged.
pub async fn find(service: &Service, id: &EventId) -> Result<Option<Entry>, PortError> {
    let read = || service.named_items.get(&());
    let manifest: Versioned<Manifest> = service.budget().call(RetryPolicy::CONTROL, read).await?;
    let Manifest { list, bodies, .. } = &manifest.value;
    let (Some(secret), Some(list)) = (manifest.value.secret(), *list) else {
        return Ok(None);
    };
    let object = async |bodies, object| {
        let budget = service.budget();
        let store = &*service.chunk_store;
        let read = read_object(store, bodies, object, &service.permits, &budget).await?;
        read.ok_or_else(|| damaged(object, &format!("missing in `{bodies}`")))
    };
    let name = ObjectId::RunList(list);
    let list = decode_list(&object(bodies, name).await?).map_err(|error| damaged(name, &error))?;
    let hash = secret.id(id);
    let mut matches = Matches::default();
    for run in list.runs.iter().filter(|run| run.entries > 0) {
        let name = ObjectId::Run(run.run);
        let bytes = object(&run.bodies, name).await?;
        let read = decode_run(&bytes, run.hash).map_err(|error| damaged(name, &error))?;
        let (header, entries) = read;
        let added = matches.add(&[hash], &header.owners, &entries);
        added.map_err(|error| damaged(name, &error))?;
    }
    let of_batch = |owner| match owner {
        Owner::Batch { batch, .. } => Some(batch),
        Owner::Primed { .. } | Owner::PrimedMessage { .. } | Owner::Forget { .. } => None,
    };
    let found = matches.of(hash).filter_map(|entry| {
        let batch = of_batch(entry.owner)?;
        Some((batch, entry.seq, entry.body))
    });
    let Some((batch, seq, body)) = found.max_by_key(|(batch, ..)| batch.opened_at()) else {
        return Ok(None);
    };
    Ok(Some(Entry {
        seat: (batch, seq),
        record: service.record(batch).await?,
        secret,
        body,
    }))
}

fn damaged(object: ObjectId, problem: &dyn std::fmt::Display) -> PortError {
    PortError::Refused {
        service: "the index of the log",
        message: format!("object `{object}`: {problem}"),
    }
}
