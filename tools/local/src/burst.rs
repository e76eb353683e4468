//! Runs a burst: sends messages through the stack, waits until the last batch is complete, audits, and prints a summary.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, bail};
use clap::Args;
use loadgen::{
    AuditReport, DeliveryTimes, DuplicateRule, Duplicates, Judged, Manifests, Progress, Schedule,
    SendOptions, SendProgress, SendReport, SentTimes, Shape, Sizes, StopSignal, StopSignals,
    Workload, WorkloadConfig,
};
use planner::{ReportFiles, local as defaults};
use protocol::batch::Status;

use crate::batch_life::BatchLife;
use crate::console;
use crate::deploy;
use crate::drain::wait_until_drained;
use crate::interrupt::{self, SentSoFar, SoFar};
use crate::leases::FirstLeases;
use crate::notices::NoticeReport;
use crate::options::{StackArgs, StackOptions};
use crate::record::{Observed, record, report_files};
use crate::sampler::Sampler;
use crate::settings::settings;
use crate::stack::{
    BATCH_DEAD_LETTER_QUEUE, INPUT_DEAD_LETTER_QUEUE, INPUT_QUEUE, QUARANTINE_QUEUE, Stack,
};
use crate::summary::{SetAside, Summary, SummaryText, TimeSplit, Usage};
use crate::traces::Collector;

/// The variables that the audit depends on. No redeploy may change them.
const AUDIT_VARIABLES: [&str; 3] = ["SINK", "ON_DUPLICATE", "QUOTA"];

/// The values of `SINK_FORMAT` that the audit reads.
const AUDITED_FORMATS: [&str; 2] = ["envelope", "body"];

/// Flags of a burst.
#[derive(Args, Clone, Debug)]
pub struct BurstArgs {
    /// Messages in the burst, duplicates included
    #[arg(long, value_name = "N", default_value_t = 100_000)]
    messages: u64,
    /// Share of the messages that repeat an earlier one, from 0 to below 100
    #[arg(long, value_name = "PERCENT", default_value_t = 5.0)]
    duplicates: f64,
    /// Length of each body
    #[arg(long, value_name = "BYTES", default_value_t = 300)]
    size: usize,
    /// Number of values of the field `source` in the bodies, `s0` and on; for BATCH_KEY=source
    #[arg(long, value_name = "N", default_value_t = 1)]
    sources: u32,
    /// Makes ids and content differ from those of other bursts
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Messages sent per second; as fast as possible if not given
    #[arg(long, value_name = "N")]
    rate: Option<u64>,
    /// Give up after this long without progress
    #[arg(long, value_name = "SECONDS", default_value_t = 600)]
    patience: u64,
    /// Write the record of the burst to this file, and its report beside it [default: in a new temporary directory]
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// Show units, requests and list prices too; the JSON object always has them
    #[arg(long)]
    cost: bool,
    /// Print the summary as one JSON object
    #[arg(long)]
    json: bool,
}

/// How a burst ended.
enum Ended {
    Audited(Box<(Summary, Observed)>),
    Stopped(StopSignal),
}

/// Runs a burst and prints its summary. The exit code is 0 only if nothing was lost, repeated, changed between attempts,
/// set aside, or left in error. A signal ends the burst; then what was done so far is printed.
///
/// # Errors
/// A variable of the functions is wrong, the stack or a function does not start, the burst cannot be sent, or there is no
/// progress for `--patience`.
pub async fn run(args: BurstArgs, stack_args: StackArgs) -> anyhow::Result<ExitCode> {
    let mut signals = StopSignals::new().context("wait for SIGINT and SIGTERM")?;
    let workload = Workload::new(WorkloadConfig {
        seed: args.seed,
        messages: args.messages,
        duplicates: Duplicates::any(args.duplicates),
        sizes: Sizes::Fixed(args.size),
        sources: args.sources,
        skew: 0,
    })?;
    if let Some(file) = &args.record {
        ReportFiles::beside(file.clone()).check("--record")?;
    }
    let mut options = stack_args.resolve()?;
    options.tell_not_used();
    set_defaults(&mut options, &args);
    check_audited(&options)?;
    deploy::check_variables(&options)?;
    let env_file = stack_args.env_file()?;
    let run = Run {
        workload,
        args,
        sent: AtomicU64::new(0),
        leases: FirstLeases::default(),
        sampler: Sampler::default(),
    };
    let mut stack = tokio::select! {
        stack = Stack::start_watched(&options, run.leases.sink()) => stack?,
        signal = signals.next() => return Ok(signal.code().into()),
    };
    let env_file = env_file.map(|file| file.write(&stack.describe()));
    let _env_file = env_file.transpose()?;
    let console = console::serve(&stack).await?;
    // Standard output has the summary.
    eprintln!("console     {}", console.address());
    let ended = tokio::select! {
        done = run.send_and_audit(&stack, &options) => done.map(Box::new).map(Ended::Audited),
        failure = stack.cold_start_failure() => Err(failure),
        signal = signals.next() => Ok(Ended::Stopped(signal)),
    };
    match ended {
        Ok(Ended::Audited(done)) => {
            stack.stop().await;
            let (summary, observed) = *done;
            run.finish(summary, observed, &mut stack)
        }
        Ok(Ended::Stopped(signal)) => {
            interrupt::stop(&stack, &mut signals).await;
            run.print_so_far(&stack, signal).await
        }
        Err(error) => {
            stack.stop().await;
            Err(error)
        }
    }
}

