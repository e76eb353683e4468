//! The numbers of parts, if the sink needs them: takes the next one for a frozen part, and gives it up afterwards.

use std::sync::Arc;
use std::time::Duration;

use protocol::batch::BatchRecord;
use protocol::chain::Link;
use protocol::retry::RetryPolicy;
use protocol::sequence::{
    HolderResolution, NextNumber, PartId, Sequence, SequenceScope, holder_resolution, next_number,
    without_holder,
};
use protocol::time::Timestamp;
use shared::named_items::Versioned;
use shared::ports::{BatchStore, NamedItems, PortError, Ports};
use shared::retry::Budget;
use tracing::{info, warn};

/// How often a sequence is read again that others write at the same time. With more, the part waits.
const ATTEMPTS_MAX: usize = 5;
/// The shortest and the longest time until a part that waits for its number is looked at again.
const WAIT_MIN: Duration = Duration::from_secs(5);
const WAIT_MAX: Duration = Duration::from_secs(300);

/// The number of a part, with its link if it has one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Numbered {
    pub(crate) number: u64,
    pub(crate) link: Option<Link>,
}

/// Takes numbers for parts.
pub(crate) struct Sequences {
    named_items: Arc<dyn NamedItems>,
    batch_store: Arc<dyn BatchStore>,
    /// Whether parts that take a number take a link with it.
    with_links: bool,
}

impl Sequences {
    pub(crate) fn new(ports: &Ports, with_links: bool) -> Sequences {
        Sequences {
            named_items: ports.named_items.clone(),
            batch_store: ports.batch_store.clone(),
            with_links,
        }
    }

    /// Returns the number of part `index`: the one in its record with the link that it has there, or the next one.
    ///
    /// # Errors
    /// [`PortError`] when the number cannot be read or written. The inner error is the part that must be delivered or set aside first.
    pub(crate) async fn take(
        &self,
        record: &BatchRecord,
        index: usize,
        budget: &Budget<'_>,
    ) -> Result<Result<Numbered, PartId>, PortError> {
        if let Some(number) = record.file_number(index) {
            let link = record.link(index);
            return Ok(Ok(Numbered { number, link }));
        }
        let scope = SequenceScope::of(record);
        let part = PartId {
            batch: record.batch_id,
            part: index,
        };
        for _ in 0..ATTEMPTS_MAX {
            let read = self.read(&scope, budget).await?;
            let sequence = read.value;
            let resolution = match sequence.holder {
                Some(holder) if holder != part => {
                    self.resolution(holder, sequence.last, budget).await?
                }
                Some(_) | None => HolderResolution::Waiting,
            };
            let next = match next_number(sequence, part, resolution) {
                NextNumber::Taken(_) => return Ok(Ok(self.numbered(sequence, budget))),
                NextNumber::Wait(holder) => return Ok(Err(holder)),
                NextNumber::Take(next) => next,
            };
            if self.replace(&scope, read, next, budget).await? {
                info!(part_key = %part, number = next.last, "number taken");
                return Ok(Ok(self.numbered(next, budget)));
            }
        }
        // Others take numbers at this moment. The part waits behind the holder of the last one.
        Ok(Err(part))
    }

    /// Returns the last number, with the link of the part that holds it.
    fn numbered(&self, sequence: Sequence, budget: &Budget<'_>) -> Numbered {
        Numbered {
            number: sequence.last,
            link: self.with_links.then(|| sequence.link(budget.clock.now())),
        }
    }

    /// Returns the part of another batch that must be delivered or set aside before the next part of this batch gets a number. Reads
    /// two records, and nothing of the batch.
    pub(crate) async fn behind(
        &self,
        record: &BatchRecord,
        budget: &Budget<'_>,
    ) -> Result<Option<PartId>, PortError> {
        let read = self.read(&SequenceScope::of(record), budget).await?;
        let sequence = read.value;
        match sequence.holder {
            Some(holder) if holder.batch != record.batch_id => {
                let resolution = self.resolution(holder, sequence.last, budget).await?;
                Ok((resolution == HolderResolution::Waiting).then_some(holder))
            }
            Some(_) | None => Ok(None),
        }
    }

    async fn resolution(
        &self,
        holder: PartId,
        last: u64,
        budget: &Budget<'_>,
    ) -> Result<HolderResolution, PortError> {
        let read = || self.batch_store.read(holder.batch);
        let record = budget.call(RetryPolicy::CONTROL, read).await?;
        if record.is_none() {
            warn!(%holder, number = last, "the record of the last number's part has expired: the number counts as used");
        }
        Ok(holder_resolution(holder, last, record.as_ref()))
    }

    /// Gives up the number of a part that was delivered or set aside.
    ///
    /// # Errors
    /// [`PortError`] if it is not known to be given up. The batch must not be complete then: once its record has expired, nobody
    /// could tell whether the number was used.
    pub(crate) async fn give_up(
        &self,
        record: &BatchRecord,
        index: usize,
        budget: &Budget<'_>,
    ) -> Result<(), PortError> {
        let scope = SequenceScope::of(record);
        let part = PartId {
            batch: record.batch_id,
            part: index,
        };
        let mut attempt = 0;
        loop {
            let read = self.read(&scope, budget).await?;
            let Some(next) = without_holder(read.value, part, record) else {
                return Ok(());
            };
            // Otherwise the next part wrote the sequence, or an attempt without a reply did.
            if self.replace(&scope, read, next, budget).await? {
                return Ok(());
            }
            budget.next_attempt(&mut attempt).await?;
        }
    }

    async fn read(
        &self,
        scope: &SequenceScope,
        budget: &Budget<'_>,
    ) -> Result<Versioned<Sequence>, PortError> {
        let read = || self.named_items.get(scope);
        budget.call(RetryPolicy::CONTROL, read).await
    }

    /// After a lost reply, the write is sent again and refused; the sequence that is read then says whether it was applied.
    async fn replace(
        &self,
        scope: &SequenceScope,
        from: Versioned<Sequence>,
        to: Sequence,
        budget: &Budget<'_>,
    ) -> Result<bool, PortError> {
        let replace = || self.named_items.replace(scope, &from, &to);
        budget.call(RetryPolicy::CONTROL, replace).await
    }
}

/// Returns when a part is looked at again that has waited for its number since `since`: after half of that time, so that a
/// part behind a short delivery does not wait long, and one behind a batch in error does not cost much.
pub(crate) fn look_again_at(since: Timestamp, now: Timestamp) -> Timestamp {
    now + (since.until(now) / 2).clamp(WAIT_MIN, WAIT_MAX)
}
