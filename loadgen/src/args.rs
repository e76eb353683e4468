//! The command line.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use loadgen::{DuplicateRule, PlanConfig};

/// Sends a burst of events to a queue, and audits what was delivered of it.
///
/// Both commands compute the same burst from the same plan options; nothing else passes between
/// them. Event ids follow from the seed: use a new seed for every burst within a dedup window.
#[derive(Parser)]
#[command(version)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Subcommand)]
pub enum Command {
    /// Send a burst; prints one JSON object when all of it is in the queue.
    ///
    /// Region, credentials and AWS_ENDPOINT_URL come from the environment as usual; what is
    /// missing is read off the queue URL. A send whose reply was lost is repeated and may leave a
    /// message in the queue twice, under two SQS message ids: see `resent_unsure` in the result.
    Send(SendArgs),
    /// Compare delivered files, <dir>/<batchId>/<part>.<ext>, with the burst; prints one JSON object.
    ///
    /// Exit code 0: every event arrived as often as it should, whole, and nothing else did.
    /// 1: it did not. 2: the options make no sense, or the files cannot be read.
    Audit(AuditArgs),
}

#[derive(Args)]
pub struct SendArgs {
    /// The queue: in AWS, or of anything that speaks its protocol
    #[arg(long, value_name = "URL")]
    pub queue_url: String,
    #[command(flatten)]
    pub plan: PlanArgs,
    /// Messages per second, in requests of ten [default: as fast as possible]
    #[arg(long, value_name = "MSG_PER_S", value_parser = clap::value_parser!(u64).range(1..))]
    pub rate: Option<u64>,
    /// Requests in flight
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = in_flight)]
    pub concurrency: usize,
    /// Where to send requests, if not where the environment or the queue URL says
    #[arg(long, value_name = "URL")]
    pub endpoint_url: Option<String>,
}

#[derive(Args)]
pub struct AuditArgs {
    /// The directory that holds the batches' directories
    #[arg(long, value_name = "DIR")]
    pub dir: PathBuf,
    #[command(flatten)]
    pub plan: PlanArgs,
    /// What the service does with duplicates
    #[arg(long, value_enum, default_value_t = OnDuplicate::Drop)]
    pub on_duplicate: OnDuplicate,
    /// Every part must have a manifest, as the sinks `file:` and `s3:` write them
    #[arg(long)]
    pub manifests: bool,
    /// Missing deliveries to put up with
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub allow_missing: u64,
}

#[derive(Args)]
pub struct PlanArgs {
    /// Messages in the burst, duplicates included
    #[arg(long, value_name = "N", default_value_t = PlanConfig::default().messages)]
    messages: u64,
    /// Share of the messages that repeat an earlier one, 0 to below 100
    #[arg(
        long,
        value_name = "PERCENT",
        default_value_t = 0.0,
        allow_negative_numbers = true
    )]
    duplicates: f64,
    /// Length of every body
    #[arg(long, value_name = "BYTES", default_value_t = PlanConfig::default().size_bytes)]
    size: usize,
    /// Sources the events are spread over: s0, s1, …
    #[arg(long, value_name = "N", default_value_t = 1)]
    sources: u32,
    /// Makes ids and content differ from those of other bursts
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
}

impl PlanArgs {
    pub fn config(&self) -> PlanConfig {
        PlanConfig {
            seed: self.seed,
            messages: self.messages,
            duplicates_percent: self.duplicates,
            size_bytes: self.size,
            sources: self.sources,
        }
    }
}

#[derive(Clone, Copy, ValueEnum)]
pub enum OnDuplicate {
    /// Every event once
    Drop,
    /// Every event as often as it was sent, never twice in a batch
    Requeue,
}

impl From<OnDuplicate> for DuplicateRule {
    fn from(choice: OnDuplicate) -> Self {
        match choice {
            OnDuplicate::Drop => Self::Drop,
            OnDuplicate::Requeue => Self::Requeue,
        }
    }
}

fn in_flight(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(requests @ 1..=1_000) => Ok(requests),
        _ => Err("allowed are 1 to 1000".to_owned()),
    }
}