/// Sets the variables whose defaults depend on the burst, unless the user has set them.
///
/// A window opens with an invocation, lasts for the timeout and the variable, and the burst waits for the last one to close. A
/// small burst comes in one go and fills no batch, so its batches are sealed when the input queue is empty. It keeps its window
/// if the user has set one, or a rate, with which the queue is empty again and again.
fn set_defaults(options: &mut StackOptions, args: &BurstArgs) {
    let window = "MAX_SECONDARY_BATCHING_WINDOW";
    let small = defaults::is_small(args.messages) && args.rate.is_none();
    if small && !options.variables.contains_key(window) {
        options.default_variable("SEAL_WHEN_DRAINED", "on");
    }
    options.default_variable(window, defaults::window_secs(args.messages));
}

/// Checks that the audit can read the deliveries of these options, and decide about them.
fn check_audited(options: &StackOptions) -> anyhow::Result<()> {
    let value = |name: &str| options.variables.get(name).map(String::as_str);
    if value("SINK").is_some() {
        bail!(
            "`SINK`: not with `burst`: a burst audits a sink of its own, which `--sink` chooses; use `serve` for other sinks"
        );
    }
    if value("QUOTA").is_some_and(|text| !text.is_empty()) {
        bail!(
            "`QUOTA`: not with `burst`: its audit would report every event beyond the quota as lost; use `serve`"
        );
    }
    if let Some(format) = value("SINK_FORMAT")
        .filter(|format| !AUDITED_FORMATS.contains(format) && !format.is_empty())
    {
        bail!(
            "`SINK_FORMAT`: not with `burst`: got `{format}`, expected {}, which its audit reads; use `serve`",
            AUDITED_FORMATS.map(|one| format!("`{one}`")).join(" or ")
        );
    }
    for name in AUDIT_VARIABLES {
        let mut redeploys = options.faults.redeploys.iter();
        if redeploys.any(|redeploy| redeploy.variables.contains_key(name)) {
            bail!("`--redeploy-at`: changes `{name}`: the audit of a burst depends on its value");
        }
    }
    Ok(())
}

/// A burst, and what is observed of it.
struct Run {
    workload: Workload,
    args: BurstArgs,
    /// Messages that were acknowledged so far.
    sent: AtomicU64,
    leases: FirstLeases,
    sampler: Sampler,
}

impl Run {
    /// Writes the record, and prints the summary. Keeps the parts if they are the place to look at.
    fn finish(
        &self,
        mut summary: Summary,
        observed: Observed,
        stack: &mut Stack,
    ) -> anyhow::Result<ExitCode> {
        if !summary.ok() && summary.next.is_none() {
            if !summary.audit.ok() {
                stack.sink.keep_parts();
                summary.sink = stack.sink_report();
            }
            summary.next = Some(self.next_step(&summary, stack));
        }
        let files = report_files(self.args.record.clone(), observed.began_at);
        match files.write(&record(&summary, observed)) {
            Ok(()) => summary.report = Some(files),
            Err(error) => eprintln!("no record was written: {error:#}"),
        }
        if self.args.json {
            let judged = Judged::new(summary.reasons(), &summary);
            println!("{}", serde_json::to_string(&judged)?);
        } else {
            let text = SummaryText {
                summary: &summary,
                cost: self.args.cost,
            };
            print!("{text}");
        }
        Ok(match summary.ok() {
            true => ExitCode::SUCCESS,
            false => ExitCode::FAILURE,
        })
    }

