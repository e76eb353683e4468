//! `loadgen send`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use loadgen::{
    Halt, Progress, RATE_MAX, ResumeFile, Schedule, SendError, SendOptions, SendProgress,
    SendReport, SendState, Shape, Workload, WorkloadConfig,
};
use serde::Serialize;

use super::connect::connect;
use super::workload::{WORKLOAD_ARGS, WorkloadArgs};
use super::{STOPPED, print};

#[derive(Args)]
pub struct SendArgs {
    /// URL of the queue, in AWS or on another server with the SQS protocol
    #[arg(
        long,
        value_name = "URL",
        required_unless_present = "resume",
        default_value = "",
        hide_default_value = true
    )]
    pub queue_url: String,
    #[command(flatten)]
    pub workload: WorkloadArgs,
    /// Messages per second; short for `--shape constant:N` [default: as fast as possible]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=RATE_MAX as i64 as u64))]
    pub rate: Option<u64>,
    /// When messages are sent: `max`, `constant:1000`, `ramp:100..5000/60s`, `spikes:100,5000,every=30s,for=2s` or
    /// `replay:FILE`, a file with an arrival time, or a time and a count, in each line
    #[arg(long, value_name = "SHAPE", conflicts_with = "rate")]
    pub shape: Option<Shape>,
    /// Milliseconds that a message may wait for others to share its request
    #[arg(long, value_name = "MS", default_value_t = 10, value_parser = clap::value_parser!(u64).range(..=1_000))]
    pub linger: u64,
    /// Most requests in flight
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = in_flight)]
    pub concurrency: usize,
    /// Endpoint to send requests to [default: from the environment, or from the queue URL]
    #[arg(long, value_name = "URL")]
    pub endpoint_url: Option<String>,
    /// Continue the burst that left this file. Queue, workload and shape are those of the file
    #[arg(long, value_name = "FILE", conflicts_with_all = WORKLOAD_ARGS, conflicts_with_all = ["queue_url", "rate", "shape", "resume_file"])]
    pub resume: Option<PathBuf>,
    /// File to write if the burst is stopped or fails [default: loadgen-<seed>.resume.json, or the file of `--resume`]
    #[arg(long, value_name = "FILE")]
    pub resume_file: Option<PathBuf>,
}

/// What is printed.
#[derive(Serialize)]
struct Summary<'a> {
    #[serde(flatten)]
    report: &'a SendReport,
    /// The file to continue from, if the burst was stopped.
    #[serde(skip_serializing_if = "Option::is_none")]
    resume_file: Option<&'a Path>,
}

/// Sends the burst, and prints its report. If it ends early, writes the resume file.
#[tokio::main]
pub async fn run(args: &SendArgs) -> anyhow::Result<ExitCode> {
    let (burst, schedule) = burst(args)?;
    let workload = Workload::new(burst.workload.clone())?;
    let file = args.resume.clone().or(args.resume_file.clone());
    let file =
        file.unwrap_or_else(|| format!("loadgen-{}.resume.json", burst.workload.seed).into());
    let client = connect(&burst.queue_url, burst.endpoint_url.as_deref()).await?;
    let options = SendOptions {
        schedule,
        concurrency: args.concurrency,
        linger: Duration::from_millis(args.linger),
        resume: burst.state.clone(),
        ..SendOptions::new(&burst.queue_url)
    };
    let write = |state: SendState| {
        let mut burst = burst.clone();
        burst.state = state;
        burst.write(&file)
    };
    let progress = Progress::after("send", workload.len(), burst.state.acknowledged());
    let halt = Halt::new();
    let signals = tokio::spawn(halt_on_signals(halt.clone()));
    let set = |done: SendProgress| progress.set_with_retries(done.acknowledged, done.retries);
    let sent = loadgen::send_until(&client, &workload, &options, &halt, &set).await;
    signals.abort();
    progress.finish();
    let sent = match sent {
        Ok(sent) => sent,
        Err(SendError::Unsent {
            unsent,
            messages,
            event_id,
            state,
            cause,
        }) => {
            write((*state).clone())?;
            eprintln!("to continue: loadgen send --resume {}", file.display());
            return Err(SendError::Unsent {
                unsent,
                messages,
                event_id,
                state,
                cause,
            }
            .into());
        }
        Err(error) => return Err(error.into()),
    };
    // A burst that was continued and is complete leaves a file too, so that nothing is sent again by mistake.
    let whole = SendState {
        next: workload.len(),
        bytes: sent.report.bytes,
        ..SendState::default()
    };
    let stopped = sent.rest.is_some();
    if stopped || args.resume.is_some() {
        write(sent.rest.unwrap_or(whole))?;
    }
    print(&Summary {
        report: &sent.report,
        resume_file: stopped.then_some(&file),
    })?;
    Ok(ExitCode::from(if stopped { STOPPED } else { 0 }))
}

/// Returns the burst of the arguments, or that of the resume file.
fn burst(args: &SendArgs) -> anyhow::Result<(ResumeFile, Schedule)> {
    if let Some(path) = &args.resume {
        let mut burst = ResumeFile::read(path)?;
        burst.endpoint_url = args.endpoint_url.clone().or(burst.endpoint_url);
        let schedule = Schedule::new(&burst.shape)?;
        return Ok((burst, schedule));
    }
    let constant = args.rate.map(|per_second| Shape::Constant { per_second });
    let shape = constant.or(args.shape.clone()).unwrap_or_default();
    let schedule = Schedule::new(&shape)?;
    let messages = schedule
        .limit()
        .unwrap_or(WorkloadConfig::default().messages);
    let workload = args.workload.config(messages);
    let state = SendState::default();
    let (queue, endpoint) = (args.queue_url.clone(), args.endpoint_url.clone());
    Ok((
        ResumeFile::new(queue, endpoint, workload, shape, state),
        schedule,
    ))
}

/// Stops the burst at the first SIGINT or SIGTERM, and aborts it at the second one.
async fn halt_on_signals(halt: Halt) -> anyhow::Result<()> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut interrupt = signal(SignalKind::interrupt()).context("wait for SIGINT")?;
    let mut terminate = signal(SignalKind::terminate()).context("wait for SIGTERM")?;
    let mut next = async || {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
    };
    next().await;
    halt.stop();
    eprintln!("stopping: waiting for the replies to the requests in flight; again to give them up");
    next().await;
    halt.abort();
    Ok(())
}

fn in_flight(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(requests @ 1..=1_000) => Ok(requests),
        _ => Err("expected 1 to 1000".to_owned()),
    }
}
