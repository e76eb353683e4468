//! The lives of the batches of a run, for its record.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use planner::{BatchSpan, Flushed};
use protocol::batch::{BatchRecord, PartState};
use protocol::ids::BatchId;
use protocol::time::Timestamp;

use super::Stack;
use crate::batch_life::{BatchLife, PartDelivery};

impl Stack {
    /// Returns the lives of all batches that have had a claim, in the order in which they were opened. Times count from
    /// `began`. `leased` says when a batch was first leased, `body_bytes` is the size of every body.
    pub async fn batch_lives(
        &self,
        began: SystemTime,
        leased: &BTreeMap<BatchId, SystemTime>,
        body_bytes: usize,
    ) -> anyhow::Result<Vec<BatchLife>> {
        let rule = FlushRule {
            items_max: self.batch_items_max(body_bytes)?,
            when_drained: self.seals_when_drained(),
        };
        let mut lives = Vec::new();
        for id in self.meter.counts().last_claims.into_keys() {
            let record = self.record(id).await?;
            let leased = leased.get(&id).map(|at| since(began, *at));
            lives.extend(record.map(|record| life(&record, began, leased, rule)));
        }
        lives.sort_by(|one, other| one.span.opened_secs.total_cmp(&other.span.opened_secs));
        Ok(lives)
    }

    /// Returns whether the functions seal batches when the input queue is empty, at first or after a redeploy.
    fn seals_when_drained(&self) -> bool {
        let redeployed = self.redeploys.variables();
        let variables = std::iter::once(&self.variables).chain(redeployed);
        let mut values = variables.filter_map(|each| each.get("SEAL_WHEN_DRAINED"));
        values.any(|value| value == "on")
    }
}

/// What decides why a batch was closed. The record does not say it.
#[derive(Clone, Copy, Debug)]
struct FlushRule {
    /// The number of items of a full batch.
    items_max: u64,
    /// Whether batches are sealed when the input queue is empty.
    when_drained: bool,
}

impl FlushRule {
    fn flushed(self, record: &BatchRecord) -> Flushed {
        match record.sealed_at {
            Some(_) if seats_taken(record) >= self.items_max => Flushed::Full,
            Some(_) if self.when_drained => Flushed::Drained,
            // Also a batch that was sealed for another reason.
            Some(_) | None => Flushed::Window,
        }
    }
}

/// Returns how many seats of a batch were given out.
pub(super) fn seats_taken(record: &BatchRecord) -> u64 {
    let reservations = record.reservations.as_ref();
    // A version before 0.3 reserved none.
    reservations.map_or(record.confirmed + record.uncertain, |one| one.reserved)
}

fn life(
    record: &BatchRecord,
    began: SystemTime,
    leased_secs: Option<f64>,
    rule: FlushRule,
) -> BatchLife {
    let secs = |at: Timestamp| since(began, UNIX_EPOCH + Duration::from_millis(at.as_ms()));
    let parts = record.parts.iter().map(|part| PartDelivery {
        events: part.count,
        at_secs: match part.state {
            PartState::Delivered { at, .. } => at.map(secs),
            PartState::Frozen | PartState::SetAside => None,
        },
    });
    let parts = Vec::from_iter(parts);
    let all: Option<Vec<f64>> = parts.iter().map(|part| part.at_secs).collect();
    BatchLife {
        id: record.batch_id,
        span: BatchSpan {
            batch_id: record.batch_id.to_string(),
            batch_key: record.batch_key.as_ref().map(ToString::to_string),
            opened_secs: secs(record.created_at),
            sealed_secs: Some(secs(record.sealed_at.unwrap_or(record.closes_at))),
            leased_secs,
            delivered_secs: all.and_then(|all| all.into_iter().reduce(f64::max)),
            events: parts.iter().map(|part| part.events).sum(),
            parts: parts.len() as u64,
            flushed: Some(rule.flushed(record)),
            invocations: record.reservations.as_ref().map(|one| one.slots.into()),
        },
        parts,
    }
}

/// Returns the seconds from one time to another; 0 if the clock was set back between them.
fn since(began: SystemTime, at: SystemTime) -> f64 {
    at.duration_since(began).unwrap_or_default().as_secs_f64()
}

#[cfg(test)]
mod tests {
    use protocol::batch::{PartRecord, Reservations};
    use protocol::seqs::SeqSet;

    use super::*;

    fn record() -> BatchRecord {
        let batch = "0190163d-8694-739b-aea5-966c26f8ad91".parse().unwrap();
        let source = "arn:aws:sqs:us-east-1:000000000000:input-queue";
        let source = source.parse().unwrap();
        let at = Timestamp::from_ms;
        BatchRecord::open(batch, source, None, 1, at(10_000), at(15_000))
    }

    fn life_of(record: &BatchRecord, when_drained: bool) -> BatchSpan {
        let rule = FlushRule {
            items_max: 100,
            when_drained,
        };
        life(record, UNIX_EPOCH + Duration::from_secs(9), Some(7.0), rule).span
    }

    #[test]
    fn a_batch_is_closed_by_its_seal_or_by_its_window() {
        let mut record = record();
        let span = life_of(&record, true);
        assert_eq!((span.opened_secs, span.sealed_secs), (1.0, Some(6.0)));
        assert_eq!(span.flushed, Some(Flushed::Window));
        record.sealed_at = Some(Timestamp::from_ms(12_000));
        assert_eq!(life_of(&record, true).sealed_secs, Some(3.0));
        assert_eq!(life_of(&record, true).flushed, Some(Flushed::Drained));
        assert_eq!(life_of(&record, false).flushed, Some(Flushed::Window));
        (record.confirmed, record.uncertain) = (98, 2);
        assert_eq!(life_of(&record, true).flushed, Some(Flushed::Full));
        for (reserved, flushed) in [(99, Flushed::Drained), (100, Flushed::Full)] {
            record.reservations = Some(Reservations {
                reserved,
                slots: 7,
                ..Reservations::default()
            });
            let span = life_of(&record, true);
            assert_eq!((span.flushed, span.invocations), (Some(flushed), Some(7)));
        }
    }

    #[test]
    fn a_batch_is_delivered_with_its_last_part_and_not_before() {
        let mut record = record();
        let mut part = PartRecord::frozen(SeqSet::from_iter([1, 2, 3]), [0; 32], None);
        let delivered = |secs: u64| PartState::Delivered {
            receipt: String::new(),
            at: Some(Timestamp::from_ms(secs * 1_000)),
        };
        part.state = delivered(16);
        record.parts.push(part.clone());
        part.state = PartState::Frozen;
        record.parts.push(part);
        let span = life_of(&record, false);
        assert_eq!((span.events, span.parts, span.delivered_secs), (6, 2, None));
        record.parts[1].state = delivered(18);
        assert_eq!(life_of(&record, false).delivered_secs, Some(9.0));
    }
}