    /// Returns what to look at first, if no batch is in error and no message in the quarantine.
    fn next_step(&self, summary: &Summary, stack: &Stack) -> String {
        if summary.audit.ok() {
            return match summary.set_aside.total() {
                0 => "the lines `sink` and `notices` below".to_owned(),
                _ => {
                    "the warnings above; `--logs` shows every log line of the functions".to_owned()
                }
            };
        }
        if !summary.sink.kept {
            return "the parts, after another run with `--out DIR`, which keeps them".to_owned();
        }
        let config = self.workload.config();
        let mut command = format!(
            "`loadgen audit --dir {} --messages {} --duplicates {} --size {} --sources {} --seed {}",
            stack.out.display(),
            config.messages,
            config.duplicates,
            config.sizes,
            config.sources,
            config.seed
        );
        if stack.duplicate_rule() == DuplicateRule::Requeue {
            command.push_str(" --on-duplicate requeue");
        }
        if summary.sink.kind.manifests() == Manifests::Required {
            command.push_str(" --manifests");
        }
        command + "`, which names the events"
    }

    /// Prints what was done until a signal.
    async fn print_so_far(&self, stack: &Stack, signal: StopSignal) -> anyhow::Result<ExitCode> {
        let burst = SentSoFar {
            sent: self.sent.load(Ordering::Relaxed),
            messages: self.workload.len(),
        };
        let so_far = SoFar::of(stack, signal, Some(burst)).await?;
        if self.args.json {
            println!("{}", serde_json::to_string(&so_far)?);
        } else {
            println!("{so_far}");
        }
        Ok(signal.code().into())
    }

    /// Sends the burst, waits until the last batch is complete, and audits.
    async fn send_and_audit(
        &self,
        stack: &Stack,
        options: &StackOptions,
    ) -> anyhow::Result<(Summary, Observed)> {
        let Run { workload, args, .. } = self;
        let (began, began_at) = (Instant::now(), SystemTime::now());
        let times = SentTimes::new(began);
        let patience = Duration::from_secs(args.patience);
        let constant = |per_second| Shape::Constant { per_second };
        let schedule = Schedule::new(&args.rate.map_or(Shape::Max, constant))?;
        let phases = async {
            let sent = self.send(stack, &schedule, &times).await?;
            let sent_after = began.elapsed();
            let (claimed_after, drained_after) =
                wait_until_drained(stack, workload, began, patience).await?;
            anyhow::Ok((sent, [sent_after, claimed_after, drained_after]))
        };
        let (sent, phases) = tokio::select! {
            phases = phases => phases?,
            failure = self.sampler.run(stack, began, || times.total()) => match failure? {},
        };
        let samples = self.sampler.end(stack, began, times.total())?;
        stack.export_parts().await?;
        let leases = self.leases.times();
        let batches = stack.batch_lives(began_at, &leases, args.size).await?;
        let parts = batches.iter().flat_map(BatchLife::part_times);
        let mut deliveries = DeliveryTimes::new(parts, times.of_events(workload, &schedule));
        let audit_started = Instant::now();
        let audit = self.audit(stack, &mut deliveries)?;
        let [sent_secs, claimed_secs, drained_secs] = phases.map(|phase| phase.as_secs_f64());
        let time = TimeSplit {
            sent_secs,
            claimed_secs,
            drained_secs,
            audit_secs: audit_started.elapsed().as_secs_f64(),
        };
        let latency = deliveries.latency(stack.duplicate_rule(), schedule.is_paced());
        let notes = latency.as_ref().err().map(|note| (*note).to_owned());
        let mut latencies = Vec::from_iter(latency.ok());
        latencies.extend(sent.latencies.iter().cloned());
        let observed = Observed {
            began_at,
            settings: settings(workload.config(), args.rate, options, stack),
            samples,
            batches,
            latencies,
            notes: Vec::from_iter(notes),
        };
        Ok((self.summary(stack, sent, audit, time).await?, observed))
    }

