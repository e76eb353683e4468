//! Reads the events of a batch of the log, whose bodies are in loads. The batch record says which seats have events, so neither the index
//! nor the lock table is read.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use protocol::batch::BatchRecord;
use protocol::ids::{BatchId, ObjectId, Seq, SlotId};
use protocol::limits::{LOG_RETENTION, OBJECT_CALLS_MAX};
use protocol::seqs::SeqSet;
use protocol::slot::{ClaimCounts, Frame, Slot, empty_slots, frames_of};
use protocol::text::counted;
use protocol::time::Timestamp;
use shared::body_object::BodyObject;
use shared::ports::{ObjectStore, PortError, Ports, StoredEvent};
use shared::retry::{Budget, RequestPermits, Slots, bounded};

use crate::index_snapshot::seqs;
use crate::reading::{HandOverError, Lost, ReadEvents, ReadLimits, memory_bytes};

/// Events of a batch of the log that must still be read.
#[derive(Debug, Default)]
pub(crate) struct UnreadObjects {
    /// The seats of events whose objects are still to be read.
    seqs: SeqSet,
    /// Where the lines of the batch are, in the order of their seqs.
    frames: Arc<[Frame]>,
    /// Events of objects that were read, beyond what was asked for.
    read_ahead: VecDeque<StoredEvent>,
}

impl UnreadObjects {
    /// Returns the events of these seats of a batch that has these frames.
    pub(crate) fn of(seqs: SeqSet, frames: Arc<[Frame]>) -> UnreadObjects {
        UnreadObjects {
            seqs,
            frames,
            ..UnreadObjects::default()
        }
    }

    /// Returns the objects that are still to be read, each with the seats that are wanted of it.
    ///
    /// # Errors
    /// A seat that is in no object.
    fn objects(&self) -> Result<Vec<(BodyObject, SeqSet)>, Seq> {
        let objects = BodyObject::of_frames(self.frames.iter(), &self.seqs);
        let mut missing = self.seqs.clone();
        for (_, seqs) in &objects {
            missing.remove_from(seqs);
        }
        missing.iter().next().map_or(Ok(objects), Err)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.seqs.is_empty() && self.read_ahead.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.seqs.len() as usize + self.read_ahead.len()
    }
}

/// Reads loads.
pub(crate) struct ObjectReader {
    object_store: Arc<dyn ObjectStore>,
    permits: Arc<RequestPermits>,
    /// The slots of the batch that was closed last. They have their values for ever.
    closed: Mutex<Option<(BatchId, Arc<Closed>)>>,
}

/// The slots of a batch that takes no reservations any more.
#[derive(Debug, Default)]
pub(crate) struct Closed {
    /// In the order of their seqs.
    pub(crate) frames: Arc<[Frame]>,
    /// What they say of claims.
    pub(crate) counts: ClaimCounts,
    /// The slots that have lost their values. There is one message about all of them.
    pub(crate) lost: Option<Lost>,
    /// How many slots are holes.
    pub(crate) holes: u64,
}

impl Closed {
    fn of(record: &BatchRecord, slots: &[Option<Slot>]) -> Closed {
        let frames: Arc<[Frame]> = frames_of(slots).into_iter().cloned().collect();
        let reservations = record.reservations.as_ref();
        let reserved = reservations.map_or(0, |one| one.reserved as Seq);
        let reserved: SeqSet = (0..reserved).collect();
        let seqs = reserved.difference(&frames.iter().flat_map(Frame::seqs).collect());
        let empty = empty_slots(slots);
        let lost = empty.first().map(|number| {
            let slot = SlotId {
                batch: record.batch_id,
                number: *number,
            };
            let others = match empty.len() - 1 {
                0 => String::new(),
                others => format!(", and {}", counted(others as u64, "other slot")),
            };
            Lost {
                object: ObjectId::Slot(slot),
                // The reservations of holes are among them.
                seqs,
                problem: format!(
                    "slot `{slot}`{others}: missing: expected the load that was acknowledged"
                ),
            }
        });
        let is_hole = |slot: &&Option<Slot>| matches!(slot, Some(Slot::Hole));
        Closed {
            frames,
            counts: ClaimCounts::of(slots),
            lost,
            holes: slots.iter().filter(is_hole).count() as u64,
        }
    }

    /// Returns the seqs of all lines that are not lost.
    pub(crate) fn seqs(&self) -> SeqSet {
        self.frames.iter().flat_map(Frame::seqs).collect()
    }

    /// Returns when the load of a line was stored.
    pub(crate) fn stored_at(&self, seq: Seq) -> Timestamp {
        let after = self.frames.partition_point(|frame| frame.first_seq <= seq);
        self.frames[after.saturating_sub(1)].stored_at
    }
}

impl ObjectReader {
    pub(crate) fn new(ports: &Ports, permits: Arc<RequestPermits>) -> ObjectReader {
        ObjectReader {
            object_store: ports.object_store.clone(),
            permits,
            closed: Mutex::default(),
        }
    }

