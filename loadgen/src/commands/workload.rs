//! The arguments that describe a workload.

use clap::Args;
use loadgen::WorkloadConfig;

#[derive(Args)]
pub struct WorkloadArgs {
    /// Number of messages in the burst, including duplicates
    #[arg(long, value_name = "N", default_value_t = WorkloadConfig::default().messages)]
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
    #[arg(long, value_name = "BYTES", default_value_t = WorkloadConfig::default().size_bytes)]
    size: usize,
    /// Number of sources that the events are spread over: s0, s1, …
    #[arg(long, value_name = "N", default_value_t = 1)]
    sources: u32,
    /// Number that makes ids and bodies differ from those of other bursts
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
}

impl WorkloadArgs {
    pub fn config(&self) -> WorkloadConfig {
        WorkloadConfig {
            seed: self.seed,
            messages: self.messages,
            duplicates_percent: self.duplicates,
            size_bytes: self.size,
            sources: self.sources,
        }
    }
}
