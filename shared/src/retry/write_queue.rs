//! Bulk writes to the lock table: groups items into requests, spreads them over workers, and limits the rate of each
//! index key.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use protocol::ids::BatchShard;
use protocol::limits::PACE_WAIT_MAX;
use protocol::pace::{KeyReply, Paces};
use protocol::retry::RetryPolicy;
use protocol::time::Timestamp;

use super::budget::{Budget, bounded, joined};
use super::permits::RequestPermits;
use crate::locked::locked;
use crate::ports::PortError;

/// The write rates of an environment, which all its invocations share.
#[derive(Debug, Default)]
pub struct SharedPaces(Mutex<Paces>);

/// An item that is written to one key of the index.
pub trait Keyed {
    fn key(&self) -> BatchShard;
}

/// A kind of write to the lock table (claim, release): how it is sent, and what its replies mean.
#[async_trait]
pub trait Writer: Sync {
    /// One item of the table to be written.
    type Item: Keyed + Send;
    /// The reply for one item.
    type Reply: Send;
    /// The final result for one item.
    type Done: Send;

    /// Returns how many items one request carries at most.
    fn items_per_request(&self) -> usize;

    /// Sends one request; returns a reply for each item, in order.
    async fn send(&self, items: &[Self::Item]) -> Vec<Self::Reply>;

    /// Returns the error in a reply, if there is one.
    fn error(reply: &Self::Reply) -> Option<&PortError>;

    /// Returns the final result for an item after a reply.
    ///
    /// # Errors
    /// The item, if it must be written again.
    fn finish(
        &self,
        item: Self::Item,
        reply: Self::Reply,
        now: Timestamp,
    ) -> Result<Self::Done, Self::Item>;
}

/// Writes many items to the lock table, for all invocations of one environment.
#[derive(Clone, Debug)]
pub struct BulkWriter {
    /// Each request needs one permit.
    pub permits: Arc<RequestPermits>,
    /// The write rates of index keys that throttle.
    paces: Arc<SharedPaces>,
    /// The maximum number of requests in flight of one call.
    pub concurrency: usize,
}

impl BulkWriter {
    /// Returns a writer for an environment that has seen no throttles yet.
    pub fn new(permits: Arc<RequestPermits>, concurrency: usize) -> BulkWriter {
        BulkWriter {
            permits,
            paces: Arc::default(),
            concurrency,
        }
    }

    /// Writes `items`, and retries items that were throttled or had no reply, until all have a final result or the time
    /// is over. Returns the final results, and the items without one.
    pub async fn write_all<W: Writer>(
        &self,
        writer: &W,
        items: Vec<W::Item>,
        budget: &Budget<'_>,
    ) -> (Vec<W::Done>, Vec<W::Item>) {
        let size = writer.items_per_request();
        let now = budget.clock.now();
        let queue = WriteQueue::new(items, size, self.concurrency, &self.paces, now);
        let workers = (0..queue.workers())
            .map(|_| self.work(&queue, writer, budget))
            .collect();
        let done = joined(bounded(workers, self.concurrency).await);
        (done, queue.into_unwritten())
    }

    /// Runs one worker: writes requests from the queue, and puts items that must be written again back into it.
    async fn work<W: Writer>(
        &self,
        queue: &WriteQueue<'_, W::Item>,
        writer: &W,
        budget: &Budget<'_>,
    ) -> Vec<W::Done> {
        let mut done = Vec::new();
        let mut losses = 0;
        loop {
            let items = queue.next(budget).await;
            if items.is_empty() {
                return done;
            }
            // Other invocations of this environment may hold all permits until the time is over.
            let Ok(permit) = self.permits.acquire(budget).await else {
                queue.put_back(items);
                return done;
            };
            let replies = writer.send(&items).await;
            drop(permit);
            let now = budget.clock.now();
            let keys = items.iter().map(Keyed::key);
            queue.replied(keys.zip(replies.iter().map(W::error)), now);
            let mut again = Vec::new();
            let mut lost = false;
            for (item, reply) in items.into_iter().zip(replies) {
                let is_unknown = matches!(W::error(&reply), Some(PortError::Unknown { .. }));
                match writer.finish(item, reply, now) {
                    Ok(known) => done.push(known),
                    Err(item) => {
                        lost |= is_unknown;
                        again.push(item);
                    }
                }
            }
            losses = if lost { losses + 1 } else { 0 };
            if !queue.retry(again, losses, budget).await {
                return done;
            }
        }
    }
}

/// The items that are still to be written. Each worker takes the items of one request, writes them, and puts back those
/// that must be written again.
#[derive(Debug)]
struct WriteQueue<'a, M> {
    paces: &'a SharedPaces,
    size: usize,
    lines: Mutex<Lines<M>>,
}

#[derive(Debug)]
struct Lines<M> {
    /// Items whose keys have no rate. They are written in order.
    free: VecDeque<M>,
    /// Items whose keys have a rate. They are written key by key.
    paced: BTreeMap<BatchShard, VecDeque<M>>,
    workers: usize,
}