    /// Returns the slots of a batch. Puts a hole into each that stays empty, so the batch must take no reservations any more.
    ///
    /// # Errors
    /// [`PortError`] if a slot is not known to have a value.
    pub(crate) async fn close(
        &self,
        record: &BatchRecord,
        budget: &Budget<'_>,
    ) -> Result<Arc<Closed>, PortError> {
        let lock = || self.closed.lock().unwrap_or_else(PoisonError::into_inner);
        let known = lock().clone();
        if let Some((_, closed)) = known.filter(|(batch, _)| *batch == record.batch_id) {
            return Ok(closed);
        }
        let slots = Slots {
            store: &*self.object_store,
            permits: &self.permits,
            budget,
        };
        let closed = Arc::new(Closed::of(record, &slots.close(record).await?));
        if closed.lost.is_none() {
            *lock() = Some((record.batch_id, closed.clone()));
        }
        Ok(closed)
    }

    /// Reads the next events of `unread`, as many as the limits say. Reads whole frames, up to [`OBJECT_CALLS_MAX`] at
    /// once, and keeps the events beyond the limits in `unread`. An object that could not be read stays in `unread`, and
    /// those after it are read all the same.
    pub(crate) async fn read(
        &self,
        record: &BatchRecord,
        unread: &mut UnreadObjects,
        limits: ReadLimits,
        budget: &Budget<'_>,
    ) -> ReadEvents {
        let mut read = ReadEvents::default();
        let mut objects = match unread.objects() {
            Ok(objects) => objects.into_iter(),
            Err(seq) => {
                read.failed = Some(HandOverError::Permanent(format!(
                    "batch record: seat {seq}: in no load: expected one that has it"
                )));
                return read;
            }
        };
        let (mut bytes, mut object_bytes, mut objects_count) = (0, 0, 0);
        loop {
            let is_full =
                |bytes, events: &[_]| bytes >= limits.bytes_max && events.len() >= limits.items_min;
            while !is_full(bytes, &read.events)
                && let Some(event) = unread.read_ahead.pop_front()
            {
                bytes += memory_bytes(&event);
                read.events.push(event);
            }
            if is_full(bytes, &read.events) {
                return read;
            }
            let bytes_left = limits.bytes_max.saturating_sub(bytes);
            let next_count = objects_in(bytes_left, object_bytes / u64::max(objects_count, 1));
            let next: Vec<_> = objects.by_ref().take(next_count).collect();
            if next.is_empty() {
                return read;
            }
            let reads = next
                .iter()
                .map(|(object, wanted)| self.read_object(record, object, wanted, budget))
                .collect();
            for (wanted, result) in bounded(reads, OBJECT_CALLS_MAX).await {
                match result {
                    Ok((events, lost)) => {
                        objects_count += 1;
                        object_bytes += events.iter().map(memory_bytes).sum::<u64>();
                        unread.seqs.remove_from(wanted);
                        unread.read_ahead.extend(events);
                        read.lost.extend(lost);
                    }
                    Err(error) => read.failed = Some(error),
                }
            }
            // Objects arrive in any order.
            let read_ahead = unread.read_ahead.make_contiguous();
            read_ahead.sort_unstable_by_key(|event| event.seq);
        }
    }

    /// Returns what could be read of a load and what is lost, with `wanted`; the error, if another attempt may succeed.
    async fn read_object<'a>(
        &self,
        record: &BatchRecord,
        object: &BodyObject,
        wanted: &'a SeqSet,
        budget: &Budget<'_>,
    ) -> (
        &'a SeqSet,
        Result<(Vec<StoredEvent>, Option<Lost>), HandOverError>,
    ) {
        let lost = |seqs: SeqSet, problem: String| Lost {
            object: object.id(),
            seqs,
            problem,
        };
        let nothing = |problem| Ok((Vec::new(), Some(lost(wanted.clone(), problem))));
        let store = &*self.object_store;
        let place = object.place();
        let bytes = object.read(store, &self.permits, budget);
        let read = match bytes.await {
            Ok(Some(bytes)) => {
                let (events, problem) = object.decode(record, &bytes, wanted);
                let missing = wanted.difference(&seqs(&events));
                let problem = problem.map(|problem| lost(missing, problem));
                Ok((events, problem))
            }
            Ok(None) => nothing(format!("{}: missing in `{place}`", object.described())),
            // The service may have removed it by now, and only says that it must not be read.
            Err(error @ PortError::Refused { .. })
                if record.created_at + LOG_RETENTION <= budget.clock.now() =>
            {
                nothing(format!("{}: {error}", object.described()))
            }
            Err(error) => Err(error.into()),
        };
        (wanted, read)
    }
}

/// Returns how many objects to read at once, to get `bytes` of events. The first one shows how large they are.
fn objects_in(bytes: u64, object_bytes_mean: u64) -> usize {
    match object_bytes_mean {
        0 => 1,
        mean => (bytes / mean).clamp(1, OBJECT_CALLS_MAX as u64) as usize,
    }
}
