//! The log: which events won, as the index says, and whether that is right.

use std::collections::{BTreeMap, BTreeSet};

use protocol::batch::BatchRecord;
use protocol::ids::{BatchId, ObjectId, SeatKey, Seq, SlotId};
use protocol::log::{Entry, IndexEpoch, Manifest, Owner, RunHeader, RunList, RunRef};
use protocol::seqs::SeqSet;
use protocol::slot::{Frame, Slot};
use protocol::time::Timestamp;
use shared::index_run::{Entries, decode_list, decode_run};
use shared::load::decode_frame;
use shared::named_items::NamedItem;
use shared::ports::{StoredEvent, in_range};

use super::World;
use crate::checks;
use crate::ledger::Occurrence;
use crate::schedule::Act;

/// How long a loss waits for a manifest that is not there yet.
const NOT_YET_MS: u64 = 10_000;

/// Longest time until a loss that was noticed at once is repaired.
const REPAIRED_MS: u64 = 15_000;

impl World {
    /// Somebody removes the manifest by mistake. The batches that are decided from now on are in error until an operator makes it anew.
    pub fn lose_manifest(&mut self) {
        let epoch = self.named_item::<IndexEpoch>(&());
        let name = Manifest::name(&epoch.value.epoch);
        if epoch.version > 0 && self.named_items.remove(&name) {
            self.note("manifest lost", || name);
            // Some operators notice at once, while batches that have committed are still being decided.
            if self.rng.bool() {
                let after_ms = self.rng.u64(0..REPAIRED_MS);
                self.after(after_ms, Act::Rebuild);
            }
        } else if self.faulty {
            // Nobody has committed yet.
            self.after(NOT_YET_MS, Act::LoseManifest);
        }
    }

    /// A new epoch has begun: what was committed in the former one counts only as far as records say so.
    pub fn note_epoch(&mut self) {
        // The first one.
        if self.named_item::<IndexEpoch>(&()).version == 1 {
            return;
        }
        let rebuilt = self.remembered();
        let of_log = self.batches.records().into_iter();
        let of_log = of_log.filter(|record| record.bodies.is_log());
        let of_log: BTreeMap<_, _> = of_log.map(|one| (one.batch_id, one)).collect();
        let counts = |one: &Occurrence| {
            let (batch, seq) = (one.seat.shard.batch, one.seat.seq);
            let record: Option<&BatchRecord> = of_log.get(&batch);
            record.is_none_or(|record| match record.quarantine {
                // It may have been set aside without a decision while the index was lost.
                Some(_) => one.delivered_at.is_some() || rebuilt.contains(&(batch, seq)),
                None => record.is_resolved(),
            })
        };
        for of_event in self.ledger.occurrences.values_mut() {
            for one in &mut *of_event {
                one.undone |= !counts(one);
            }
            // No record says that an event was forgotten. If no later message has won, it is remembered again.
            if let Some(last) = of_event.last_mut()
                && rebuilt.contains(&(last.seat.shard.batch, last.seat.seq))
            {
                last.forgotten_at = None;
            }
        }
        let is_aside = |record: &&BatchRecord| record.quarantine.is_some() && record.is_resolved();
        for record in of_log.values().filter(is_aside) {
            self.note_undecided(record, &rebuilt);
        }
        self.note("index rebuilt", || format!("{} entries", rebuilt.len()));
        self.note_committed();
    }

    /// Notes the lines of a batch that was set aside without a decision, if the index has them. Until they are in the quarantine, others
    /// are duplicates and conflicts of them.
    fn note_undecided(&mut self, record: &BatchRecord, rebuilt: &BTreeSet<(BatchId, Seq)>) {
        let known = self.ledger.occurrences.values().flatten();
        let known: BTreeSet<SeatKey> = known.map(|one| one.seat).collect();
        // Slots and loads may have expired.
        let slots = slots_of(record).filter_map(|slot| self.slot(record, slot));
        let frames = slots.filter_map(|slot| match slot {
            Slot::Filled(frame) => self.events_of(record, &frame),
            Slot::Claims(_) | Slot::Hole => None,
        });
        let events: Vec<StoredEvent> = frames.flatten().collect();
        for event in events {
            let is_listed = rebuilt.contains(&(record.batch_id, event.seq));
            if is_listed && !known.contains(&event.seat_key()) {
                let mut occurrence = occurrence(record, &event);
                occurrence.undone = true;
                self.ledger.add(event.event_id, occurrence);
            }
        }
    }

    /// Returns the seats of all entries that the index has.
    fn remembered(&self) -> BTreeSet<(BatchId, Seq)> {
        let list = self.present_list().and_then(|(_, list)| list);
        let mut seats = BTreeSet::new();
        for run in list.unwrap_or_default().runs {
            let Some((header, entries)) = self.read_run(&run) else {
                continue;
            };
            let entries = entries.iter().map(Entry::from_bytes);
            let seat = |one: Entry| match header.owners.get(one.owner as usize)? {
                Owner::Batch { batch, .. } => Some((*batch, one.seq)),
                _ => None,
            };
            seats.extend(entries.filter_map(seat));
        }
        seats
    }

    /// Returns the list that the present manifest names, if it names one. The list is `None` if it cannot be read.
    fn present_list(&self) -> Option<(ObjectId, Option<RunList>)> {
        let epoch = self.named_item::<IndexEpoch>(&()).value.epoch;
        let manifest = self.named_item::<Manifest>(&epoch).value;
        let object = ObjectId::RunList(manifest.list?);
        let bytes = self.objects.bytes(&manifest.bodies, object);
        Some((object, bytes.and_then(|bytes| decode_list(&bytes).ok())))
    }

