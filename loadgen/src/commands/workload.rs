//! The arguments that describe a workload.

use clap::Args;
use loadgen::{Duplicates, Sizes, WorkloadConfig};

/// The names of all arguments of a workload.
pub const WORKLOAD_ARGS: [&str; 6] = [
    "messages",
    "duplicates",
    "size",
    "sources",
    "source_skew",
    "seed",
];

#[derive(Args)]
pub struct WorkloadArgs {
    /// Number of messages in the burst, including duplicates [default: 100000, or all arrivals of `replay`]
    #[arg(long, value_name = "N")]
    pub messages: Option<u64>,
    /// Percentage of the messages that repeat an earlier one, from 0 to below 100: `5`, or by kind
    /// `immediate=2,delayed=2,changed=1,any=1`
    #[arg(
        long,
        value_name = "PERCENT",
        default_value_t = Duplicates::default(),
        allow_negative_numbers = true
    )]
    duplicates: Duplicates,
    /// Length of the bodies, in bytes: `300`, `300..2000`, or lengths with weights `300:90,4000:9,200000:1`
    #[arg(long, value_name = "BYTES", default_value_t = WorkloadConfig::default().sizes)]
    size: Sizes,
    /// Number of values of the field `source`, which events are spread over: s0, s1, …; for `BATCH_KEY=source`
    #[arg(
        long,
        visible_alias = "batch-keys",
        value_name = "N",
        default_value_t = 1
    )]
    sources: u32,
    /// How much more frequent the first sources are: 0, not at all, to 8
    #[arg(
        long,
        visible_alias = "key-skew",
        value_name = "K",
        default_value_t = 0
    )]
    source_skew: u32,
    /// Number that makes ids and bodies differ from those of other bursts
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
}

impl WorkloadArgs {
    /// Returns the configuration. If the arguments have no number of messages, it is `messages`.
    pub fn config(&self, messages: u64) -> WorkloadConfig {
        WorkloadConfig {
            seed: self.seed,
            messages: self.messages.unwrap_or(messages),
            duplicates: self.duplicates,
            sizes: self.size.clone(),
            sources: self.sources,
            skew: self.source_skew,
        }
    }
}