impl<'a, M: Keyed> WriteQueue<'a, M> {
    /// Returns a queue of `members`, with `size` of them in a request, for at most `concurrency` workers.
    fn new(
        members: Vec<M>,
        size: usize,
        concurrency: usize,
        paces: &'a SharedPaces,
        now: Timestamp,
    ) -> WriteQueue<'a, M> {
        locked(&paces.0).forget_old(now);
        let size = size.max(1);
        let workers = members.len().div_ceil(size).clamp(1, concurrency.max(1));
        let lines = Lines {
            free: members.into(),
            paced: BTreeMap::new(),
            workers,
        };
        WriteQueue {
            paces,
            size,
            lines: Mutex::new(lines),
        }
    }

    /// Returns how many workers the queue needs. Each worker must call [`next`](Self::next) until it returns nothing.
    fn workers(&self) -> usize {
        locked(&self.lines).workers
    }

    /// Waits until the next request may be sent, and returns its items. Returns nothing when this worker should end:
    /// the other workers can send the remaining requests as fast, or the time is over.
    async fn next(&self, budget: &Budget<'_>) -> Vec<M> {
        let now = budget.clock.now();
        if !budget.has_time() {
            return Vec::new();
        }
        let (members, start_at) = self.next_request(now, budget.stop_at);
        if now < start_at {
            budget.clock.sleep(now.until(start_at)).await;
        }
        members
    }

    fn next_request(&self, now: Timestamp, stop_at: Timestamp) -> (Vec<M>, Timestamp) {
        let mut lines = locked(&self.lines);
        let mut paces = locked(&self.paces.0);
        let free_at = |paces: &Paces, key| paces.free_at(key).unwrap_or(Timestamp::EPOCH);
        loop {
            // A key with few items may get more while other items are written, so full requests go first.
            let soonest = lines
                .paced
                .iter()
                .map(|(key, line)| (free_at(&paces, *key), *key, line.len() >= self.size))
                .filter(|(start_at, _, full)| lines.free.is_empty() || *full && *start_at <= now)
                .map(|(start_at, key, _)| (start_at, key))
                .min();
            if soonest.is_none() && lines.free.is_empty() {
                break;
            }
            let of_table = paces.table_free_at().unwrap_or(now).max(now);
            let start_at = soonest.map_or(of_table, |(start_at, _)| start_at.max(of_table));
            let too_many = now.until(start_at) > PACE_WAIT_MAX && lines.workers > 1;
            if too_many || start_at >= stop_at {
                break;
            }
            if let Some((_, key)) = soonest {
                let members = lines.take_paced(key, self.size);
                paces.take(key, members.len(), now);
                paces.take_of_table(members.len(), now);
                return (members, start_at);
            }
            let mut members = Vec::with_capacity(self.size.min(lines.free.len()));
            while members.len() < self.size
                && let Some(member) = lines.free.pop_front()
            {
                match paces.free_at(member.key()) {
                    None => members.push(member),
                    Some(_) => lines.line_up(member),
                }
            }
            if !members.is_empty() {
                paces.take_of_table(members.len(), now);
                return (members, start_at);
            }
        }
        lines.workers -= 1;
        (Vec::new(), now)
    }

    /// Adjusts the rates of keys and table to the replies of one request.
    fn replied<'r>(
        &self,
        replies: impl IntoIterator<Item = (BatchShard, Option<&'r PortError>)>,
        now: Timestamp,
    ) {
        let mut of_keys: BTreeMap<BatchShard, (u32, u32)> = BTreeMap::new();
        for (key, error) in replies {
            let (passed, throttled) = of_keys.entry(key).or_default();
            match error {
                Some(PortError::Throttled { .. }) => *throttled += 1,
                Some(
                    PortError::Unknown { .. }
                    | PortError::Refused { .. }
                    | PortError::DeadlineReached,
                )
                | None => *passed += 1,
            }
        }
        let replies: Vec<KeyReply> = of_keys
            .into_iter()
            .map(|(key, (passed, throttled))| KeyReply {
                key,
                passed,
                throttled,
            })
            .collect();
        locked(&self.paces.0).replied(&replies, now);
    }

    /// Puts back items that must be written again. After `losses` requests in a row without a reply, it pauses first;
    /// throttled items need no pause, because they wait for the rate of their key. Returns whether there is time to go
    /// on.
    async fn retry(&self, members: Vec<M>, losses: u32, budget: &Budget<'_>) -> bool {
        let in_time = losses == 0 || budget.pause(RetryPolicy::ITEMS, losses).await;
        self.put_back(members);
        in_time
    }

    /// Puts items back, for any worker.
    fn put_back(&self, members: impl IntoIterator<Item = M>) {
        let mut lines = locked(&self.lines);
        for member in members {
            lines.free.push_front(member);
        }
    }

    /// Returns the items that were not written in time.
    fn into_unwritten(self) -> Vec<M> {
        let lines = self.lines.into_inner();
        let lines = lines.unwrap_or_else(PoisonError::into_inner);
        let paced = lines.paced.into_values().flatten();
        lines.free.into_iter().chain(paced).collect()
    }
}