    fn read_run(&self, run: &RunRef) -> Option<(RunHeader, Entries)> {
        let bytes = self.objects.bytes(&run.bodies, ObjectId::Run(run.run))?;
        decode_run(&bytes, run.hash).ok()
    }

    /// The manifest was written: batches that are in its list for the first time have committed what was decided about their lines.
    pub fn note_committed(&mut self) {
        let Some((object, list)) = self.present_list() else {
            return;
        };
        let check = checks::inv36_a_manifest_names_stored_objects(object, list.is_some());
        self.check(check);
        for run in list.unwrap_or_default().runs {
            if self.ledger.committed.insert(run.run) {
                match run.batch {
                    Some(_) => self.note_winners(&run),
                    None => self.note_forgotten(&run),
                }
            }
        }
    }

    /// Notes which events an operator has forgotten with a run.
    fn note_forgotten(&mut self, run: &RunRef) {
        let Some((header, entries)) = self.read_run(run) else {
            return;
        };
        let seats = entries.iter().filter_map(|bytes| {
            let entry = Entry::from_bytes(bytes);
            match header.owners[entry.owner as usize] {
                Owner::Forget { batch, .. } => Some((batch, entry.seq)),
                _ => None,
            }
        });
        let seats: BTreeSet<(BatchId, Seq)> = seats.collect();
        if seats.is_empty() {
            return;
        }
        let now = self.now();
        for one in self.ledger.occurrences.values_mut().flatten() {
            if seats.contains(&(one.seat.shard.batch, one.seat.seq)) {
                // A merge commits what was forgotten before.
                one.forgotten_at.get_or_insert(now);
            }
        }
        self.note("forgotten", || format!("{seats:?}"));
    }

    fn note_winners(&mut self, run: &RunRef) {
        let object = ObjectId::Run(run.run);
        let read = self.read_run(run);
        let check = checks::inv36_a_manifest_names_stored_objects(object, read.is_some());
        self.check(check);
        let record = run.batch.and_then(|batch| self.batches.get(batch));
        let (Some((header, entries)), Some(record)) = (read, record) else {
            return;
        };
        let seqs = entries.iter().map(|bytes| Entry::from_bytes(bytes).seq);
        let winners: SeqSet = seqs.collect();
        self.note("committed", || {
            let losers = header.duplicates.len() + header.conflicts.len();
            let beyond = header.beyond_quota.len();
            format!(
                "{} {winners:?}, {losers} did not win, {beyond} beyond a quota",
                record.batch_id
            )
        });
        for (event, stored_at) in self.lines(&record) {
            if winners.contains(event.seq) {
                self.won(&record, &event, stored_at);
            } else if header.beyond_quota.contains(event.seq) {
                self.beyond_quota(&event, stored_at);
            }
        }
    }

    /// Returns the lines of a batch, each with the time at which its load was stored.
    fn lines(&mut self, record: &BatchRecord) -> Vec<(StoredEvent, Timestamp)> {
        let mut lines = Vec::new();
        for slot in slots_of(record) {
            let value = self.slot(record, slot);
            let has_value = value.is_some();
            let check = checks::inv37_every_slot_of_a_decided_batch_has_a_value(slot, has_value);
            self.check(check);
            let Some(Slot::Filled(frame)) = value else {
                continue;
            };
            let events = self.events_of(record, &frame);
            let check = checks::inv38_a_filled_slot_names_a_stored_load(slot, events.is_some());
            self.check(check);
            let events = events.unwrap_or_default().into_iter();
            lines.extend(events.map(|event| (event, frame.stored_at)));
        }
        lines
    }

    /// Returns the value of a slot; `None` if it has none.
    fn slot(&self, record: &BatchRecord, slot: SlotId) -> Option<Slot> {
        let bytes = self.objects.bytes(&record.bodies, slot)?;
        serde_json::from_slice(&bytes).ok()
    }

    /// Returns the events of a frame; `None` if its load cannot be read.
    fn events_of(&self, record: &BatchRecord, frame: &Frame) -> Option<Vec<StoredEvent>> {
        let load = ObjectId::Load(frame.load);
        let bytes = self.objects.bytes(&frame.bodies, load)?;
        let bytes = in_range(&bytes, &frame.bytes);
        decode_frame(record.batch_id, frame, &bytes).ok()
    }

    /// Records that an event won, and checks that no other claim of it is in the way.
    fn won(&mut self, record: &BatchRecord, event: &StoredEvent, stored_at: Timestamp) {
        let (id, message) = (event.event_id.clone(), event.sqs_message_id.clone());
        let (batch, seq) = (record.batch_id, event.seq);
        self.note("won", || format!("{id} by {message} at {batch}/{seq}"));
        for prior in self.ledger.claims_of(&id).to_vec() {
            self.check_replaced(&prior, &message, stored_at);
        }
        self.ledger.add(id, occurrence(record, event));
    }
}

/// Returns the slots that were reserved in a batch.
fn slots_of(record: &BatchRecord) -> impl Iterator<Item = SlotId> + use<> {
    let batch = record.batch_id;
    let slots = record.reservations.as_ref().map_or(0, |log| log.slots);
    (0..slots).map(move |number| SlotId { batch, number })
}

/// Returns what the ledger has of an event in a batch of the log.
fn occurrence(record: &BatchRecord, event: &StoredEvent) -> Occurrence {
    let message = event.sqs_message_id.clone();
    Occurrence {
        window: Some(record.dedup_window),
        // Others may rely on it that came earlier, and were decided later.
        ..Occurrence::new(message, event.body_hash, event.seat_key(), Timestamp::EPOCH)
    }
}
