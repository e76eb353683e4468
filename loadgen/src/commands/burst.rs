//! `loadgen burst`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::Context;
use clap::Args;
use loadgen::stack::{Ended, Run, RunError, RunProgress, Stack};
use loadgen::{Halt, Judged, Progress, ResumeFile, SendError, SendState, Workload};
use planner::{ReportFiles, check_file};
use stack::StackArgs;

use super::pace::{PaceArgs, messages_of};
use super::signals::Signals;
use super::workload::{WORKLOAD_ARGS, WorkloadArgs};
use super::{FAILED, print};

#[derive(Args)]
pub struct BurstArgs {
    #[command(flatten)]
    stack: StackArgs,
    #[command(flatten)]
    workload: WorkloadArgs,
    #[command(flatten)]
    pace: PaceArgs,
    /// Where the delivered parts are: `file:///path`, `s3://bucket/prefix` or `postgres://user@host/database` [default: the sink of
    /// the stack]
    #[arg(long, value_name = "URI")]
    sink: Option<String>,
    /// Seconds between two looks at the queue and the batch records
    #[arg(long, value_name = "SECONDS", default_value_t = 2, value_parser = clap::value_parser!(u64).range(1..=60))]
    every: u64,
    /// Seconds for which the input queue must look empty, unless all events are claimed earlier; SQS counts with a delay
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    quiet: u64,
    /// Give up after this long without progress
    #[arg(long, value_name = "SECONDS", default_value_t = 1_200)]
    patience: u64,
    /// File for the record of the burst; its report goes beside it [default: loadgen-<seed>.record.json]
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// Print the summary as one JSON object
    #[arg(long)]
    json: bool,
    /// Continue the burst that left this file. Workload and shape are those of the file
    #[arg(long, value_name = "FILE", conflicts_with_all = WORKLOAD_ARGS, conflicts_with_all = ["rate", "shape", "resume_file"])]
    resume: Option<PathBuf>,
    /// File to write if the burst is stopped or fails [default: loadgen-<seed>.resume.json, or the file of `--resume`]
    #[arg(long, value_name = "FILE")]
    resume_file: Option<PathBuf>,
}

/// Runs the burst, and prints its summary. The exit code is 0 only if everything was delivered once.
#[tokio::main]
pub async fn run(args: &BurstArgs) -> anyhow::Result<ExitCode> {
    let (settings, connection) = args.stack.open().await?;
    let stack = Stack::from_settings(&settings)?;
    let burst = burst(args, &stack)?;
    let workload = Workload::new(burst.workload.clone())?;
    let seed = burst.workload.seed;
    let file = args.resume.clone().or(args.resume_file.clone());
    let file = file.unwrap_or_else(|| format!("loadgen-{seed}.resume.json").into());
    check_file("--resume-file", &file)?;
    report_files(args, seed).check("--record")?;
    let write = |state: SendState| {
        let mut burst = burst.clone();
        burst.state = state;
        burst.write(&file)
    };
    let run = Run {
        connection: &connection,
        stack: &stack,
        workload: &workload,
        send: args.pace.options(
            &stack.watched.input_queue_url,
            &burst.shape,
            burst.state.clone(),
        )?,
        began_at_ms: burst.began_at_ms.unwrap_or_default(),
        every: Duration::from_secs(args.every),
        quiet: Duration::from_secs(args.quiet),
        patience: Duration::from_secs(args.patience),
        sink: args.sink.clone(),
    };
    let halt = Halt::new();
    let signals = Signals::halt(halt.clone())?;
    let ended = run_with_progress(run, workload.len(), burst.state.acknowledged(), &halt).await;
    let signal = signals.code();
    if let Err(RunError::Send(SendError::Unsent { state, .. })) = &ended {
        write((**state).clone())?;
        eprintln!("to continue: add --resume {}", file.display());
    }
    let ended = ended?;
    let stopped = ended.summary.ended_early.is_some();
    if stopped || args.resume.is_some() {
        let whole = SendState {
            next: workload.len(),
            bytes: ended.summary.sent.bytes,
            ..SendState::default()
        };
        write(ended.rest.clone().unwrap_or(whole))?;
    }
    show(
        args,
        &ended,
        &report_files(args, seed),
        stopped.then_some(&*file),
        signal,
    )
}

/// Returns the burst of the arguments, or that of the resume file.
fn burst(args: &BurstArgs, stack: &Stack) -> anyhow::Result<ResumeFile> {
    if let Some(path) = &args.resume {
        let burst = ResumeFile::read(path)?;
        anyhow::ensure!(
            burst.queue_url == stack.watched.input_queue_url && burst.began_at_ms.is_some(),
            "`--resume`: a burst of another stack: got one to `{}`, expected one of `loadgen burst` to `{}`",
            burst.queue_url,
            stack.watched.input_queue_url
        );
        return Ok(burst);
    }
    let shape = args.pace.shape();
    let workload = args.workload.config(messages_of(&shape)?);
    let state = SendState::default();
    let mut burst = ResumeFile::new(
        stack.watched.input_queue_url.clone(),
        None,
        workload,
        shape,
        state,
    );
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .context("read the clock")?;
    burst.began_at_ms = Some(u64::try_from(now.as_millis())?);
    Ok(burst)
}

async fn run_with_progress(
    run: Run<'_>,
    messages: u64,
    before: u64,
    halt: &Halt,
) -> Result<Ended, RunError> {
    let sending = Progress::after("sent", messages, before);
    let claiming = Progress::new("claimed", run.workload.unique());
    let all_sent = std::sync::Once::new();
    let show = |done: RunProgress| {
        if done.sent < messages {
            sending.set_with_retries(done.sent, done.retries);
        } else {
            all_sent.call_once(|| sending.finish());
            claiming.set(done.claimed);
        }
    };
    let ended = run.run(halt, &show).await;
    all_sent.call_once(|| sending.finish());
    claiming.finish();
    ended
}

fn report_files(args: &BurstArgs, seed: u64) -> ReportFiles {
    let file = args.record.clone();
    ReportFiles::beside(file.unwrap_or_else(|| format!("loadgen-{seed}.record.json").into()))
}

fn show(
    args: &BurstArgs,
    ended: &Ended,
    files: &ReportFiles,
    resume: Option<&Path>,
    signal: Option<u8>,
) -> anyhow::Result<ExitCode> {
    files.write(&ended.record)?;
    match args.json {
        true => print(&Judged::new(ended.summary.reasons(), &ended.summary))?,
        false => println!("{}", ended.summary),
    }
    eprintln!("record      {}", files.record.display());
    eprintln!("report      {}", files.report.display());
    if let Some(resume) = resume {
        eprintln!("to continue: add --resume {}", resume.display());
    }
    Ok(ExitCode::from(match ended.summary.ok() {
        true => 0,
        false => signal.unwrap_or(FAILED),
    }))
}
