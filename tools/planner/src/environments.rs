//! The environments of the aggregator: which are free, and when another may start.

use protocol::limits::aws::{
    LAMBDA_INVOCATIONS_PER_SECOND, LAMBDA_START_SECONDS, LAMBDA_STARTS_MAX,
};

use super::limit::Limit;

/// An environment, by its number.
pub type EnvironmentId = usize;

/// The environments of a function.
#[derive(Debug, Default)]
pub struct Environments {
    /// Free ones, the most recently used last.
    free: Vec<EnvironmentId>,
    /// How many environments have been started.
    pub count: usize,
    pub busy: u64,
    pub busy_most: u64,
    pub cold_starts: u64,
    account: u64,
    /// Concurrent invocations of one environment.
    per_environment: u32,
    start_tokens: f64,
    tokens_at: f64,
}

/// Which environment takes an invocation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Assigned {
    /// One that is free.
    Warm(EnvironmentId),
    /// One that starts now.
    Cold(EnvironmentId),
    /// None before this time, because of this limit. No time: none before an invocation ends.
    Throttled(Limit, Option<f64>),
}

impl Environments {
    /// Makes a function without environments, in an account that runs so many invocations at once.
    pub fn new(account: u64, per_environment: u32) -> Environments {
        Environments {
            account,
            per_environment,
            start_tokens: LAMBDA_STARTS_MAX as f64,
            ..Environments::default()
        }
    }

    /// Assigns an invocation to the most recently used free environment, or to a new one.
    pub fn assign(&mut self, now: f64) -> Assigned {
        if self.busy >= self.account {
            return Assigned::Throttled(Limit::AccountConcurrency, None);
        }
        if let Some(environment) = self.free.pop() {
            self.take_up();
            return Assigned::Warm(environment);
        }
        let rate = LAMBDA_STARTS_MAX as f64 / LAMBDA_START_SECONDS;
        let gained = (now - self.tokens_at) * rate;
        self.start_tokens = (self.start_tokens + gained).min(LAMBDA_STARTS_MAX as f64);
        self.tokens_at = now;
        if self.start_tokens < 1.0 {
            let at = now + (1.0 - self.start_tokens) / rate;
            return Assigned::Throttled(Limit::EnvironmentStarts, Some(at));
        }
        self.start_tokens -= 1.0;
        self.cold_starts += 1;
        self.count += 1;
        self.take_up();
        let new = self.count - 1;
        let room = self.per_environment.max(1) as usize - 1;
        self.free.extend(std::iter::repeat_n(new, room));
        Assigned::Cold(new)
    }

    fn take_up(&mut self) {
        self.busy += 1;
        self.busy_most = self.busy_most.max(self.busy);
    }

    /// Makes an environment free again.
    pub fn release(&mut self, environment: EnvironmentId) {
        self.busy -= 1;
        self.free.push(environment);
    }
}

/// Returns when an invocation ends for its environment: no environment takes more than ten a second.
pub fn end_of_invocation(started_at: f64, ended_at: f64) -> f64 {
    ended_at.max(started_at + 1.0 / LAMBDA_INVOCATIONS_PER_SECOND)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thousand_environments_start_at_once_and_then_a_hundred_a_second() {
        let mut environments = Environments::new(10_000, 1);
        for _ in 0..1_000 {
            assert!(matches!(environments.assign(0.0), Assigned::Cold(_)));
        }
        let throttled = Assigned::Throttled(Limit::EnvironmentStarts, Some(0.01));
        assert_eq!(environments.assign(0.0), throttled);
        let started = (0..).take_while(|_| matches!(environments.assign(1.0), Assigned::Cold(_)));
        assert_eq!(started.count(), 100);
    }

    #[test]
    fn the_most_recently_used_environment_is_used_again() {
        let mut environments = Environments::new(2, 1);
        let throttled = Assigned::Throttled(Limit::AccountConcurrency, None);
        for assigned in [Assigned::Cold(0), Assigned::Cold(1), throttled] {
            assert_eq!(environments.assign(0.0), assigned);
        }
        environments.release(0);
        environments.release(1);
        assert_eq!(environments.assign(0.0), Assigned::Warm(1));
    }

    #[test]
    fn an_environment_with_room_takes_a_second_invocation() {
        let mut environments = Environments::new(10, 2);
        for assigned in [Assigned::Cold(0), Assigned::Warm(0), Assigned::Cold(1)] {
            assert_eq!(environments.assign(0.0), assigned);
        }
    }

    #[test]
    fn a_short_invocation_holds_its_environment_for_a_tenth_of_a_second() {
        assert_eq!(end_of_invocation(1.0, 1.01), 1.1);
        assert_eq!(end_of_invocation(1.0, 3.0), 3.0);
    }
}
