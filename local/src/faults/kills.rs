//! SIGKILL: at a random moment of an invocation, or when an environment logs a certain line.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use emulators::{Counter, Draws, Percent};

use super::options::{FaultOptions, KillAt};

/// How long an invocation is thought to take before one has ended.
const TYPICAL_AT_FIRST: Duration = Duration::from_secs(1);

/// Decides which environments of one function are killed, and when.
#[derive(Debug)]
pub struct Kills {
    percent: Percent,
    draws: Draws,
    /// Running mean of the invocations' times.
    typical: Mutex<Duration>,
    killed: Counter,
    at: Vec<Line>,
}

#[derive(Debug)]
struct Line {
    at: KillAt,
    draws: Draws,
    lines: Counter,
    killed: Counter,
}

impl Kills {
    /// The kills of the function with this name; `None` where none are asked for.
    pub fn new(options: &FaultOptions, function: &str) -> Option<Kills> {
        let asked = !options.kills.is_zero() || !options.kill_at.is_empty();
        asked.then(|| Kills {
            percent: options.kills,
            draws: Draws::new(options.seed, &format!("kills of {function}")),
            typical: Mutex::new(TYPICAL_AT_FIRST),
            killed: Counter::default(),
            at: options
                .kill_at
                .iter()
                .map(|at| Line {
                    at: at.clone(),
                    draws: Draws::new(options.seed, &format!("{function} at {}", at.text)),
                    lines: Counter::default(),
                    killed: Counter::default(),
                })
                .collect(),
        })
    }

    /// How long after the start of this invocation its environment is to be killed, if it is: uniformly within what
    /// invocations take. One that ends before leaves its environment to be killed idle, or in its next invocation.
    pub(crate) fn moment(&self) -> Option<Duration> {
        // Drawn in any case, so that the draws do not depend on what is struck.
        let after = self
            .draws
            .within(*self.typical.lock().unwrap_or_else(PoisonError::into_inner));
        self.draws.strikes(self.percent).then_some(after)
    }

    /// Takes in how long an invocation took that was not killed.
    pub(crate) fn took(&self, time: Duration) {
        let mut typical = self.typical.lock().unwrap_or_else(PoisonError::into_inner);
        *typical = (*typical * 7 + time) / 8;
    }

    /// An environment was killed at its moment.
    pub(crate) fn killed(&self) {
        self.killed.add(1);
    }

    /// Whether the environment that has logged this line is to be killed; then it counts as killed.
    pub(crate) fn at_line(&self, text: &str) -> bool {
        let mut kill = false;
        for line in &self.at {
            if text.contains(&line.at.text) {
                line.lines.add(1);
                let strikes = line.draws.strikes(line.at.percent);
                let spent = |kills_max| line.killed.get() >= kills_max;
                if strikes && !kill && !line.at.kills_max.is_some_and(spent) {
                    line.killed.add(1);
                    kill = true;
                }
            }
        }
        kill
    }

    pub(super) fn random_count(&self) -> u64 {
        self.killed.get()
    }

    /// Lines seen, and environments killed, of the `index`th text.
    pub(super) fn at_counts(&self, index: usize) -> (u64, u64) {
        self.at
            .get(index)
            .map_or((0, 0), |line| (line.lines.get(), line.killed.get()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_within_what_invocations_take_and_as_many_as_asked_for() {
        let options = FaultOptions {
            kills: "50".parse().unwrap(),
            ..FaultOptions::default()
        };
        let kills = Kills::new(&options, "f").unwrap();
        (0..100).for_each(|_| kills.took(Duration::from_millis(80)));
        let moments: Vec<Duration> = (0..1_000).filter_map(|_| kills.moment()).collect();
        assert!((400..600).contains(&moments.len()), "{}", moments.len());
        assert!(
            moments
                .iter()
                .all(|moment| *moment <= Duration::from_millis(81))
        );
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
        assert!(kills.at_line(" INFO part frozen batch_id=1"));
        assert!(!kills.at_line(" INFO batch leased"));
        assert!(!kills.at_line(" INFO part frozen batch_id=2"));
        assert_eq!(kills.at_counts(0), (2, 1));
        assert_eq!(kills.at_counts(1), (3, 0));
    }
}
