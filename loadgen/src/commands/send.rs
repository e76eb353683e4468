//! `loadgen send`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use loadgen::{
    Halt, Progress, ResumeFile, SendError, SendProgress, SendReport, SendState, Workload,
};
use serde::Serialize;

use super::connect::connect;
use super::pace::{PaceArgs, messages_of};
use super::print;
use super::signals::Signals;
use super::workload::{WORKLOAD_ARGS, WorkloadArgs};

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
    #[command(flatten)]
    pub pace: PaceArgs,
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
    let burst = burst(args)?;
    let workload = Workload::new(burst.workload.clone())?;
    let file = args.resume.clone().or(args.resume_file.clone());
    let file =
        file.unwrap_or_else(|| format!("loadgen-{}.resume.json", burst.workload.seed).into());
    planner::check_file("--resume-file", &file)?;
    let client = connect(&burst.queue_url, burst.endpoint_url.as_deref()).await?;
    let options = args
        .pace
        .options(&burst.queue_url, &burst.shape, burst.state.clone())?;
    let write = |state: SendState| {
        let mut burst = burst.clone();
        burst.state = state;
        burst.write(&file)
    };
    let progress = Progress::after("send", workload.len(), burst.state.acknowledged());
    let halt = Halt::new();
    let signals = Signals::halt(halt.clone())?;
    let set = |done: SendProgress| progress.set_with_retries(done.acknowledged, done.retries);
    let sent = loadgen::send_until(&client, &workload, &options, &halt, &set).await;
    let signal = signals.code();
    progress.finish();
    if let Err(SendError::Unsent { state, .. }) = &sent {
        write((**state).clone())?;
        eprintln!("to continue: loadgen send --resume {}", file.display());
    }
    let sent = sent?;
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
    Ok(ExitCode::from(signal.filter(|_| stopped).unwrap_or(0)))
}

/// Returns the burst of the arguments, or that of the resume file.
fn burst(args: &SendArgs) -> anyhow::Result<ResumeFile> {
    if let Some(path) = &args.resume {
        let mut burst = ResumeFile::read(path)?;
        burst.endpoint_url = args.endpoint_url.clone().or(burst.endpoint_url);
        return Ok(burst);
    }
    let shape = args.pace.shape();
    let workload = args.workload.config(messages_of(&shape)?);
    let state = SendState::default();
    let (queue, endpoint) = (args.queue_url.clone(), args.endpoint_url.clone());
    Ok(ResumeFile::new(queue, endpoint, workload, shape, state))
}
