//! The store of chunks.

use std::time::Duration;

use protocol::bodies::{ChunkPlace, S3Prefix};
use protocol::ids::{ChunkId, ObjectId, PieceId, Seq};
use protocol::seqs::SeqSet;
use protocol::time::Timestamp;
use shared::chunk::decode;
use shared::compression::{compress_bytes, decompress_bytes};
use shared::ports::{ChunkReply, ChunkStore, Piece, PortError};

use super::World;
use super::fakes::now;
use crate::checks;
use crate::fate::denied;

/// How long after the faults stopped somebody repairs the permission to read chunks.
const REPAIR_MS: u64 = 600_000;
/// How long after the faults stopped no run can be written. By then, every batch that cannot write one must be set aside.
const RUNS_DENIED_MS: u64 = 48 * 3_600_000;

impl World {
    pub fn put_piece(
        &mut self,
        place: &ChunkPlace,
        id: PieceId,
        piece: &Piece,
        expires_at: Timestamp,
    ) -> Result<ChunkReply, PortError> {
        if let ChunkPlace::S3(S3Prefix { prefix, .. }) = place
            && self.is_put_denied(prefix, id)
        {
            self.note("chunk put denied", || id.to_string());
            return Err(denied());
        }
        let reply = now(self.chunks.put(place, id, piece, expires_at))?;
        self.note("chunk put", || format!("{id} {reply:?}"));
        if let (ChunkReply::Stored, Some(batch)) = (reply, id.object.batch()) {
            *self.ledger.pieces.entry(batch).or_default() += 1;
        }
        let expires_at = match place {
            ChunkPlace::Table => expires_at,
            ChunkPlace::S3(_) => self.now() + Duration::from_secs(self.plan.chunk_days * 86_400),
        };
        self.objects_expire_at
            .entry(id.object)
            .or_insert(expires_at);
        Ok(reply)
    }

    pub fn get_piece(
        &mut self,
        place: &ChunkPlace,
        id: PieceId,
    ) -> Result<Option<Piece>, PortError> {
        if let ChunkPlace::S3(S3Prefix { prefix, .. }) = place
            && self.is_denied(prefix, id)
        {
            self.note("chunk denied", || id.to_string());
            return Err(denied());
        }
        let piece = now(self.chunks.get(place, id))?;
        // A small chunk may be in the table or in the bucket, and is looked for in both.
        let count = u64::from(piece.is_some());
        if let Some(batch) = id.object.batch() {
            *self.ledger.reads.entry(batch).or_default() += count;
        }
        Ok(piece)
    }

    fn is_denied(&self, prefix: &str, id: PieceId) -> bool {
        self.plan.denial.is_some_and(|denial| {
            // A prefix that is never repaired is left: later batches can be read.
            let calm_at = self.plan.start + Duration::from_millis(self.plan.calm_at_ms + REPAIR_MS);
            let has_ended = match denial.ends {
                true => calm_at <= self.now(),
                false => match id.object {
                    ObjectId::Chunk(chunk) => calm_at <= chunk.batch.opened_at(),
                    // Of the log, it concerns the writes of runs.
                    _ => true,
                },
            };
            prefix == format!("{}/", denial.prefix) && denial.from_ms <= self.now_ms && !has_ended
        })
    }

    fn is_put_denied(&self, prefix: &str, id: PieceId) -> bool {
        let is_run = matches!(id.object, ObjectId::Run(_) | ObjectId::RunList(_));
        self.plan.denial.is_some_and(|denial| {
            let until_ms = self.plan.calm_at_ms + RUNS_DENIED_MS;
            let is_now = denial.from_ms <= self.now_ms && self.now_ms < until_ms;
            is_run && !denial.ends && prefix == format!("{}/", denial.prefix) && is_now
        })
    }

    /// Damages a line of a stored chunk, as a person or a disk would.
    pub fn damage(&mut self) {
        if !self.strikes(self.plan.faults.damage) {
            return;
        }
        let chunks = self.chunks.ids();
        if chunks.is_empty() {
            return;
        }
        let chunk = chunks[self.rng.usize(..chunks.len())];
        let Some(record) = self.batches.get(chunk.batch) else {
            return;
        };
        let Some(bytes) = self.chunks.bytes(&record.bodies, chunk) else {
            return;
        };
        let lines = decompress_bytes(&bytes, usize::MAX).expect("it was written by us");
        let mut lines: Vec<&[u8]> = lines.split_inclusive(|byte| *byte == b'\n').collect();
        // The only line may have been taken out before.
        if lines.is_empty() {
            return;
        }
        let index = self.rng.usize(..lines.len());
        lines[index] = match self.rng.bool() {
            true => b"",
            false => b"{}\n",
        };
        let damaged = compress_bytes(&lines.concat()).expect("there is memory");
        self.chunks.insert(chunk, &damaged);
        self.ledger.damaged.insert(chunk);
        self.note("chunk damaged", || format!("{chunk} line {index}"));
    }

    /// The quarantine gets a message about a lost chunk, which names the seats whose events are lost.
    pub fn chunk_reported_lost(&mut self, chunk: ChunkId, notice: &str) {
        let Some(record) = self.batches.get(chunk.batch) else {
            return;
        };
        let (_, text) = notice.split_once("lost (seqs ").unwrap_or_default();
        let text = text.trim_end_matches(')');
        let mut seats: SeqSet = text
            .split(", ")
            .filter_map(|seat| seat.parse::<Seq>().ok())
            .collect();
        let bytes = self.chunks.bytes(&record.bodies, chunk);
        let decoded = |seats: &SeqSet| {
            let decoded = bytes.as_ref().map(|bytes| decode(chunk, bytes, seats));
            decoded.unwrap_or_default().events
        };
        let readable = decoded(&seats).len();
        self.check(checks::p8_a_lost_event_is_lost(readable, chunk));
        if let (true, Some(last)) = (text.ends_with('…'), seats.iter().max()) {
            // The text names only the first ones.
            let of_chunks = record.chunks_of(&record.claimed).unwrap_or_default();
            let later = of_chunks.get(&chunk).into_iter().flat_map(SeqSet::iter);
            let later: SeqSet = later.filter(|seq| *seq > last).collect();
            let readable: SeqSet = decoded(&later).iter().map(|event| event.seq).collect();
            seats.extend(later.iter().filter(|seq| !readable.contains(*seq)));
        }
        let claims = self.ledger.occurrences.values().flatten();
        let of_seats = claims
            .filter(|one| one.seat.shard.batch == chunk.batch && seats.contains(one.seat.seq));
        for one in of_seats {
            if let Some(index) = self.ledger.by_id.get(&one.sqs_message_id) {
                self.ledger.messages[*index].reported = true;
            }
        }
    }
}
