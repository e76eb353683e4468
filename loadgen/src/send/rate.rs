//! Compares when messages were sent with when they were due.

use std::time::Duration;

use serde::Serialize;

use crate::schedule::Schedule;

/// A second with fewer messages is not compared: one message would be more than a percent of it.
const COMPARED_MESSAGES_MIN: u64 = 100;

/// How well the rate was held. A message counts as sent when its first request begins.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RateReport {
    /// The messages a second that were planned, between the first and the last message that was sent.
    pub scheduled_per_second: f64,
    /// The messages a second that were sent.
    pub achieved_per_second: f64,
    /// How far the achieved rate is above the planned one, in percent.
    pub deviation_percent: f64,
    /// The whole second that was farthest from the plan, of those with at least 100 planned messages.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worst_second: Option<WorstSecond>,
    /// The longest time from when a message was due to when it was sent.
    pub late_max_secs: f64,
}

/// A second of a burst.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct WorstSecond {
    /// Its number, from 0.
    pub second: u64,
    /// The number of messages that were due in it.
    pub scheduled: u64,
    /// The number of messages that were sent in it.
    pub sent: u64,
    /// How far the number of sent messages is above the plan, in percent.
    pub deviation_percent: f64,
}

/// When the messages of a run were sent. Times are from the start of the run. Messages without a time are not counted.
#[derive(Clone, Debug, Default)]
pub(super) struct SendTimes {
    count: u64,
    first: Duration,
    last: Duration,
    late_max: Duration,
    by_second: Vec<u64>,
}

impl SendTimes {
    pub fn add(&mut self, due: Duration, sent: Duration) {
        self.first = match self.count {
            0 => sent,
            _ => self.first.min(sent),
        };
        self.last = self.last.max(sent);
        self.late_max = self.late_max.max(sent.saturating_sub(due));
        self.count += 1;
        let second = sent.as_secs() as usize;
        if self.by_second.len() <= second {
            self.by_second.resize(second + 1, 0);
        }
        self.by_second[second] += 1;
    }

    /// Compares the times with the schedule of the messages from `from` on; `None` if no two messages have different times.
    pub fn compare(&self, schedule: &Schedule, from: u64) -> Option<RateReport> {
        let last = from + self.count.checked_sub(1)?;
        let origin = schedule.due(from);
        let planned = (schedule.due(last) - origin).as_secs_f64();
        let taken = (self.last - self.first).as_secs_f64();
        let messages = (self.count - 1) as f64;
        (planned > 0.0 && taken > 0.0).then(|| RateReport {
            scheduled_per_second: messages / planned,
            achieved_per_second: messages / taken,
            deviation_percent: (planned / taken - 1.0) * 100.0,
            worst_second: self.worst_second(schedule, from, origin),
            late_max_secs: self.late_max.as_secs_f64(),
        })
    }

    fn worst_second(
        &self,
        schedule: &Schedule,
        from: u64,
        origin: Duration,
    ) -> Option<WorstSecond> {
        let last = from + self.count - 1;
        let whole_seconds = (schedule.due(last) - origin).as_secs();
        let mut before = from;
        let mut worst: Option<WorstSecond> = None;
        for second in 0..whole_seconds {
            let end = origin + Duration::from_secs(second + 1);
            let until = schedule.due_before(end, last + 1);
            let scheduled = until - before;
            before = until;
            if scheduled < COMPARED_MESSAGES_MIN {
                continue;
            }
            let sent = self.by_second.get(second as usize).copied().unwrap_or(0);
            let deviation_percent = (sent as f64 / scheduled as f64 - 1.0) * 100.0;
            let worse =
                |worst: &WorstSecond| deviation_percent.abs() > worst.deviation_percent.abs();
            if worst.as_ref().is_none_or(worse) {
                worst = Some(WorstSecond {
                    second,
                    scheduled,
                    sent,
                    deviation_percent,
                });
            }
        }
        worst
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn schedule(text: &str) -> Schedule {
        Schedule::new(&text.parse().unwrap()).unwrap()
    }

    /// Sends `messages` messages from `from` on, each as late as `late` says.
    fn compare(
        text: &str,
        from: u64,
        messages: u64,
        late: impl Fn(u64) -> Duration,
    ) -> Option<RateReport> {
        let schedule = schedule(text);
        let mut times = SendTimes::default();
        for message in from..from + messages {
            let due = schedule.due(message) - schedule.due(from);
            times.add(due, due + late(message));
        }
        times.compare(&schedule, from)
    }

    #[test]
    fn messages_that_are_all_as_late_are_sent_at_the_planned_rate() {
        let rate = compare("constant:1000", 0, 5_000, |_| 2 * MS).unwrap();
        assert!((rate.scheduled_per_second - 1_000.0).abs() < 1e-6);
        assert!(rate.deviation_percent.abs() < 1e-9);
        assert!((rate.late_max_secs - 0.002).abs() < 1e-9);
        let worst = rate.worst_second.unwrap();
        assert_eq!((worst.second, worst.scheduled, worst.sent), (0, 1_000, 998));
    }

    #[test]
    fn a_pause_is_the_worst_second_and_the_catching_up_keeps_the_rate() {
        // From 2.0 s on nothing is sent for 500 ms.
        let pause = |message: u64| MS * 2_500u64.saturating_sub(message) as u32;
        let late = |message| match message {
            0..2_000 => Duration::ZERO,
            _ => pause(message),
        };
        let rate = compare("constant:1000", 0, 5_000, late).unwrap();
        assert!(rate.deviation_percent.abs() < 1e-9, "{rate:?}");
        assert!((rate.late_max_secs - 0.5).abs() < 1e-9);
        let slow = |message: u64| MS * message as u32;
        let rate = compare("constant:1000", 0, 5_000, slow).unwrap();
        assert!((rate.deviation_percent + 50.0).abs() < 0.1, "{rate:?}");
        let worst = rate.worst_second.unwrap();
        assert_eq!((worst.scheduled, worst.sent), (1_000, 500));
        assert!((worst.deviation_percent + 50.0).abs() < 1e-9);
    }

    #[test]
    fn a_run_that_continues_is_compared_from_its_first_message() {
        let rate = compare("ramp:0..1000/10s", 1_250, 3_750, |_| Duration::ZERO).unwrap();
        // From 5 s to 10 s of the ramp.
        assert!((rate.scheduled_per_second - 750.0).abs() < 1.0, "{rate:?}");
        assert!(rate.deviation_percent.abs() < 1e-9);
        assert!(rate.worst_second.unwrap().deviation_percent.abs() < 1e-9);
    }

    #[test]
    fn few_messages_have_no_worst_second_and_one_has_no_rate() {
        let few = compare("constant:99", 0, 500, |_| MS).unwrap();
        assert_eq!(few.worst_second, None);
        assert_eq!(compare("constant:99", 0, 1, |_| MS), None);
        let none = SendTimes::default().compare(&schedule("constant:1"), 0);
        assert_eq!(none, None);
    }
}
