//! Decides which messages go into the next request, and when.
//!
//! A message is sent when it is due. It waits for others only if they are due within the linger time: at a low rate every
//! message has a request of its own, at a high rate every request is full. Messages that are overdue fill the next
//! request.

use std::collections::VecDeque;
use std::time::Duration;

use super::queue::{REQUEST_BYTES_MAX, REQUEST_ENTRIES_MAX};
use super::state::Left;
use crate::schedule::Schedule;
use crate::workload::Workload;

/// The messages that were not taken yet. Times are from the start of this run.
pub(super) struct Feed {
    /// Messages that an earlier run left, which come first.
    left: VecDeque<Left>,
    /// The first message that was never taken.
    pub next: u64,
    linger: Duration,
    pub schedule: Schedule,
    /// When the first message of this run is due, from the start of the burst.
    origin: Duration,
}

/// The messages of one request.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Taken {
    pub messages: Vec<TakenMessage>,
    /// When the request is due: 0 if it is overdue from the start.
    pub at: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TakenMessage {
    pub message: u64,
    /// When the message is due, if it has a time.
    pub due: Option<Duration>,
    /// Whether an earlier run sent the message and its reply was lost.
    pub unsure: bool,
    /// The length of its body.
    pub bytes: usize,
}

impl Feed {
    pub fn new(
        left: Vec<Left>,
        next: u64,
        messages: u64,
        schedule: Schedule,
        linger: Duration,
    ) -> Self {
        let origin = match next < messages {
            true => schedule.due(next),
            false => Duration::ZERO,
        };
        Self {
            left: left.into(),
            next,
            linger,
            schedule,
            origin,
        }
    }

    /// Returns the messages of the next request, which stay in the feed; `None` if there are none.
    pub fn peek(&self, workload: &Workload, elapsed: Duration) -> Option<Taken> {
        let mut taken = Taken::default();
        for &Left { message, unsure } in &self.left {
            let bytes = workload.body_bytes(message);
            if !taken.fits(bytes) {
                break;
            }
            taken.messages.push(TakenMessage {
                message,
                due: None,
                unsure,
                bytes,
            });
        }
        if !self.left.is_empty() {
            return Some(taken);
        }
        let paced = self.schedule.is_paced();
        let mut limit = None;
        for message in self.next..workload.len() {
            let bytes = workload.body_bytes(message);
            if !taken.fits(bytes) {
                break;
            }
            if paced {
                let due = self.schedule.due(message) - self.origin;
                let limit = *limit.get_or_insert(elapsed.max(due + self.linger));
                if !taken.messages.is_empty() && due >= limit && due > taken.at {
                    break;
                }
                taken.at = due;
            }
            let due = paced.then_some(taken.at);
            taken.messages.push(TakenMessage {
                message,
                due,
                unsure: false,
                bytes,
            });
        }
        (!taken.messages.is_empty()).then_some(taken)
    }

    /// Removes messages that [`Feed::peek`] has returned.
    pub fn remove(&mut self, taken: &Taken) {
        match self.left.is_empty() {
            true => self.next += taken.messages.len() as u64,
            false => drop(self.left.drain(..taken.messages.len())),
        }
    }

    /// Returns the messages of an earlier run that were not taken.
    pub fn left(&self) -> impl Iterator<Item = Left> {
        self.left.iter().copied()
    }
}

