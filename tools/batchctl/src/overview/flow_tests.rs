//! Tests of the flow, with a catalogue in memory.

use std::sync::Mutex;

use async_trait::async_trait;
use aws::Summaries;
use protocol::batch::Listing;
use shared::locked::locked;
use shared::ports::Overdue;
use uuid::Uuid;

use super::*;
use crate::filter::summary;

/// The records of a stack, by their ids, and the ids that were read at last.
#[derive(Default)]
struct Records {
    batches: Mutex<BTreeMap<BatchId, BatchSummary>>,
    read: Mutex<Vec<BatchId>>,
}

#[async_trait]
impl BatchCatalogue for Records {
    async fn listed(&self, _: Listing, _: Option<Timestamp>) -> Result<Vec<Overdue>, PortError> {
        Ok(Vec::new())
    }

    async fn summaries(&self, ids: &[BatchId]) -> Result<Summaries, PortError> {
        *locked(&self.read) = ids.to_vec();
        let batches = locked(&self.batches);
        let found = ids.iter().filter_map(|id| batches.get(id).cloned());
        Ok(Summaries {
            summaries: found.collect(),
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

impl Records {
    /// Writes a record: its status, and how many events it has, were delivered and were rejected.
    fn write(&self, number: u128, status: Option<Status>, events: [u64; 3]) {
        let id = BatchId::new(Uuid::from_u128(number << 80));
        let [reserved, delivered, rejected] = events;
        let batch = BatchSummary {
            batch_id: id,
            reserved: Some(reserved),
            delivered,
            rejected,
            ..summary(status)
        };
        locked(&self.batches).insert(id, batch);
    }

    /// Returns the records that are not complete, as the index shows them.
    fn index(&self) -> BTreeMap<BatchId, Status> {
        let batches = locked(&self.batches);
        let statuses = batches.iter().map(|(id, batch)| Some((*id, batch.status?)));
        statuses.flatten().collect()
    }

    /// Returns the numbers of the records that were read at last.
    fn read(&self) -> Vec<u128> {
        let read = locked(&self.read);
        let numbers = read.iter().map(|id| id.opened_at().as_ms().into());
        numbers.collect()
    }
}

const OPEN: Option<Status> = Some(Status::Open);
const SEALED: Option<Status> = Some(Status::Sealed);
const PROCESSING: Option<Status> = Some(Status::Processing);
const ERROR: Option<Status> = Some(Status::Error);

/// Looks once, and returns what was added: reserved, delivered, rejected.
async fn look(flow: &mut Flow, records: &Records, secs: u64) -> Option<[u64; 3]> {
    let index = records.index();
    let now = Timestamp::from_ms(secs * 1_000);
    let added = flow.look(records, &index, now).await.unwrap()?;
    Some([added.reserved, added.delivered, added.rejected])
}

#[tokio::test]
async fn events_that_are_there_at_the_first_look_are_not_counted() {
    let (mut flow, records) = (Flow::default(), Records::default());
    records.write(1, PROCESSING, [10, 4, 0]);
    assert_eq!(look(&mut flow, &records, 0).await, None);
    assert_eq!(look(&mut flow, &records, 2).await, Some([0, 0, 0]));
    records.write(1, PROCESSING, [10, 9, 1]);
    records.write(2, OPEN, [5, 0, 0]);
    assert_eq!(look(&mut flow, &records, 4).await, Some([5, 5, 1]));
}

#[tokio::test]
async fn a_batch_that_completes_is_read_once_more() {
    let (mut flow, records) = (Flow::default(), Records::default());
    records.write(1, PROCESSING, [10, 4, 0]);
    look(&mut flow, &records, 0).await;
    records.write(1, None, [10, 10, 0]);
    assert_eq!(look(&mut flow, &records, 2).await, Some([0, 6, 0]));
    assert_eq!(records.read(), [1]);
    assert_eq!(look(&mut flow, &records, 4).await, Some([0, 0, 0]));
    assert_eq!(records.read(), []);
}

#[tokio::test]
async fn a_batch_that_the_index_loses_for_a_moment_is_counted_once() {
    let (mut flow, records) = (Flow::default(), Records::default());
    records.write(1, PROCESSING, [10, 4, 0]);
    look(&mut flow, &records, 0).await;
    let nothing = BTreeMap::new();
    for secs in [2, 4] {
        let now = Timestamp::from_ms(secs * 1_000);
        let added = flow.look(&records, &nothing, now).await.unwrap().unwrap();
        assert_eq!((added.delivered, records.read()), (0, vec![1]));
    }
    records.write(1, PROCESSING, [10, 5, 0]);
    assert_eq!(look(&mut flow, &records, 6).await, Some([0, 1, 0]));
}

#[tokio::test]
async fn batches_that_neither_get_nor_deliver_events_are_read_once() {
    let (mut flow, records) = (Flow::default(), Records::default());
    records.write(1, SEALED, [10, 0, 0]);
    records.write(2, ERROR, [10, 3, 0]);
    records.write(3, OPEN, [1, 0, 0]);
    look(&mut flow, &records, 0).await;
    assert_eq!(records.read(), [3, 2, 1]);
    look(&mut flow, &records, 2).await;
    assert_eq!(records.read(), [3]);
    records.write(3, SEALED, [8, 0, 0]);
    assert_eq!(look(&mut flow, &records, 4).await, Some([7, 0, 0]));
    assert_eq!(look(&mut flow, &records, 6).await, Some([0, 0, 0]));
    assert_eq!(records.read(), []);
}

#[tokio::test]
async fn of_many_batches_those_that_deliver_are_read_first_and_then_the_newest() {
    let (mut flow, records) = (Flow::default(), Records::default());
    for number in 1..=600 {
        records.write(number, SEALED, [10, 0, 0]);
    }
    records.write(7, PROCESSING, [10, 0, 0]);
    look(&mut flow, &records, 0).await;
    let read = records.read();
    assert_eq!((read.len(), &read[..3]), (500, &[7, 600, 599][..]));
    // Of a batch that was not read, it is known that it had delivered nothing.
    records.write(8, None, [10, 10, 0]);
    records.write(9, PROCESSING, [10, 2, 0]);
    records.write(7, None, [10, 9, 1]);
    assert_eq!(look(&mut flow, &records, 2).await, Some([0, 21, 1]));
    let read = records.read();
    assert_eq!(&read[..4], &[8, 7, 9, 101]);
}

#[test]
fn rates_are_by_the_second() {
    let added = Added {
        reserved: 30,
        delivered: 15,
        rejected: 0,
        over: Duration::from_secs(3),
    };
    let rates = added.rates().unwrap();
    assert_eq!(rates.reserved_per_second, 10.0);
    assert_eq!(rates.delivered_per_second, 5.0);
    assert_eq!(Added::default().rates(), None);
}
