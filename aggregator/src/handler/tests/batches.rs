//! Batches: records, tickets, windows, keys and deadlines.

use async_trait::async_trait;
use protocol::batch::{BatchWrite, Status};
use protocol::ids::BatchId;
use shared::memory::MemoryBatchStore;
use shared::ports::{BatchReply, BatchStore, ListPage, ListPosition, ListShard, PortError};
use shared::wire::TicketReason;

use super::*;

#[tokio::test]
async fn claims_are_counted_in_a_batch_that_has_a_record_and_a_ticket() {
    let aggregator = aggregator_with(&[]);
    let messages = [("m1", "e1", ""), ("m2", "e2", "")];
    assert!(invoke(&aggregator, &messages).await.is_empty());
    let record = only_batch(&aggregator);
    assert_eq!(record.status, Some(Status::Open));
    let counts = counts(&aggregator, &record);
    assert_eq!((counts.confirmed, counts.settled.len()), (2, 2));
    let tickets = aggregator.fakes.batch_queue.take();
    let [(ticket, delay)] = &tickets[..] else {
        panic!("one ticket: {tickets:?}");
    };
    assert_eq!(ticket.batch_id, record.batch_id);
    assert_eq!(ticket.reason, Some(TicketReason::Window));
    // 300 s of window, 2 s of clock skew.
    assert_eq!(*delay, Duration::from_secs(302));
    assert!(aggregator.fakes.metric_log.take()[0].contains(r#""Claimed":2"#));
}

#[tokio::test]
async fn later_invocations_join_the_batch_until_its_window_closes() {
    let aggregator = aggregator_with(&[]);
    invoke(&aggregator, &[("m1", "e1", "")]).await;
    aggregator.fakes.clock.advance(Duration::from_secs(299));
    invoke(&aggregator, &[("m2", "e2", "")]).await;
    assert_eq!(only_batch(&aggregator).reservations.unwrap().slots, 2);
    aggregator.fakes.clock.advance(Duration::from_secs(1));
    invoke(&aggregator, &[("m3", "e3", "")]).await;
    let records = aggregator.fakes.batch_store.records();
    assert_eq!(records.len(), 2);
    // The ticket of its window has it processed.
    assert_eq!(records[0].status, Some(Status::Open));
    let tickets = aggregator.fakes.batch_queue.take().into_iter();
    let reasons = tickets.map(|(ticket, _)| ticket.reason.unwrap());
    assert_eq!(Vec::from_iter(reasons), [TicketReason::Window; 2]);
}

#[tokio::test]
async fn each_batch_key_has_a_batch_of_its_own_up_to_the_cap() {
    let aggregator = aggregator_with(&[("BATCH_KEY", "content"), ("BATCH_KEYS_MAX", "2")]);
    let messages = [
        ("m1", "e1", "a"),
        ("m2", "e2", "b"),
        ("m3", "e3", "a"),
        ("m4", "e4", "c"),
        ("m5", "e5", "c"),
    ];
    assert_eq!(invoke(&aggregator, &messages).await, ["m4", "m5"]);
    let records = aggregator.fakes.batch_store.records();
    let of = |record: &BatchRecord| {
        let key = record.batch_key.as_ref().unwrap();
        (key.to_string(), confirmed_in(&aggregator, record))
    };
    let mut batches: Vec<_> = records.iter().map(of).collect();
    batches.sort();
    assert_eq!(batches, [("a".to_owned(), 2), ("b".to_owned(), 1)]);
}

#[tokio::test]
async fn an_invocation_that_begins_within_the_margin_fails_with_both_times_and_starts_nothing() {
    let aggregator = aggregator_with(&[]);
    let deadline = aggregator.fakes.clock.now() + Duration::from_millis(2_999);
    let messages = [("m1", "e1", ""), ("m2", "e2", "")];
    let error = try_invoke_until(&aggregator, &messages, deadline).await;
    let error = error.unwrap_err().to_string();
    let words = "`DEADLINE_MARGIN_MS`: as long as the timeout, or longer: got `3000`, expected less than 2999, ";
    assert!(error.starts_with(words), "{error}");
    assert!(aggregator.fakes.batch_store.records().is_empty());
    assert!(aggregator.fakes.lock_store.items().is_empty());
}

/// A batch table in which a batch completes right before a witness would come.
struct CompletesBeforeWitness(Arc<MemoryBatchStore>);

#[async_trait]
impl BatchStore for CompletesBeforeWitness {
    async fn create(&self, record: &BatchRecord) -> Result<(), PortError> {
        self.0.create(record).await
    }

    async fn read(&self, batch: BatchId) -> Result<Option<BatchRecord>, PortError> {
        self.0.read(batch).await
    }

    async fn write(&self, batch: BatchId, write: &BatchWrite) -> Result<BatchReply, PortError> {
        if matches!(write, BatchWrite::Witness { .. }) {
            let record = self.0.get(batch).unwrap();
            self.0.remove(batch);
            let complete = BatchRecord {
                status: None,
                completed_at: Some(START),
                ..record
            };
            self.0.create(&complete).await?;
        }
        self.0.write(batch, write).await
    }

    async fn overdue(
        &self,
        list: ListShard,
        due_before: Timestamp,
        after: Option<&ListPosition>,
    ) -> Result<ListPage, PortError> {
        self.0.overdue(list, due_before, after).await
    }
}

#[tokio::test]
async fn claims_whose_batch_was_closed_before_are_witnessed() {
    let aggregator = aggregator_with(&[]);
    invoke(&aggregator, &[("m1", "e1", "")]).await;
    close_next_slot(&aggregator).await;
    let messages = [("m2", "e2", ""), ("m3", "e1", "")];
    assert!(invoke(&aggregator, &messages).await.is_empty());
    let record = only_batch(&aggregator);
    // Its own claim; the environment remembers the other one.
    assert_eq!(record.witnessed, [1].into_iter().collect());
    assert_eq!(confirmed(&aggregator), 1);
}

#[tokio::test]
async fn a_duplicate_of_another_environment_is_witnessed_in_the_slot() {
    let aggregator = aggregator_with(&[]);
    invoke(&aggregator, &[("m1", "e1", ""), ("m2", "e2", "")]).await;
    let other = another(&aggregator, &[]);
    assert!(invoke(&other, &[("m3", "e2", "")]).await.is_empty());
    let record = only_batch(&other);
    assert_eq!(counts(&other, &record).witnessed, [1].into_iter().collect());
    assert!(record.witnessed.is_empty());
    // If the slot is a hole, the record has the witness.
    close_next_slot(&other).await;
    let third = another(&aggregator, &[]);
    assert!(invoke(&third, &[("m4", "e1", "")]).await.is_empty());
    assert_eq!(only_batch(&third).witnessed, [0].into_iter().collect());
}

#[tokio::test]
async fn a_claim_whose_batch_ended_before_it_was_counted_is_not_acknowledged() {
    let aggregator = aggregator_with(&[]);
    invoke(&aggregator, &[("m1", "e1", "")]).await;
    let record = close_next_slot(&aggregator).await;
    let store = CompletesBeforeWitness(aggregator.fakes.batch_store.clone());
    let ports = Ports {
        batch_store: Arc::new(store),
        ..aggregator.fakes.ports()
    };
    let late = environment(config_of(&[]), aggregator.fakes.clone(), ports);
    assert_eq!(invoke(&late, &[("m2", "e2", "")]).await, ["m2"]);
    let complete = late.fakes.batch_store.get(record.batch_id).unwrap();
    assert_eq!(complete.status, None);
}
