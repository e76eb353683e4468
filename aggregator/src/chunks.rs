//! Stores the bodies of a claim round in chunks, before the claims that name the chunks.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use protocol::bodies::Bodies;
use protocol::claim::Outcome;
use protocol::ids::ChunkId;
use protocol::limits::{CHUNK_CALLS_MAX, CHUNK_RETENTION};
use protocol::planted::{Bug, planted};
use protocol::retry::RetryPolicy;
use shared::chunk::encode;
use shared::ports::{ChunkReply, ChunkStore, PortError, Ports};
use shared::retry::{Budget, RequestPermits, bounded};
use tracing::error;

use crate::claim_attempt::{ClaimAttempt, State};

/// Stores chunks.
pub struct Chunks {
    chunk_store: Arc<dyn ChunkStore>,
    permits: Arc<RequestPermits>,
    /// Where the bodies of this environment's batches go.
    bodies: Bodies,
}

impl Chunks {
    pub fn new(ports: &Ports, permits: Arc<RequestPermits>, bodies: Bodies) -> Chunks {
        Chunks {
            chunk_store: ports.chunk_store.clone(),
            permits,
            bodies,
        }
    }

    /// Stores the chunks of these attempts, if their bodies belong in chunks. An attempt whose chunk was not stored has the
    /// outcome `Failed` afterwards.
    pub async fn store(&self, attempts: &mut [ClaimAttempt<'_>], budget: &Budget<'_>) {
        let mut chunks: BTreeMap<ChunkId, Vec<&mut ClaimAttempt<'_>>> = BTreeMap::new();
        for attempt in attempts {
            if let Some(chunk) = attempt.seated.seat.chunk_id() {
                chunks.entry(chunk).or_default().push(attempt);
            }
        }
        let stores = chunks
            .into_iter()
            .map(|(chunk, attempts)| self.store_one(chunk, attempts, budget))
            .collect();
        bounded(stores, CHUNK_CALLS_MAX).await;
    }

    async fn store_one(
        &self,
        chunk: ChunkId,
        attempts: Vec<&mut ClaimAttempt<'_>>,
        budget: &Budget<'_>,
    ) {
        if planted(Bug::ClaimBeforeChunk) {
            return;
        }
        let bytes = bytes_of(&attempts);
        let expires_at = budget.clock.now() + CHUNK_RETENTION;
        let unanswered = AtomicBool::new(false);
        let put = || async {
            let bytes = &match unanswered.load(Ordering::Relaxed) && planted(Bug::ChunkRebuilt) {
                true => bytes_of(&attempts[..attempts.len() - 1]),
                false => bytes.clone(),
            };
            let put = self.chunk_store.put(&self.bodies, chunk, bytes, expires_at);
            let reply = self.permits.with(budget, put).await;
            if let Err(PortError::Unknown { .. }) = &reply {
                unanswered.store(true, Ordering::Relaxed);
            }
            reply
        };
        match budget.call(RetryPolicy::ITEMS, put).await {
            Ok(ChunkReply::Stored) => return,
            // An earlier attempt of ours, whose reply was lost.
            Ok(ChunkReply::Exists) if unanswered.into_inner() => return,
            Ok(ChunkReply::Exists) => error!(%chunk, "chunk exists, and is not of this attempt"),
            Err(PortError::Unknown { .. }) if planted(Bug::UnknownChunkTaken) => return,
            Err(error) => error!(%chunk, %error, "chunk not stored"),
        }
        for attempt in attempts {
            attempt.state = State::Done(Outcome::Failed, None);
        }
    }
}

fn bytes_of(attempts: &[&mut ClaimAttempt<'_>]) -> Arc<[u8]> {
    let seated = attempts.iter().map(|attempt| &attempt.seated);
    encode(seated.map(|seated| (seated.seat, seated.candidate))).into()
}