impl Taken {
    fn fits(&self, bytes: usize) -> bool {
        let taken: usize = self.messages.iter().map(|each| each.bytes).sum();
        self.messages.len() < REQUEST_ENTRIES_MAX && taken + bytes <= REQUEST_BYTES_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shape::Shape;
    use crate::workload::{Sizes, WorkloadConfig};

    const LINGER: Duration = Duration::from_millis(10);

    fn workload(messages: u64, sizes: Sizes) -> Workload {
        Workload::new(WorkloadConfig {
            messages,
            sizes,
            ..WorkloadConfig::default()
        })
        .unwrap()
    }

    fn feed(shape: &str, next: u64) -> Feed {
        let schedule = Schedule::new(&shape.parse().unwrap()).unwrap();
        Feed::new(Vec::new(), next, 1_000, schedule, LINGER)
    }

    /// Takes every message; returns the size and the time in ms of each request.
    fn requests(mut feed: Feed, messages: u64, elapsed: Duration) -> Vec<(usize, u128)> {
        let workload = workload(messages, Sizes::Fixed(300));
        let mut requests = Vec::new();
        while let Some(taken) = feed.peek(&workload, elapsed) {
            feed.remove(&taken);
            requests.push((taken.messages.len(), taken.at.as_millis()));
        }
        requests
    }

    #[test]
    fn a_request_is_sent_when_its_last_message_is_due_or_at_once_without_a_rate() {
        for (shape, messages, expected) in [
            ("constant:100", 3, vec![(1, 0), (1, 10), (1, 20)]),
            ("constant:400", 8, vec![(4, 7), (4, 17)]),
            ("constant:1000", 25, vec![(10, 9), (10, 19), (5, 24)]),
            ("constant:10000", 20, vec![(10, 0), (10, 1)]),
            ("max", 21, vec![(10, 0), (10, 0), (1, 0)]),
        ] {
            let requests = requests(feed(shape, 0), messages, Duration::ZERO);
            assert_eq!(requests, expected, "{shape}");
        }
    }

    #[test]
    fn messages_that_are_due_at_once_share_a_request_without_lingering() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("arrivals");
        std::fs::write(&file, "0\n0.02\n0.02\n0.02\n0.025").unwrap();
        let schedule = Schedule::new(&Shape::Replay { file }).unwrap();
        let feed = Feed::new(Vec::new(), 0, 5, schedule, Duration::ZERO);
        let requests = requests(feed, 5, Duration::ZERO);
        assert_eq!(requests, [(1, 0), (3, 20), (1, 25)]);
    }

    #[test]
    fn overdue_messages_fill_requests() {
        let late = Duration::from_millis(145);
        let requests = requests(feed("constant:100", 0), 17, late);
        assert_eq!(requests, [(10, 90), (5, 140), (1, 150), (1, 160)]);
    }

    #[test]
    fn a_run_that_continues_starts_with_its_first_message() {
        let continued = feed("constant:100", 7);
        let taken = continued.peek(&workload(10, Sizes::Fixed(300)), Duration::ZERO);
        let first = taken.unwrap().messages[0];
        assert_eq!((first.message, first.due), (7, Some(Duration::ZERO)));
        let requests = requests(continued, 10, Duration::ZERO);
        assert_eq!(requests, [(1, 0), (1, 10), (1, 20)]);
    }

    #[test]
    fn what_an_earlier_run_left_comes_first() {
        let left: Vec<Left> = (0..12)
            .map(|message| Left {
                message,
                unsure: message == 3,
            })
            .collect();
        let schedule = Schedule::new(&"constant:100".parse().unwrap()).unwrap();
        let mut feed = Feed::new(left, 40, 50, schedule, LINGER);
        let workload = workload(50, Sizes::Fixed(300));
        let mut taken = Vec::new();
        for _ in 0..3 {
            let request = feed.peek(&workload, Duration::ZERO).unwrap();
            feed.remove(&request);
            taken.push(request.messages);
        }
        let numbers: Vec<u64> = taken.concat().iter().map(|each| each.message).collect();
        assert_eq!(numbers, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 40]);
        assert_eq!(taken.iter().map(Vec::len).collect::<Vec<_>>(), [10, 2, 1]);
        let unsure = taken.concat().into_iter().filter(|each| each.unsure);
        assert_eq!(unsure.map(|each| each.message).collect::<Vec<_>>(), [3]);
        assert_eq!((feed.next, feed.left().count()), (41, 0));
    }

    #[test]
    fn a_request_has_at_most_one_mebibyte() {
        let sizes: Sizes = "300:9,600000:3,1048576:1".parse().unwrap();
        let workload = workload(200, sizes);
        let mut feed = feed("max", 0);
        let mut sizes_of_requests = Vec::new();
        while let Some(taken) = feed.peek(&workload, Duration::ZERO) {
            feed.remove(&taken);
            let bytes: usize = taken.messages.iter().map(|each| each.bytes).sum();
            assert!(bytes <= REQUEST_BYTES_MAX && taken.messages.len() <= 10);
            sizes_of_requests.push(taken.messages.len());
        }
        assert_eq!(sizes_of_requests.iter().sum::<usize>(), 200);
        assert!(sizes_of_requests.contains(&1) && sizes_of_requests.iter().any(|count| *count > 5));
    }
}
