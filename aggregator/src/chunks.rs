//! Stores the bodies of a claim round in chunks, before the claims that name them.

use std::collections::BTreeMap;
use std::sync::Arc;

use protocol::claim::Outcome;
use protocol::ids::ChunkId;
use protocol::limits::{CHUNK_CALLS_MAX, CHUNK_RETENTION};
use shared::chunk::encode;
use shared::ports::{ChunkStore, Ports};
use shared::retry::{Budget, ObjectRules, RequestPermits, bounded, store_object};
use tracing::error;

use crate::claim_attempt::{ClaimAttempt, State};
use crate::config::Config;

/// Stores chunks.
pub struct Chunks {
    chunk_store: Arc<dyn ChunkStore>,
    permits: Arc<RequestPermits>,
    /// Where the bodies of this environment's batches go.
    rules: ObjectRules,
}

impl Chunks {
    pub fn new(config: &Config, ports: &Ports, permits: Arc<RequestPermits>) -> Chunks {
        Chunks {
            chunk_store: ports.chunk_store.clone(),
            permits,
            rules: ObjectRules {
                bodies: config.bodies.clone(),
                sizes: config.chunk_sizes,
                retention: CHUNK_RETENTION,
            },
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
        let bytes = bytes_of(&attempts);
        let (store, permits) = (&*self.chunk_store, &*self.permits);
        let stored = store_object(store, &self.rules, chunk, &bytes, permits, budget);
        let Err(error) = stored.await else {
            return;
        };
        error!(batch_id = %chunk.batch, %chunk, %error, "chunk not stored");
        for attempt in attempts {
            attempt.state = State::Done(Outcome::Failed, None);
        }
    }
}

fn bytes_of(attempts: &[&mut ClaimAttempt<'_>]) -> Vec<u8> {
    let seated = attempts.iter().map(|attempt| &attempt.seated);
    encode(seated.map(|seated| (seated.seat, seated.candidate)))
}
