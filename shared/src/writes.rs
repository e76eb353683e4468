//! Many writes to the lock table: put together into requests, spread over workers, each index key at its pace.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use protocol::ids::BatchShard;
use protocol::limits::PACE_WAIT_MAX;
use protocol::pace::{KeyReply, Paces};
use protocol::retry::RetryPolicy;
use protocol::time::Timestamp;

use crate::calls::Budget;
use crate::ports::PortError;

/// The paces of an environment: what one invocation has learned of a key, the next one knows.
#[derive(Debug, Default)]
pub struct SharedPaces(Mutex<Paces>);

/// What can be written to the lock table.
pub trait Member {
    /// The index key it is written to.
    fn key(&self) -> BatchShard;
}

/// What is still to be written. Its workers each take a request's worth, write it, and put back what is to be repeated.
#[derive(Debug)]
pub struct WriteQueue<'a, M> {
    paces: &'a SharedPaces,
    size: usize,
    lines: Mutex<Lines<M>>,
}

#[derive(Debug)]
struct Lines<M> {
    /// Written as they come, whatever their keys.
    free: VecDeque<M>,
    /// Written key by key, each at its pace.
    paced: BTreeMap<BatchShard, VecDeque<M>>,
    workers: usize,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // What a panic left behind is put right by the table's answers.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<'a, M: Member> WriteQueue<'a, M> {
    /// A queue of `members`, `size` of them a request, for at most `concurrency` workers.
    pub fn new(
        members: Vec<M>,
        size: usize,
        concurrency: usize,
        paces: &'a SharedPaces,
        now: Timestamp,
    ) -> WriteQueue<'a, M> {
        lock(&paces.0).forget_old(now);
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

    /// How many workers it wants. Each must ask [`next`](Self::next) until there is nothing for it.
    pub fn workers(&self) -> usize {
        lock(&self.lines).workers
    }

    /// The next request's worth, once it may be written; empty when this worker is done: nothing is left that the
    /// others could not do as well, or no time.
    pub async fn next(&self, budget: &Budget<'_>) -> Vec<M> {
        let now = budget.clock.now();
        if !budget.open() {
            return Vec::new();
        }
        let (members, start_at) = self.turn(now, budget.stop_at);
        if now < start_at {
            budget.clock.sleep(now.until(start_at)).await;
        }
        members
    }

    fn turn(&self, now: Timestamp, stop_at: Timestamp) -> (Vec<M>, Timestamp) {
        let mut lines = lock(&self.lines);
        let mut paces = lock(&self.paces.0);
        let free_at = |paces: &Paces, key| paces.free_at(key).unwrap_or(Timestamp::EPOCH);
        loop {
            // A key's line that is short gets longer while others are written.
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

    /// Takes in what the table answered for the members of one request, as far as their keys are concerned.
    pub fn replied<'r>(
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
        lock(&self.paces.0).replied(&replies, now);
    }

    /// Puts back what is to be written again: at once what was throttled, which is paced here; after a pause where
    /// requests had no answer, so many in a row. Whether there is time to go on.
    pub async fn repeat(&self, members: Vec<M>, losses: u32, budget: &Budget<'_>) -> bool {
        let in_time = losses == 0 || budget.pause(RetryPolicy::ITEMS, losses).await;
        self.put_back(members);
        in_time
    }

    /// Puts back what is to be written again, by whichever worker comes first.
    pub fn put_back(&self, members: impl IntoIterator<Item = M>) {
        let mut lines = lock(&self.lines);
        for member in members {
            lines.free.push_front(member);
        }
    }

    /// What is left when all workers are done: there was no time for it.
    pub fn into_rest(self) -> Vec<M> {
        let lines = self
            .lines
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner);
        let paced = lines.paced.into_values().flatten();
        lines.free.into_iter().chain(paced).collect()
    }
}

impl<M: Member> Lines<M> {
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

    impl Member for Write {
        fn key(&self) -> BatchShard {
            key(self.key)
        }
    }

    fn key(shard: u16) -> BatchShard {
        let batch = "0190163d-8694-739b-aea5-966c26f8ad91".parse().unwrap();
        BatchShard { batch, shard }
    }

    fn throttled() -> PortError {
        PortError::Throttled {
            service: "DynamoDB",
            message: String::new(),
        }
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

        /// Writes to the first `keys` keys in turn, `count` of them.
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
        assert_eq!(queue.into_rest(), []);
    }

    #[tokio::test]
    async fn a_key_that_throttles_is_written_apart_and_paced_and_the_others_are_not() {
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
    async fn workers_that_would_wait_long_leave_it_to_the_last_one_who_stops_in_time() {
        let world = World::new();
        let queue = world.queue(1_000, 1, 2);
        let now = world.clock.now();
        queue.replied([(key(0), Some(&throttled()))], now);
        let budget = world.budget(Duration::from_millis(500));
        assert_eq!(queue.next(&budget).await.len(), 25);
        // Five requests ahead: more than a worker waits for while there is another one.
        lock(&world.paces.0).take(key(0), 125, now);
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
        assert_eq!(written + queue.into_rest().len(), 1_000);
        assert!(written < 500, "{written}");
    }

    #[tokio::test]
    async fn what_is_put_back_comes_again_and_what_there_is_no_time_for_is_left() {
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
        assert_eq!(queue.into_rest().len(), 30);
    }
}
