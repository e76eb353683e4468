//! SIGKILL: at a random moment of an invocation, or when an environment logs a certain line.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use emulators::{Counter, Percent, RandomStream};

use super::options::{FaultOptions, KillAt};
use crate::locked::locked;

/// The assumed duration of invocations until the first one has ended.
const MEAN_AT_FIRST: Duration = Duration::from_secs(1);

/// Decides which environments of one function are killed, and when.
#[derive(Debug)]
pub struct Kills {
    percent: Percent,
    draws: RandomStream,
    /// Running mean of the durations of invocations.
    mean: Mutex<Duration>,
    /// Environments that were killed at their random moments.
    pub(super) killed: Counter,
    at: Vec<KillLine>,
    ended: AtomicBool,
}

/// A text at which environments are killed, with its counts.
#[derive(Debug)]
struct KillLine {
    at: KillAt,
    draws: RandomStream,
    lines: Counter,
    killed: Counter,
}

impl Kills {
    /// Returns the kills of the function with this name; `None` if the options ask for none.
    pub fn new(options: &FaultOptions, function: &str) -> Option<Kills> {
        let asked = !options.kills.is_zero() || !options.kill_at.is_empty();
        let at = options.kill_at.iter().map(|at| KillLine {
            at: at.clone(),
            draws: RandomStream::new(options.seed, &format!("{function} at {}", at.text)),
            lines: Counter::default(),
            killed: Counter::default(),
        });
        asked.then(|| Kills {
            percent: options.kills,
            draws: RandomStream::new(options.seed, &format!("kills of {function}")),
            mean: Mutex::new(MEAN_AT_FIRST),
            killed: Counter::default(),
            at: at.collect(),
            ended: AtomicBool::new(false),
        })
    }

    pub(super) fn end(&self) {
        self.ended.store(true, Ordering::Relaxed);
    }

    fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Relaxed)
    }

    /// Draws whether an invocation's environment is killed. Returns how long after the start of the invocation: uniformly
    /// distributed up to the mean duration of invocations. If the invocation ends earlier, its environment is killed idle
    /// or in the next invocation.
    pub(crate) fn delay(&self) -> Option<Duration> {
        // The delay is always drawn, so that the sequence of draws does not depend on their results.
        let after = self.draws.duration_up_to(*locked(&self.mean));
        (self.draws.happens(self.percent) && !self.has_ended()).then_some(after)
    }

    /// Records the duration of an invocation that was not killed.
    pub(crate) fn record_duration(&self, duration: Duration) {
        let mut mean = locked(&self.mean);
        *mean = (*mean * 7 + duration) / 8;
    }

    /// Returns whether to kill the environment that logged this line, and counts that as a kill.
    pub(crate) fn kills_at(&self, text: &str) -> bool {
        let mut kill = false;
        for line in &self.at {
            if text.contains(&line.at.text) {
                line.lines.add(1);
                let strikes = line.draws.happens(line.at.percent);
                let spent = |kills_max| line.killed.get() >= kills_max;
                if strikes && !kill && !self.has_ended() && !line.at.kills_max.is_some_and(spent) {
                    line.killed.add(1);
                    kill = true;
                }
            }
        }
        kill
    }

    /// Returns the number of lines with the `index`th text, and of environments killed at them.
    pub(super) fn at_counts(&self, index: usize) -> (u64, u64) {
        let line = &self.at[index];
        (line.lines.get(), line.killed.get())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_are_within_the_duration_of_invocations_and_as_many_as_asked_for() {
        let options = FaultOptions {
            kills: "50".parse().unwrap(),
            ..FaultOptions::default()
        };
        let kills = Kills::new(&options, "f").unwrap();
        (0..100).for_each(|_| kills.record_duration(Duration::from_millis(80)));
        let delays: Vec<Duration> = (0..1_000).filter_map(|_| kills.delay()).collect();
        assert!((400..600).contains(&delays.len()), "{}", delays.len());
        assert!(delays.into_iter().max() <= Some(Duration::from_millis(81)));
        assert!(Kills::new(&FaultOptions::default(), "f").is_none());
    }

    #[test]
    fn a_line_kills_by_its_text() {
        let kill_at = |text: &str, percent: &str| KillAt {
            text: text.to_owned(),
            percent: percent.parse().unwrap(),
            kills_max: Some(1),
        };
        let options = FaultOptions {
            kill_at: vec![kill_at("part frozen", "100"), kill_at("batch", "0")],
            ..FaultOptions::default()
        };
        let kills = Kills::new(&options, "f").unwrap();
        assert!(kills.kills_at(" INFO part frozen batch_id=1"));
        assert!(!kills.kills_at(" INFO batch leased"));
        assert!(!kills.kills_at(" INFO part frozen batch_id=2"));
        assert_eq!(kills.at_counts(0), (2, 1));
        assert_eq!(kills.at_counts(1), (3, 0));
    }

    #[test]
    fn nothing_is_killed_after_the_kills_were_ended() {
        let options = FaultOptions {
            kills: Percent::ALL,
            kill_at: vec![KillAt {
                text: "part frozen".to_owned(),
                percent: Percent::ALL,
                kills_max: None,
            }],
            ..FaultOptions::default()
        };
        let kills = Kills::new(&options, "f").unwrap();
        assert!(kills.kills_at("part frozen") && kills.delay().is_some());
        kills.end();
        assert!(!kills.kills_at("part frozen") && kills.delay().is_none());
    }
}
