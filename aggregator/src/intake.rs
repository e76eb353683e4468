//! Brings the messages of an invocation into batches of the log: stores them as a load, reserves seats in the current batch of each
//! scope, and fills the slots of the reservations.
//!
//! Every message is a line, also if another has the same event id: duplicates are decided when the batch is closed. A message is
//! acknowledged only if the slot that has its line is known to have this invocation's value.

use std::collections::BTreeMap;
use std::sync::Arc;

use protocol::ids::{BatchId, ObjectId};
use protocol::limits::{LINES_WAIT_MAX, LOG_RETENTION};
use protocol::log::object_hash;
use protocol::scope::CurrentBatch;
use protocol::slot::{Frame, Slot};
use shared::load::encode_frame;
use shared::ports::{Entropy, ObjectStore, PortError, Ports};
use shared::retry::{Budget, NotStored, ObjectRules, RequestPermits, bounded, store_object};
use shared::traces::names::ITEMS_COUNT;
use shared::traces::span;
use tracing::{error, warn};

use crate::config::Config;
use crate::drain_detector::ReceivedCounts;
use crate::grants::{Grants, Reply, Waiting};
use crate::invocation::{Budgets, InvocationCounts};
use crate::records::Record;

/// Brings messages into batches of the log.
pub(crate) struct Intake {
    grants: Grants,
    object_store: Arc<dyn ObjectStore>,
    entropy: Arc<dyn Entropy>,
    permits: Arc<RequestPermits>,
    rules: ObjectRules,
    concurrency: usize,
}

/// The outcome of the lines of a scope.
#[derive(Default)]
struct Taken {
    /// The positions of the messages that may be acknowledged.
    acknowledged: Vec<usize>,
    /// The batches that have one of them.
    batches: Vec<CurrentBatch>,
}

impl Intake {
    pub(crate) fn new(
        config: &Config,
        ports: &Ports,
        grants: Grants,
        permits: Arc<RequestPermits>,
    ) -> Intake {
        Intake {
            grants,
            object_store: ports.object_store.clone(),
            entropy: ports.entropy.clone(),
            permits,
            rules: ObjectRules {
                bodies: config.bodies.clone(),
                sizes: config.object_sizes,
                retention: LOG_RETENTION,
            },
            concurrency: config.common.write_concurrency,
        }
    }

    /// Brings messages into their batches. Returns for each whether it may be acknowledged.
    pub(crate) async fn take(
        &self,
        records: &[&Record],
        received: &ReceivedCounts<'_>,
        budgets: &Budgets<'_>,
        counts: &InvocationCounts,
    ) -> Vec<bool> {
        let mut acknowledged = vec![false; records.len()];
        let (all, _) = self.grants.admit(records, &budgets.claims).await;
        let store = span("store").count(ITEMS_COUNT, records.len());
        let frames = match store.run(self.store(&all, records, &budgets.claims)).await {
            Ok(frames) => frames,
            Err(error) => {
                error!(%error, "load not stored");
                return acknowledged;
            }
        };
        let take = |(lines, frame)| self.take_lines(lines, frame, records, &budgets.claims, counts);
        let taken = all.into_iter().zip(&frames).map(take).collect();
        let mut urgent: BTreeMap<BatchId, CurrentBatch> = BTreeMap::new();
        for taken in bounded(taken, self.concurrency).await {
            let positions = taken.acknowledged;
            if positions.iter().any(|index| records[*index].is_urgent) {
                let batches = taken.batches.into_iter();
                urgent.extend(batches.map(|current| (current.batch, current)));
            }
            for index in positions {
                acknowledged[index] = true;
            }
        }
        self.grants
            .seal_due(urgent, received, budgets, counts)
            .await;
        acknowledged
    }

    /// Stores the messages as a load. Returns the frame of each scope, with all its lines.
    async fn store(
        &self,
        all: &[Waiting<'_>],
        records: &[&Record],
        budget: &Budget<'_>,
    ) -> Result<Vec<Frame>, NotStored> {
        if all.is_empty() {
            return Ok(Vec::new());
        }
        let mut bytes = Vec::new();
        let mut frames = Vec::with_capacity(all.len());
        let load = self.entropy.object_name();
        // Before it is stored: a line is decided by this time, and no duplicate that came earlier may win.
        let stored_at = budget.clock.now();
        for lines in all {
            let message = |index: &usize| &records[*index].candidate;
            let frame = encode_frame(lines.positions.iter().map(message));
            let start = bytes.len() as u64;
            bytes.extend(&frame);
            frames.push(Frame {
                load,
                bodies: self.rules.bodies.clone(),
                bytes: start..bytes.len() as u64,
                lines: 0..lines.positions.len() as u32,
                first_seq: 0,
                stored_at,
                hash: object_hash(&frame),
            });
        }
        let (store, permits) = (&*self.object_store, &*self.permits);
        let object = ObjectId::Load(load);
        // Half of the time, so that a slow request leaves time for the slots.
        let half = budget.half();
        store_object(store, &self.rules, object, &bytes, permits, &half).await?;
        Ok(frames)
    }

    /// Brings the lines of a scope into its current batch, and what does not fit into the next ones.
    async fn take_lines(
        &self,
        mut lines: Waiting<'_>,
        frame: &Frame,
        records: &[&Record],
        budget: &Budget<'_>,
        counts: &InvocationCounts,
    ) -> Taken {
        let mut taken = Taken::default();
        let size = |index: &usize| records[*index].candidate.content_bytes() as u64;
        let sizes: Vec<u64> = lines.positions.iter().map(size).collect();
        let mut from = 0;
        while from < sizes.len() && budget.has_time() {
            match self
                .take_some(&mut lines, from, &sizes, frame, budget, counts)
                .await
            {
                Ok(None) => {}
                Ok(Some((current, count))) => {
                    taken
                        .acknowledged
                        .extend(&lines.positions[from..from + count]);
                    taken.batches.push(current);
                    from += count;
                }
                Err(error) => {
                    warn!(source = %lines.scope.source, %error, "lines not brought into a batch");
                    break;
                }
            }
        }
        taken
    }

    /// Brings lines from number `from` on into the current batch. Returns the batch and how many; `None` if it took none.
    async fn take_some(
        &self,
        lines: &mut Waiting<'_>,
        from: usize,
        sizes: &[u64],
        frame: &Frame,
        budget: &Budget<'_>,
        counts: &InvocationCounts,
    ) -> Result<Option<(CurrentBatch, usize)>, PortError> {
        let (grants, refused) = (&self.grants, lines.refused);
        let current = grants.scopes.find(lines.scope, refused, budget, counts);
        let current = current.await?;
        let until = budget.clock.now() + LINES_WAIT_MAX;
        let reply = grants.reserve(&current, &sizes[from..], until, budget, counts);
        let grant = match reply.await? {
            Reply::Granted(grant) => *grant,
            Reply::Refused { .. } => {
                lines.refused = Some(current.batch);
                return Ok(None);
            }
            Reply::Unannounced => return Ok(None),
        };
        let next = from + grant.count;
        let value = Slot::Filled(Frame {
            lines: from as u32..next as u32,
            first_seq: grant.first_seq,
            ..frame.clone()
        });
        if !grants.fill(&grant, &value, budget).await? {
            lines.refused = Some(current.batch);
            return Ok(None);
        }
        let next = sizes.get(next).copied();
        if grants.seal_if_full(&grant, next, budget, counts).await {
            lines.refused = Some(current.batch);
        }
        Ok(Some((current, grant.count)))
    }
}
