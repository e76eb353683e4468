//! The input queue: messages in cohorts, because single ones would take too long to model.

use std::collections::VecDeque;

use protocol::limits::aws::SQS_IN_FLIGHT_MAX;

/// Messages that were sent at the same time and received equally often.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cohort {
    pub sent_at: f64,
    pub count: u64,
    /// How many of them carry an event that no earlier message carried.
    pub unique: u64,
    pub receives: u32,
}

impl Cohort {
    /// Takes messages out of the cohort. The unique ones are spread evenly, and none is lost.
    pub fn take(&mut self, count: u64) -> Cohort {
        let count = count.min(self.count);
        let unique = match self.count {
            0 => 0,
            all => {
                let twice = 2 * self.unique as u128 * count as u128 + all as u128;
                (twice / (2 * all as u128)) as u64
            }
        };
        // Neither part may have more unique messages than messages.
        let unique = unique
            .max(self.unique.saturating_sub(self.count - count))
            .min(count);
        self.count -= count;
        self.unique -= unique;
        Cohort {
            count,
            unique,
            ..*self
        }
    }
}

/// Adds a cohort to a list, to the last one if it is of the same kind.
pub fn push(cohorts: &mut Vec<Cohort>, cohort: Cohort) {
    match cohorts.last_mut() {
        Some(last) if last.sent_at == cohort.sent_at && last.receives == cohort.receives => {
            last.count += cohort.count;
            last.unique += cohort.unique;
        }
        Some(_) | None => cohorts.push(cohort),
    }
}

/// Returns how many messages the cohorts have, and how many of them are unique.
pub fn totals(cohorts: &[Cohort]) -> (u64, u64) {
    cohorts.iter().fold((0, 0), |(count, unique), cohort| {
        (count + cohort.count, unique + cohort.unique)
    })
}

#[derive(Debug, Default)]
pub struct Queue {
    visible: VecDeque<Cohort>,
    pub visible_count: u64,
    /// Messages that a consumer has.
    pub in_flight: u64,
    /// Messages that came back after a failed attempt.
    pub returned: u64,
    /// Messages that were received too often.
    pub dead: u64,
    /// The most receives of any message.
    pub receives_most: u32,
}

impl Queue {
    /// Adds messages that were just sent.
    pub fn send(&mut self, cohort: Cohort) {
        self.visible_count += cohort.count;
        self.visible.push_back(cohort);
    }

    /// Returns how many messages may still be received before the queue has too many in flight.
    pub fn room(&self) -> u64 {
        SQS_IN_FLIGHT_MAX.saturating_sub(self.in_flight)
    }

    /// Moves up to `count` messages to `held`, the oldest first. Messages that were received too often become dead letters
    /// instead. Returns how many were moved.
    pub fn receive(&mut self, count: u64, receives_max: u32, held: &mut Vec<Cohort>) -> u64 {
        let mut wanted = count.min(self.room());
        let mut moved = 0;
        while wanted > 0
            && let Some(front) = self.visible.front_mut()
        {
            let mut taken = front.take(wanted);
            if front.count == 0 {
                self.visible.pop_front();
            }
            self.visible_count -= taken.count;
            if taken.receives >= receives_max {
                self.dead += taken.count;
                continue;
            }
            taken.receives += 1;
            self.receives_most = self.receives_most.max(taken.receives);
            wanted -= taken.count;
            moved += taken.count;
            push(held, taken);
        }
        self.in_flight += moved;
        moved
    }

    /// Removes messages that a consumer has.
    pub fn delete(&mut self, count: u64) {
        self.in_flight -= count;
    }

    /// Makes messages that a consumer has visible again.
    pub fn give_back(&mut self, cohorts: Vec<Cohort>) {
        for cohort in cohorts {
            self.in_flight -= cohort.count;
            self.returned += cohort.count;
            self.send(cohort);
        }
    }

    /// Returns when the oldest visible message was sent.
    pub fn oldest(&self) -> Option<f64> {
        self.visible.front().map(|cohort| cohort.sent_at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cohort(count: u64, unique: u64) -> Cohort {
        Cohort {
            sent_at: 0.0,
            count,
            unique,
            receives: 0,
        }
    }

    #[test]
    fn no_unique_message_is_lost_when_cohorts_are_split() {
        let mut queue = Queue::default();
        queue.send(cohort(1_000, 777));
        let (mut count, mut unique) = (0, 0);
        while queue.visible_count > 0 {
            let mut held = Vec::new();
            queue.receive(7, 5, &mut held);
            let (these, of_them) = totals(&held);
            assert!(of_them <= these);
            (count, unique) = (count + these, unique + of_them);
        }
        assert_eq!((count, unique), (1_000, 777));
    }

    #[test]
    fn no_more_than_120_000_messages_are_in_flight() {
        let mut queue = Queue::default();
        queue.send(cohort(200_000, 200_000));
        let mut held = Vec::new();
        assert_eq!(queue.receive(200_000, 5, &mut held), 120_000);
        assert_eq!(queue.receive(1, 5, &mut held), 0);
        queue.delete(10);
        assert_eq!(queue.receive(200_000, 5, &mut held), 10);
    }

    #[test]
    fn a_message_received_too_often_is_a_dead_letter() {
        let mut queue = Queue::default();
        queue.send(cohort(10, 10));
        for _ in 0..2 {
            let mut held = Vec::new();
            assert_eq!(queue.receive(10, 2, &mut held), 10);
            queue.give_back(held);
        }
        assert_eq!(queue.receive(10, 2, &mut Vec::new()), 0);
        assert_eq!((queue.dead, queue.receives_most), (10, 2));
        assert_eq!((queue.visible_count, queue.in_flight), (0, 0));
    }
}
