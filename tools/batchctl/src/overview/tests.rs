//! Tests of looks at a stack of fakes.

use std::sync::Arc;

use async_trait::async_trait;
use aws::{BatchCatalogue, BatchSummary, Summaries};
use protocol::batch::{BatchRecord, Listing, Status};
use protocol::ids::BatchId;
use shared::memory::Fakes;
use shared::ports::{Overdue, PortError};

use super::*;
use crate::fake_service;

/// An hour after the epoch.
const NOW: Timestamp = Timestamp::from_ms(3_600_000);

/// A catalogue with a batch in processing, which was opened 10 s after the epoch and has delivered nothing.
struct OneBatch(BatchRecord);

impl OneBatch {
    fn new() -> OneBatch {
        let id = "00000000-2710-7000-8000-000000000001".parse().unwrap();
        let source = "arn:aws:sqs:eu-west-1:1:orders".parse().unwrap();
        let at = |secs: u64| Timestamp::from_ms(secs * 1_000);
        let mut record = BatchRecord::open(id, source, None, 1, at(10), at(20));
        record.status = Some(Status::Processing);
        record.due_at = at(30);
        OneBatch(record)
    }
}

#[async_trait]
impl BatchCatalogue for OneBatch {
    async fn listed(
        &self,
        listing: Listing,
        _: Option<Timestamp>,
    ) -> Result<Vec<Overdue>, PortError> {
        let batch = &self.0;
        let is_in = batch.listing() == Some(listing);
        let listed = is_in.then(|| Overdue {
            batch_id: batch.batch_id,
            source: batch.source.clone(),
            due_at: batch.due_at,
        });
        Ok(listed.into_iter().collect())
    }

    async fn summaries(&self, ids: &[BatchId]) -> Result<Summaries, PortError> {
        let batches = ids.iter().map(|_| BatchSummary::of(self.0.clone()));
        Ok(Summaries {
            summaries: batches.collect(),
            malformed: Vec::new(),
        })
    }

    async fn complete(&self, _: Timestamp) -> Result<Summaries, PortError> {
        Ok(Summaries::default())
    }

    async fn of_log(&self) -> Result<Vec<BatchId>, PortError> {
        Ok(Vec::new())
    }
}

#[tokio::test]
async fn looks_add_samples_and_the_second_one_has_rates() {
    let fakes = Fakes::at(NOW);
    let mut service = fake_service::service(&fakes, &[]);
    service.catalogue = Arc::new(OneBatch::new());
    let mut look = Look::default();
    let first = look.look(&service).await.unwrap();
    assert_eq!(first.rates, None);
    assert_eq!((first.counts.processing, first.counts.overdue), (1, 1));
    assert!(first.queues.is_empty() && first.unread.is_empty());
    assert!(first.holds.is_empty());
    fakes.clock.advance(std::time::Duration::from_secs(5));
    let second = look.look(&service).await.unwrap();
    let rates = second.rates.unwrap();
    assert_eq!(
        (rates.reserved_per_second, rates.delivered_per_second),
        (0.0, 0.0)
    );
    let samples = look.history().samples();
    let samples = Vec::from_iter(samples.map(|sample| (sample.at, sample.incomplete)));
    assert_eq!(samples, [(first.at, 1), (second.at, 1)]);
    let json = serde_json::to_value(&second).unwrap();
    assert_eq!(json["processing"], 1, "{json}");
    assert_eq!(json["overdueSince"], 30_000, "{json}");
    assert_eq!(json["oldest"]["openedAt"], 10_000, "{json}");
    assert_eq!(json["alarms"][0]["name"], "BatchesOverdue", "{json}");
}

/// The web console keeps its looks in a task that may move between threads.
#[test]
fn a_look_may_move_between_threads() {
    fn is_send<T: Send>(_: T) {}
    let service = fake_service::service(&Fakes::at(NOW), &[]);
    is_send(Look::default().look(&service));
}
