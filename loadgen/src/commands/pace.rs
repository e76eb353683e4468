//! The arguments that say when messages are sent.

use std::time::Duration;

use clap::Args;
use loadgen::{RATE_MAX, Schedule, ScheduleError, SendOptions, SendState, Shape, WorkloadConfig};

#[derive(Args)]
pub struct PaceArgs {
    /// Messages per second; short for `--shape constant:N` [default: as fast as possible]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=RATE_MAX as i64 as u64))]
    rate: Option<u64>,
    /// When messages are sent: `max`, `constant:1000`, `ramp:100..5000/60s`, `spikes:100,5000,every=30s,for=2s` or
    /// `replay:FILE`, a file with an arrival time, or a time and a count, in each line
    #[arg(long, value_name = "SHAPE", conflicts_with = "rate")]
    shape: Option<Shape>,
    /// Milliseconds that a message may wait for others to share its request
    #[arg(long, value_name = "MS", default_value_t = 10, value_parser = clap::value_parser!(u64).range(..=1_000))]
    linger: u64,
    /// Most requests in flight
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = in_flight)]
    concurrency: usize,
}

impl PaceArgs {
    /// Returns the shape of the arguments.
    pub fn shape(&self) -> Shape {
        let constant = self.rate.map(|per_second| Shape::Constant { per_second });
        constant.or(self.shape.clone()).unwrap_or_default()
    }

    /// Returns the options to send a burst of this shape to a queue, from where an earlier run ended.
    ///
    /// # Errors
    /// The shape has a file, and it cannot be read.
    pub fn options(
        &self,
        queue_url: &str,
        shape: &Shape,
        resume: SendState,
    ) -> Result<SendOptions, ScheduleError> {
        Ok(SendOptions {
            schedule: Schedule::new(shape)?,
            concurrency: self.concurrency,
            linger: Duration::from_millis(self.linger),
            resume,
            ..SendOptions::new(queue_url)
        })
    }
}

/// Returns how many messages a burst of this shape has if no argument says so: all arrivals of a recording, or the default.
///
/// # Errors
/// The shape has a file, and it cannot be read.
pub fn messages_of(shape: &Shape) -> Result<u64, ScheduleError> {
    let recorded = Schedule::new(shape)?.limit();
    Ok(recorded.unwrap_or(WorkloadConfig::default().messages))
}

fn in_flight(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(requests @ 1..=1_000) => Ok(requests),
        _ => Err("expected 1 to 1000".to_owned()),
    }
}
