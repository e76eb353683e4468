//! The files that operators keep of the batches that they discard.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::Duration;

use protocol::ids::{BatchId, SeatKey, Seq};
use protocol::limits::BATCH_GET_KEYS_MAX;
use serde_json::Value;
use shared::ports::StoredEvent;
use shared::wire::{Ticket, TicketReason};
use tempfile::TempDir;

use super::World;
use crate::checks;

/// A file system in memory, on Linux: a command waits until its file is on the disk.
const MEMORY: &str = "/dev/shm";

impl World {
    /// Returns the directory in which operators keep the events of batches that they discard.
    pub fn discards(&mut self) -> &Path {
        let directory = self.discards.get_or_insert_with(|| {
            let in_memory = tempfile::tempdir_in(MEMORY);
            let made = in_memory.or_else(|_| TempDir::new());
            made.expect("a directory for the files of one history can be made")
        });
        directory.path()
    }

    /// An operator sends a ticket. If it is for a batch to be discarded, the events of that batch must have been saved.
    pub fn ticket_of_operator(&mut self, ticket: &Ticket) {
        if ticket.reason == Some(TicketReason::Quarantine) {
            let batch = ticket.batch_id;
            let saved = self.saved(batch);
            for event in self.frozen_events(batch) {
                let is_saved = saved.contains(&(event.seq, event.body.to_string()));
                self.check(checks::p8_a_discarded_event_is_saved(&event, is_saved));
            }
        }
        self.ticket(ticket, Duration::ZERO);
    }

    /// Returns the bodies in the files of a batch, with their seqs.
    fn saved(&mut self, batch: BatchId) -> BTreeSet<(Seq, String)> {
        let entries = fs::read_dir(self.discards()).into_iter().flatten();
        let files = entries.flatten();
        let name = batch.to_string();
        let of_batch = files.filter(|file| file.file_name().to_string_lossy().starts_with(&name));
        let mut saved = BTreeSet::new();
        for file in of_batch {
            let text = fs::read_to_string(file.path()).unwrap_or_default();
            for line in text.lines() {
                let line: Value = serde_json::from_str(line).unwrap_or_default();
                if let (Some(seq), Some(body)) = (line["seq"].as_u64(), line["body"].as_str()) {
                    saved.insert((seq as Seq, body.to_owned()));
                }
            }
        }
        saved
    }

    /// Returns the events of the frozen part of a batch that are not set aside, and can be read without the overflow store.
    fn frozen_events(&mut self, batch: BatchId) -> Vec<StoredEvent> {
        let Some(record) = self.batches.get(batch) else {
            return Vec::new();
        };
        let seqs = record.undelivered_of_frozen_part();
        let has = |seat: SeatKey| seat.shard.batch == batch && seqs.contains(seat.seq);
        let claims = self.ledger.occurrences.iter();
        let claimed = claims.filter(|(_, all)| all.iter().any(|one| has(one.seat)));
        let ids: Vec<_> = claimed.map(|(id, _)| id.clone()).collect();
        let pieces = ids.chunks(BATCH_GET_KEYS_MAX);
        let mut events: Vec<_> = pieces.flat_map(|ids| self.stored(ids)).collect();
        events.retain(|event| has(event.seat_key()));
        events.retain(|event| event.overflow.is_none());
        events
    }
}
