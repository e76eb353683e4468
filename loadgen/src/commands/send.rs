//! `loadgen send`.

use std::process::ExitCode;

use clap::Args;
use loadgen::{Progress, SendOptions, Workload};

use super::connect::connect;
use super::print;
use super::workload::WorkloadArgs;

#[derive(Args)]
pub struct SendArgs {
    /// URL of the queue, in AWS or on another server with the SQS protocol
    #[arg(long, value_name = "URL")]
    pub queue_url: String,
    #[command(flatten)]
    pub workload: WorkloadArgs,
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

/// Sends the burst, and prints its report.
#[tokio::main]
pub async fn run(args: &SendArgs) -> anyhow::Result<ExitCode> {
    let workload = Workload::new(args.workload.config())?;
    let client = connect(&args.queue_url, args.endpoint_url.as_deref()).await?;
    let options = SendOptions {
        queue_url: args.queue_url.clone(),
        rate_per_second: args.rate,
        concurrency: args.concurrency,
    };
    let progress = Progress::new("send", workload.len());
    let sent = loadgen::send(&client, &workload, &options, &|done| progress.set(done)).await;
    progress.finish();
    print(&sent?)?;
    Ok(ExitCode::SUCCESS)
}

fn in_flight(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(requests @ 1..=1_000) => Ok(requests),
        _ => Err("expected 1 to 1000".to_owned()),
    }
}