impl<M: Keyed> Lines<M> {
    fn line_up(&mut self, member: M) {
        self.paced
            .entry(member.key())
            .or_default()
            .push_back(member);
    }

    fn take_paced(&mut self, key: BatchShard, size: usize) -> Vec<M> {
        let Some(line) = self.paced.get_mut(&key) else {
            return Vec::new();
        };
        let members = line.drain(..size.min(line.len())).collect();
        if line.is_empty() {
            self.paced.remove(&key);
        }
        members
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::memory::{ManualClock, SeededEntropy};
    use crate::ports::Clock;

    #[derive(Debug, PartialEq)]
    struct Write {
        key: u16,
        number: usize,
    }

    impl Keyed for Write {
        fn key(&self) -> BatchShard {
            key(self.key)
        }
    }

    fn key(shard: u16) -> BatchShard {
        let batch = "0190163d-8694-739b-aea5-966c26f8ad91".parse().unwrap();
        BatchShard { batch, shard }
    }

    fn throttled() -> PortError {
        PortError::throttled("DynamoDB", "")
    }

    struct World {
        clock: ManualClock,
        entropy: SeededEntropy,
        paces: SharedPaces,
    }

    impl World {
        fn new() -> World {
            World {
                clock: ManualClock::at(Timestamp::from_ms(1_000_000)),
                entropy: SeededEntropy::new(1),
                paces: SharedPaces::default(),
            }
        }

        fn budget(&self, time: Duration) -> Budget<'_> {
            Budget {
                clock: &self.clock,
                entropy: &self.entropy,
                stop_at: self.clock.now() + time,
            }
        }

        /// Returns a queue of `count` writes to the first `keys` keys in turn.
        fn queue(&self, count: usize, keys: u16, concurrency: usize) -> WriteQueue<'_, Write> {
            let write = |number: usize| Write {
                key: (number % usize::from(keys)) as u16,
                number,
            };
            let writes = (0..count).map(write).collect();
            WriteQueue::new(writes, 25, concurrency, &self.paces, self.clock.now())
        }
    }

    #[tokio::test]
    async fn without_throttles_requests_are_full_and_nothing_waits() {
        let world = World::new();
        let queue = world.queue(60, 10, 64);
        assert_eq!(queue.workers(), 3, "no more than there are requests");
        let budget = world.budget(Duration::from_secs(10));
        let before = world.clock.now();
        for expected in [25, 25, 10, 0] {
            assert_eq!(queue.next(&budget).await.len(), expected);
        }
        assert_eq!(world.clock.now(), before);
        assert_eq!(queue.into_unwritten(), []);
    }

    #[tokio::test]
    async fn only_a_key_that_throttles_is_written_separately_and_paced() {
        let world = World::new();
        let queue = world.queue(500, 10, 1);
        let budget = world.budget(Duration::from_secs(10));
        let now = world.clock.now();
        queue.replied([(key(3), Some(&throttled())), (key(4), None)], now);
        let (mut paced, mut others, mut longest) = (0, 0, 0);
        loop {
            let before = world.clock.now();
            let members = queue.next(&budget).await;
            let Some(first) = members.first() else { break };
            let waited = before.until(world.clock.now());
            if first.key == 3 {
                assert!(members.iter().all(|member| member.key == 3));
                paced += members.len();
                longest = longest.max(waited.as_millis());
            } else {
                assert!(members.iter().all(|member| member.key != 3));
                assert_eq!(waited, Duration::ZERO);
                others += members.len();
            }
        }
        assert_eq!((paced, others), (50, 450));
        assert_eq!(longest, 25, "25 writes at 1,000 a second");
    }

    #[tokio::test]
    async fn all_workers_but_one_end_when_the_wait_is_long() {
        let world = World::new();
        let queue = world.queue(1_000, 1, 2);
        let now = world.clock.now();
        queue.replied([(key(0), Some(&throttled()))], now);
        let budget = world.budget(Duration::from_millis(500));
        assert_eq!(queue.next(&budget).await.len(), 25);
        // Five requests ahead: more than a worker waits for while there is another one.
        locked(&world.paces.0).take(key(0), 125, now);
        assert_eq!(queue.next(&budget).await, []);
        let mut written = 25;
        loop {
            let members = queue.next(&budget).await;
            if members.is_empty() {
                break;
            }
            written += members.len();
        }
        assert!(world.clock.now() < budget.stop_at);
        assert_eq!(written + queue.into_unwritten().len(), 1_000);
        assert!(written < 500, "{written}");
    }

    #[tokio::test]
    async fn items_that_are_put_back_come_again_and_unwritten_ones_are_returned() {
        let world = World::new();
        let queue = world.queue(30, 3, 8);
        let budget = world.budget(Duration::from_secs(1));
        let first = queue.next(&budget).await;
        queue.put_back(first);
        let again = queue.next(&budget).await;
        assert_eq!(again.len(), 25);
        let over = world.budget(Duration::ZERO);
        assert_eq!(queue.next(&over).await, []);
        queue.put_back(again);
        assert_eq!(queue.into_unwritten().len(), 30);
    }
}
