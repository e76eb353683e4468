//! Witnesses: seats whose claims an acknowledgement relies on, in the records of their batches. A batch cannot complete without them.

use std::collections::BTreeMap;
use std::sync::Arc;

use protocol::batch::{BatchRecord, BatchWrite};
use protocol::ids::BatchId;
use protocol::seqs::SeqSet;
use shared::ports::{BatchStore, PortError, Ports};
use shared::retry::{Budget, bounded};
use tracing::warn;

use crate::complete_records::CompleteRecords;
use crate::config::Config;

/// The batches of the live claims that attempts found, each with the seats of those claims that an acknowledgement will rely
/// on.
pub(crate) type ReliedOn = BTreeMap<BatchId, SeqSet>;

/// Reads the records of the batches of existing claims, and writes witnesses to them.
pub(crate) struct Witnesses {
    batch_store: Arc<dyn BatchStore>,
    complete: CompleteRecords,
    concurrency: usize,
}

impl Witnesses {
    pub(crate) fn new(config: &Config, ports: &Ports) -> Witnesses {
        Witnesses {
            batch_store: ports.batch_store.clone(),
            complete: CompleteRecords::default(),
            concurrency: config.common.write_concurrency,
        }
    }

    /// Returns the records of the batches of existing claims. A claim that an acknowledgement will rely on is first
    /// recorded as a witness, unless the record knows it: then the batch cannot complete without the claim. A batch whose
    /// record could not be read has no entry.
    pub(crate) async fn add_all(
        &self,
        relied_on: ReliedOn,
        budget: &Budget<'_>,
    ) -> BTreeMap<BatchId, Option<Arc<BatchRecord>>> {
        let asked = relied_on.into_iter().map(|(batch, relied_on)| async move {
            let record = self.add(batch, &relied_on, budget).await.ok()?;
            Some((batch, record))
        });
        let records = bounded(asked.collect(), self.concurrency).await;
        records.into_iter().flatten().collect()
    }

    /// Records the seqs `relied_on` as witnesses, unless the record knows them or is complete, and returns the record, if
    /// there is one. When several invocations record witnesses at the same time, one write succeeds, and the others read
    /// the record and try again.
    ///
    /// # Errors
    /// [`PortError`] if the record is not known.
    pub(crate) async fn add(
        &self,
        batch: BatchId,
        relied_on: &SeqSet,
        budget: &Budget<'_>,
    ) -> Result<Option<Arc<BatchRecord>>, PortError> {
        if let Some(record) = self.complete.get(batch) {
            return Ok(Some(record));
        }
        let witness = |known: &BatchRecord| {
            let unknown = known.unknown_of(relied_on);
            if known.status.is_none() || unknown.is_empty() {
                return None;
            }
            Some(BatchWrite::Witness {
                witnessed: known.witnessed.union(&unknown),
                witnesses: known.witnesses,
            })
        };
        let updated = budget.update(&*self.batch_store, batch, witness).await;
        let record = updated.inspect_err(
            |error| warn!(batch_id = %batch, %error, "resolution of the batch unknown"),
        )?;
        let record = record.map(Arc::from);
        if let Some(record) = &record {
            self.complete.keep(record);
        }
        Ok(record)
    }
}
