//! Looks at the stack while a burst runs, and keeps what it saw.
//!
//! A look reads counters of this process only: it sends no request, so that it does not slow down what is measured.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use emulators::lambda::{EnvironmentState, Function};
use planner::{SAMPLES_MAX, Sample};

use crate::locked::locked;
use crate::stack::{INPUT_QUEUE, Stack};

/// The time between two looks, at first. It doubles whenever there are [`SAMPLES_MAX`] samples.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// The samples of a run, in order.
#[derive(Debug, Default)]
pub struct Sampler(Mutex<Samples>);

#[derive(Debug)]
struct Samples {
    samples: Vec<Sample>,
    every: Duration,
}

impl Default for Samples {
    fn default() -> Samples {
        Samples {
            samples: Vec::new(),
            every: LOOK_EVERY,
        }
    }
}

impl Samples {
    /// Adds a sample. If there are as many as a record may have, every other one is dropped.
    fn push(&mut self, sample: Sample) {
        if self.samples.len() + 1 >= SAMPLES_MAX {
            let mut position = 0;
            self.samples.retain(|_| {
                position += 1;
                position % 2 == 1
            });
            self.every *= 2;
        }
        self.samples.push(sample);
    }
}

impl Sampler {
    /// Takes samples until it is dropped. `sent` returns the number of messages that were sent so far.
    pub async fn run(
        &self,
        stack: &Stack,
        began: Instant,
        sent: impl Fn() -> u64,
    ) -> anyhow::Result<std::convert::Infallible> {
        loop {
            let sample = look(stack, began.elapsed(), sent())?;
            let every = {
                let mut samples = locked(&self.0);
                samples.push(sample);
                samples.every
            };
            tokio::time::sleep(every).await;
        }
    }

    /// Adds a last sample, and returns all.
    pub fn end(&self, stack: &Stack, began: Instant, sent: u64) -> anyhow::Result<Vec<Sample>> {
        let mut samples = locked(&self.0);
        samples.push(look(stack, began.elapsed(), sent)?);
        Ok(std::mem::take(&mut samples.samples))
    }
}

/// Returns what is seen now. The events that are delivered are added later, from the batch records.
fn look(stack: &Stack, at: Duration, sent: u64) -> anyhow::Result<Sample> {
    let depth = stack.sqs.depth(INPUT_QUEUE)?;
    let age = stack.sqs.oldest_age(INPUT_QUEUE)?.unwrap_or_default();
    let mapping = stack.input_mapping.stats();
    Ok(Sample {
        at_secs: at.as_secs_f64(),
        sent: Some(sent),
        taken: Some(mapping.deleted),
        claimed: Some(stack.meter.claims()),
        duplicates: Some(stack.function_logs.sum("Duplicates")),
        delivered: None,
        visible: Some((depth.visible + depth.delayed) as u64),
        in_flight: Some(depth.in_flight as u64),
        oldest_secs: Some(age.as_secs_f64()),
        aggregators: Some(busy(&stack.aggregator)),
        batch_processors: Some(busy(&stack.batch_processor)),
        throttled: Some(stack.faults.throttled()),
        returned: Some(mapping.returned),
    })
}

/// Returns the number of environments that have an invocation.
fn busy(function: &Function) -> u64 {
    let environments = function.environments();
    let is_busy = |state: &EnvironmentState| matches!(state, EnvironmentState::Busy { .. });
    let busy = environments.iter().filter(|each| is_busy(&each.state));
    busy.count() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_run_keeps_its_beginning_and_its_end_in_bounded_memory() {
        let mut samples = Samples::default();
        let mut at_secs = 0.0;
        for _ in 0..4 * SAMPLES_MAX {
            at_secs += samples.every.as_secs_f64();
            samples.push(Sample {
                at_secs,
                ..Sample::default()
            });
            assert!(samples.samples.len() <= SAMPLES_MAX);
        }
        let times = samples.samples.iter().map(|sample| sample.at_secs);
        let times: Vec<f64> = times.collect();
        assert_eq!((times[0], times.last()), (0.25, Some(&at_secs)));
        assert!(times.is_sorted());
        assert!(times.len() > SAMPLES_MAX / 3);
    }
}