    async fn send(
        &self,
        stack: &Stack,
        schedule: &Schedule,
        times: &SentTimes,
    ) -> anyhow::Result<SendReport> {
        let progress = Progress::new("sent", self.workload.len());
        let options = SendOptions {
            schedule: schedule.clone(),
            concurrency: 8,
            traces: stack.collector().map(Collector::log),
            ..SendOptions::new(stack.queue_url(INPUT_QUEUE))
        };
        let acknowledged = |done: SendProgress| {
            progress.set_with_retries(done.acknowledged, done.retries);
            times.acknowledged(done.acknowledged);
            self.sent.store(done.acknowledged, Ordering::Relaxed);
        };
        let sent = loadgen::send(stack.sqs_client(), &self.workload, &options, &acknowledged).await;
        progress.finish();
        if let Some(collector) = stack.collector() {
            collector.end_burst();
        }
        Ok(sent?)
    }

    /// Compares what was delivered with what was sent. Tells `deliveries` of each delivered event.
    fn audit(&self, stack: &Stack, deliveries: &mut DeliveryTimes) -> anyhow::Result<AuditReport> {
        // A sink that got nothing has no directory. The audit then reports every event as lost.
        std::fs::create_dir_all(&stack.out)?;
        let manifests = stack.sink_report().kind.manifests();
        let mut delivered =
            |batch_id: &str, part, number| deliveries.delivered(batch_id, part, number);
        Ok(loadgen::audit_watched(
            &stack.out,
            &self.workload,
            stack.duplicate_rule(),
            manifests,
            &mut delivered,
        )?)
    }

    /// Returns the summary, without its record.
    async fn summary(
        &self,
        stack: &Stack,
        sent: SendReport,
        audit: AuditReport,
        time: TimeSplit,
    ) -> anyhow::Result<Summary> {
        let depth = |queue| stack.sqs.depth(queue);
        let batches = stack.batches_by_status().await?;
        let notices = match stack.notices() {
            Some(notices) => Some(NoticeReport::of(&notices.manifests().await?)),
            None => None,
        };
        Ok(Summary {
            notices,
            cost: stack.ledger(sent.sent, sent.unique),
            claims: stack.claims(),
            latency: stack.latencies(self.args.size).await?,
            tickets_given_back: stack.function_logs.given_back(),
            sink_outages: stack.outages().await?,
            audit,
            sink: stack.sink_report(),
            time,
            aggregator: Usage::of(&stack.aggregator.stats(), sent.sent),
            batch_processor: Usage::of(&stack.batch_processor.stats(), sent.sent),
            set_aside: SetAside::of(
                depth(QUARANTINE_QUEUE)?,
                depth(INPUT_DEAD_LETTER_QUEUE)?,
                depth(BATCH_DEAD_LETTER_QUEUE)?,
            ),
            faults: stack.faults.report(),
            batches_in_error: batches.get(&Status::Error).copied().unwrap_or_default(),
            report: None,
            next: stack.first_trouble().await?,
            sent,
        })
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        burst: BurstArgs,
        #[command(flatten)]
        stack: StackArgs,
    }

    /// Returns the window, and whether batches are sealed when the input queue is empty.
    fn defaults(flags: &[&str]) -> (String, Option<String>) {
        let line = Line::parse_from([&["batch-local"], flags].concat());
        let mut options = line.stack.resolve().unwrap();
        set_defaults(&mut options, &line.burst);
        let value = |name| options.variables.get(name).cloned();
        (
            value("MAX_SECONDARY_BATCHING_WINDOW").unwrap(),
            value("SEAL_WHEN_DRAINED"),
        )
    }

    #[test]
    fn only_a_small_burst_without_a_rate_and_a_window_of_its_own_does_not_wait_for_windows() {
        let sealed = |flags: &[&str]| defaults(flags).1.as_deref() == Some("on");
        assert!(sealed(&["--messages=1000"]));
        assert!(!sealed(&["--messages=1001"]));
        assert!(!sealed(&["--messages=100", "--rate=10"]));
        assert!(!sealed(&[
            "--messages=100",
            "--env=MAX_SECONDARY_BATCHING_WINDOW=5"
        ]));
        assert!(!sealed(&["--messages=100", "--env=SEAL_WHEN_DRAINED=off"]));
        let window = |messages| defaults(&[messages]).0;
        assert_eq!(window("--messages=200000"), "5");
        assert_eq!(window("--messages=200001"), "60");
    }
}
