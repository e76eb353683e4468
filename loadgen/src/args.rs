//! The command line.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use loadgen::{DuplicateRule, PlanConfig};

/// Sends a burst of events to a queue, and audits the delivered files.
///
/// Both commands compute the same burst from the same plan options, so give both the same ones.
/// Event ids depend on the seed: use a new seed for every burst within a dedup window.
#[derive(Parser)]
#[command(version)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Subcommand)]
pub enum Command {
    /// Send a burst; prints one JSON object when all messages are in the queue.
    ///
    /// Region, credentials and AWS_ENDPOINT_URL are read from the environment. A region or endpoint
    /// that is not set there is taken from the queue URL. A request whose reply was lost is retried,
    /// which may put a message into the queue twice, under two SQS message ids: `resent_unsure` in
    /// the result counts such messages.
    Send(SendArgs),
    /// Compare delivered files, <dir>/<batchId>/<part>.<ext>, with the burst; prints one JSON object.
    ///
    /// Exit codes: 0 if every event was delivered as often as it should be, unchanged, and nothing
    /// else was delivered; 1 if not; 2 if the options are wrong or a file cannot be read.
    Audit(AuditArgs),
}

#[derive(Args)]
pub struct SendArgs {
    /// URL of the queue, in AWS or on another server with the SQS protocol
    #[arg(long, value_name = "URL")]
    pub queue_url: String,
    #[command(flatten)]
    pub plan: PlanArgs,
    /// Messages per second, in requests of ten [default: as fast as possible]
    #[arg(long, value_name = "MSG_PER_S", value_parser = clap::value_parser!(u64).range(1..))]
    pub rate: Option<u64>,
    /// Number of requests in flight
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = in_flight)]
    pub concurrency: usize,
    /// Endpoint to send requests to [default: from the environment, or from the queue URL]
    #[arg(long, value_name = "URL")]
    pub endpoint_url: Option<String>,
}

#[derive(Args)]
pub struct AuditArgs {
    /// Directory that contains the directories of the batches
    #[arg(long, value_name = "DIR")]
    pub dir: PathBuf,
    #[command(flatten)]
    pub plan: PlanArgs,
    /// The service's `ON_DUPLICATE`, which says how often each event must be delivered
    #[arg(long, value_enum, default_value_t = OnDuplicate::Drop)]
    pub on_duplicate: OnDuplicate,
    /// Require a manifest beside every part, as the sinks `file:` and `s3:` write it
    #[arg(long)]
    pub manifests: bool,
    /// Number of missing deliveries to accept
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub allow_missing: u64,
}

#[derive(Args)]
pub struct PlanArgs {
    /// Number of messages in the burst, including duplicates
    #[arg(long, value_name = "N", default_value_t = PlanConfig::default().messages)]
    messages: u64,
    /// Percentage of the messages that repeat an earlier one, from 0 to below 100
    #[arg(
        long,
        value_name = "PERCENT",
        default_value_t = 0.0,
        allow_negative_numbers = true
    )]
    duplicates: f64,
    /// Length of every body, in bytes
    #[arg(long, value_name = "BYTES", default_value_t = PlanConfig::default().size_bytes)]
    size: usize,
    /// Number of sources that the events are spread over: s0, s1, …
    #[arg(long, value_name = "N", default_value_t = 1)]
    sources: u32,
    /// Number that makes ids and bodies differ from those of other bursts
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
    /// Every event must be delivered once
    Drop,
    /// Every event must be delivered as often as it was sent, never twice in a batch
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
        _ => Err("expected 1 to 1000".to_owned()),
    }
}
