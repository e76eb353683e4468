//! Runs a burst: sends messages through the stack, waits until the last batch is complete, audits, and prints a summary.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime};

use anyhow::bail;
use clap::Args;
use loadgen::{
    AuditReport, DeliveryTimes, DuplicateRule, Duplicates, Progress, ReportFiles, Schedule,
    SendOptions, SendProgress, SendReport, SentTimes, Shape, Sizes, Workload, WorkloadConfig,
};
use protocol::batch::Status;

use crate::batch_life::BatchLife;
use crate::deploy;
use crate::leases::FirstLeases;
use crate::notices::NoticeReport;
use crate::options::{StackArgs, StackOptions};
use crate::record::{Observed, record, report_files};
use crate::sampler::Sampler;
use crate::settings::settings;
use crate::stack::{
    BATCH_DEAD_LETTER_QUEUE, INPUT_DEAD_LETTER_QUEUE, INPUT_QUEUE, QUARANTINE_QUEUE, Stack,
};
use crate::summary::{SetAside, Summary, TimeSplit, Usage};
#[cfg(feature = "otel")]
use crate::traces::Collector;

/// Time between two looks at the progress.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// Bursts of more messages get a window in which batches of the default size can fill. The others get a short one.
const LONG_BURST_MESSAGES: u64 = 200_000;

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
    /// Print the summary as one JSON object
    #[arg(long)]
    json: bool,
}

/// Runs a burst and prints its summary. The exit code is 0 only if nothing was lost, repeated, changed between attempts,
/// set aside, or left in error.
///
/// # Errors
/// A variable of the functions is wrong, the stack or a function does not start, the burst cannot be sent, or there is no
/// progress for `--patience`.
pub async fn run(args: BurstArgs, stack_args: StackArgs) -> anyhow::Result<ExitCode> {
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
    let window_secs = if args.messages > LONG_BURST_MESSAGES {
        60
    } else {
        5
    };
    options.default_variable("MAX_SECONDARY_BATCHING_WINDOW", window_secs);
    check_audited(&options)?;
    deploy::check_variables(&options)?;
    let run = Run::new(workload, args);
    let stack = Stack::start_watched(&options, run.leases.sink()).await?;
    let done = tokio::select! {
        done = run.send_and_audit(&stack, &options) => done,
        failure = stack.cold_start_failure() => Err(failure),
        _ = tokio::signal::ctrl_c() => Err(anyhow::anyhow!("stopped by Ctrl-C")),
    };
    stack.stop().await;
    let (mut summary, observed) = done?;
    let files = report_files(run.args.record.clone(), observed.began_at);
    match files.write(&record(&summary, observed)) {
        Ok(()) => summary.report = Some(files),
        Err(error) => eprintln!("no record was written: {error:#}"),
    }
    if run.args.json {
        println!("{}", serde_json::to_string(&summary)?);
    } else {
        println!("{summary}");
    }
    Ok(if summary.ok() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Checks that the audit can read and judge what these options deliver.
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
    leases: FirstLeases,
    sampler: Sampler,
}

impl Run {
    fn new(workload: Workload, args: BurstArgs) -> Run {
        Run {
            workload,
            args,
            leases: FirstLeases::default(),
            sampler: Sampler::default(),
        }
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
        let batches = stack
            .batch_lives(began_at, &self.leases.times(), args.size)
            .await?;
        let mut deliveries = DeliveryTimes::new(
            batches.iter().flat_map(BatchLife::part_times),
            times.of_events(workload, &schedule),
        );
        let audit_started = Instant::now();
        let audit = self.audit(stack, &mut deliveries)?;
        let [sent_secs, claimed_secs, drained_secs] = phases.map(|phase| phase.as_secs_f64());
        let time = TimeSplit {
            sent_secs,
            claimed_secs,
            drained_secs,
            audit_secs: audit_started.elapsed().as_secs_f64(),
        };
        let latency = deliveries.latency(duplicate_rule(stack), schedule.is_paced());
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
            #[cfg(feature = "otel")]
            traces: stack.collector().map(Collector::log),
            ..SendOptions::new(stack.queue_url(INPUT_QUEUE))
        };
        let acknowledged = |done: SendProgress| {
            progress.set_with_retries(done.acknowledged, done.retries);
            times.acknowledged(done.acknowledged);
        };
        let sent = loadgen::send(stack.sqs_client(), &self.workload, &options, &acknowledged).await;
        progress.finish();
        #[cfg(feature = "otel")]
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
            duplicate_rule(stack),
            manifests,
            &mut delivered,
        )?)
    }

    /// Returns the latency from the send of an event to its delivery, and notes about it.
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
            sent,
        })
    }
}

/// Returns how often each event must be delivered.
fn duplicate_rule(stack: &Stack) -> DuplicateRule {
    match stack.variable("ON_DUPLICATE") {
        Some("requeue") => DuplicateRule::Requeue,
        Some(_) | None => DuplicateRule::Drop,
    }
}

/// Waits until the input queue is empty and every batch is complete or in error. Returns how long each took, from
/// `started`.
///
/// # Errors
/// There was no progress for `patience`, or the batch table cannot be read.
async fn wait_until_drained(
    stack: &Stack,
    workload: &Workload,
    started: Instant,
    patience: Duration,
) -> anyhow::Result<(Duration, Duration)> {
    let progress = Progress::new("taken off the queue", workload.len());
    let mut claimed_after = None;
    let mut last_change = (String::new(), Instant::now());
    loop {
        let depth = stack.sqs.depth(INPUT_QUEUE)?;
        let empty =
            depth.visible + depth.in_flight + depth.delayed == 0 && stack.input_mapping.idle();
        let stats = stack.input_mapping.stats();
        if claimed_after.is_none() {
            progress.set(stats.deleted.min(workload.len()));
        }
        let mut under_way = String::new();
        if empty {
            if claimed_after.is_none() {
                claimed_after = Some(started.elapsed());
                progress.finish();
                eprintln!(
                    "input queue empty after {:.1} s; waiting for the last windows to close",
                    started.elapsed().as_secs_f64()
                );
            }
            let mut batches = stack.batches_by_status().await?;
            batches.remove(&Status::Error);
            let noticed = stack.notices().is_none() || stack.notices_waiting().await? == 0;
            if noticed && batches.values().all(|count| *count == 0) {
                return Ok((claimed_after.unwrap_or_default(), started.elapsed()));
            }
            under_way = format!("{batches:?}");
        }
        let state = format!(
            "{depth:?} {stats:?} {under_way} {:?}",
            stack.batch_mapping.stats()
        );
        if state != last_change.0 {
            last_change = (state, Instant::now());
        } else if last_change.1.elapsed() > patience {
            bail!(
                "no progress for {} s: input queue {depth:?}, batches {under_way}",
                patience.as_secs()
            );
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}
