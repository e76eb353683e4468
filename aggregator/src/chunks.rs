//! Stores the bodies of a claim round in chunks, before the claims that name them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use protocol::bodies::{Bodies, ChunkSizes};
use protocol::claim::Outcome;
use protocol::ids::{ChunkId, PieceId};
use protocol::limits::{CHUNK_CALLS_MAX, CHUNK_RETENTION};
use protocol::retry::RetryPolicy;
use shared::chunk::encode;
use shared::ports::{ChunkReply, ChunkStore, Piece, PortError, Ports};
use shared::retry::{Budget, RequestPermits, bounded};
use tracing::error;

use crate::claim_attempt::{ClaimAttempt, State};
use crate::config::Config;

/// Why a chunk is not known to be stored.
#[derive(Debug, thiserror::Error)]
enum NotStored {
    #[error(transparent)]
    Port(#[from] PortError),
    #[error("piece `{0}`: exists, and is not of this invocation")]
    Exists(PieceId),
}

/// Stores chunks.
pub struct Chunks {
    chunk_store: Arc<dyn ChunkStore>,
    permits: Arc<RequestPermits>,
    /// Where the bodies of this environment's batches go.
    bodies: Bodies,
    sizes: ChunkSizes,
}

impl Chunks {
    pub fn new(config: &Config, ports: &Ports, permits: Arc<RequestPermits>) -> Chunks {
        Chunks {
            chunk_store: ports.chunk_store.clone(),
            permits,
            bodies: config.bodies.clone(),
            sizes: config.chunk_sizes,
        }
    }

    /// Stores the chunks of these attempts, if their bodies belong in chunks. An attempt whose chunk was not stored has the
    /// outcome `Failed` afterwards.
    ///
    /// Takes half of the budget at most, so that one slow chunk leaves time for the claims of the others.
    pub async fn store(&self, attempts: &mut [ClaimAttempt<'_>], budget: &Budget<'_>) {
        let mut chunks: BTreeMap<ChunkId, Vec<&mut ClaimAttempt<'_>>> = BTreeMap::new();
        for attempt in attempts {
            if let Some(chunk) = attempt.seated.seat.chunk_id() {
                chunks.entry(chunk).or_default().push(attempt);
            }
        }
        let budget = budget.half();
        let stores = chunks
            .into_iter()
            .map(|(chunk, attempts)| self.store_or_fail(chunk, attempts, &budget))
            .collect();
        bounded(stores, CHUNK_CALLS_MAX).await;
    }

    async fn store_or_fail(
        &self,
        chunk: ChunkId,
        attempts: Vec<&mut ClaimAttempt<'_>>,
        budget: &Budget<'_>,
    ) {
        let Err(error) = self.store_one(chunk, &attempts, budget).await else {
            return;
        };
        error!(batch_id = %chunk.batch, %chunk, %error, "chunk not stored");
        for attempt in attempts {
            attempt.state = State::Done(Outcome::Failed, None);
        }
    }

    /// Stores the pieces of a chunk, the first one last. A retry sends the same bytes.
    async fn store_one(
        &self,
        chunk: ChunkId,
        attempts: &[&mut ClaimAttempt<'_>],
        budget: &Budget<'_>,
    ) -> Result<(), NotStored> {
        let bytes = bytes_of(attempts);
        let place = self.bodies.place_of_chunk(bytes.len(), self.sizes);
        let expires_at = budget.clock.now() + CHUNK_RETENTION;
        let pieces = place.pieces(&bytes, self.sizes);
        let pieces_count = pieces.len() as u32;
        for (index, piece) in (0..pieces_count).zip(pieces).rev() {
            let id = PieceId { chunk, index };
            let piece = Piece {
                bytes: piece.to_vec(),
                pieces_count,
            };
            let unanswered = AtomicBool::new(false);
            let put = || async {
                let put = self.chunk_store.put(&place, id, &piece, expires_at);
                let reply = self.permits.with(budget, put).await;
                if let Err(PortError::Unknown { .. }) = &reply {
                    unanswered.store(true, Ordering::Relaxed);
                }
                reply
            };
            match budget.call(RetryPolicy::ITEMS, put).await? {
                ChunkReply::Stored => {}
                // An earlier attempt of ours, whose reply was lost.
                ChunkReply::Exists if unanswered.into_inner() => {}
                ChunkReply::Exists => return Err(NotStored::Exists(id)),
            }
        }
        Ok(())
    }
}

fn bytes_of(attempts: &[&mut ClaimAttempt<'_>]) -> Vec<u8> {
    let seated = attempts.iter().map(|attempt| &attempt.seated);
    encode(seated.map(|seated| (seated.seat, seated.candidate)))
}
