//! The log: which events won, as the index says, and whether that is right.

use protocol::batch::BatchRecord;
use protocol::ids::{BatchShard, ObjectId, SeatKey, SlotId};
use protocol::log::{Entry, Manifest, RunRef, Slot};
use protocol::seqs::SeqSet;
use protocol::time::Timestamp;
use shared::index_run::{decode_list, decode_run};
use shared::load::decode_frame;
use shared::ports::StoredEvent;

use super::World;
use crate::checks;
use crate::ledger::Occurrence;

impl World {
    /// The manifest was written: batches that are in its list for the first time have committed what was decided about their lines.
    pub fn note_committed(&mut self) {
        let manifest = self.named_item::<Manifest>(&()).value;
        let Some(list) = manifest.list else {
            return;
        };
        let object = ObjectId::RunList(list);
        let bytes = self.chunks.bytes(&manifest.bodies, object);
        let list = bytes.and_then(|bytes| decode_list(&bytes).ok());
        self.check(checks::inv36_a_manifest_names_stored_objects(
            object,
            list.is_some(),
        ));
        for run in list.unwrap_or_default().runs {
            if run.batch.is_some() && self.ledger.committed.insert(run.run) {
                self.note_winners(&run);
            }
        }
    }

    fn note_winners(&mut self, run: &RunRef) {
        let object = ObjectId::Run(run.run);
        let bytes = self.chunks.bytes(&run.bodies, object);
        let read = bytes.and_then(|bytes| decode_run(&bytes, run.hash).ok());
        self.check(checks::inv36_a_manifest_names_stored_objects(
            object,
            read.is_some(),
        ));
        let record = run.batch.and_then(|batch| self.batches.get(batch));
        let (Some((header, entries)), Some(record)) = (read, record) else {
            return;
        };
        let seqs = entries.iter().map(|bytes| Entry::from_bytes(bytes).seq);
        let winners: SeqSet = seqs.collect();
        self.note("committed", || {
            let losers = header.duplicates.len() + header.conflicts.len();
            format!("{} {winners:?}, {losers} did not win", record.batch_id)
        });
        for (event, stored_at) in self.lines(&record) {
            if winners.contains(event.seq) {
                self.won(&record, &event, stored_at);
            }
        }
    }

    /// Returns the lines of a batch, each with the time at which its load was stored.
    fn lines(&mut self, record: &BatchRecord) -> Vec<(StoredEvent, Timestamp)> {
        let slots = record.log.as_ref().map_or(0, |log| log.slots);
        let mut lines = Vec::new();
        for number in 0..slots {
            let batch = record.batch_id;
            let slot = SlotId { batch, number };
            let bytes = self.chunks.bytes(&record.bodies, slot);
            let value = bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok());
            self.check(checks::inv37_every_slot_of_a_decided_batch_has_a_value(
                slot,
                value.is_some(),
            ));
            let Some(Slot::Filled(frame)) = value else {
                continue;
            };
            let load = ObjectId::Load(frame.load);
            let bytes = self.chunks.bytes(&frame.bodies, load);
            let events = bytes.and_then(|bytes| decode_frame(batch, &frame, &bytes).ok());
            self.check(checks::inv38_a_filled_slot_names_a_stored_load(
                slot,
                events.is_some(),
            ));
            let events = events.unwrap_or_default().into_iter();
            lines.extend(events.map(|event| (event, frame.stored_at)));
        }
        lines
    }

    /// Records that an event won, and checks that no other claim of it is in the way.
    fn won(&mut self, record: &BatchRecord, event: &StoredEvent, stored_at: Timestamp) {
        let (id, message) = (event.event_id.clone(), event.sqs_message_id.clone());
        self.note("won", || {
            format!("{id} by {message} at {}/{}", record.batch_id, event.seq)
        });
        let prior = self.ledger.occurrences.get(&id).cloned();
        for prior in prior.iter().flatten() {
            self.check_replaced(prior, &message, stored_at);
        }
        let shard = BatchShard {
            batch: record.batch_id,
            shard: 0,
        };
        let occurrence = Occurrence {
            sqs_message_id: message,
            body_hash: event.body_hash,
            seat: SeatKey {
                shard,
                seq: event.seq,
            },
            window: Some(record.dedup_window),
            // Others may rely on it that came earlier, and were decided later.
            claimed_at: Timestamp::EPOCH,
            delivered_at: None,
            remembered_until: None,
            released_at: None,
            set_aside: false,
            aside_at: None,
            aside_until: None,
        };
        let occurrences = self.ledger.occurrences.entry(id);
        occurrences.or_default().push(occurrence);
    }
}
