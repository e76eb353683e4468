//! Runs a burst: sends messages through the stack, waits until the last batch is complete, audits, and prints a summary.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::bail;
use clap::Args;
use loadgen::{
    DuplicateRule, Duplicates, Progress, Schedule, SendOptions, Shape, Sizes, Workload,
    WorkloadConfig,
};
use protocol::batch::Status;

use crate::deploy;
use crate::options::StackArgs;
use crate::stack::{
    BATCH_DEAD_LETTER_QUEUE, INPUT_DEAD_LETTER_QUEUE, INPUT_QUEUE, QUARANTINE_QUEUE, Stack,
};
use crate::summary::{SetAside, Summary, TimeSplit, Usage};

/// Time between two looks at the progress.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// Bursts of more messages get a window in which batches of the default size can fill. The others get a short one.
const LONG_BURST_MESSAGES: u64 = 200_000;

/// The variables that the audit depends on. No redeploy may change them.
const AUDIT_VARIABLES: [&str; 2] = ["SINK", "ON_DUPLICATE"];

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
    let mut options = stack_args.resolve()?;
    let window_secs = if args.messages > LONG_BURST_MESSAGES {
        60
    } else {
        5
    };
    options.default_variable("MAX_SECONDARY_BATCHING_WINDOW", window_secs);
    if options.variables.contains_key("SINK") {
        bail!(
            "`SINK`: not with `burst`: a burst audits a sink of its own, which `--sink` chooses; use `serve` for other sinks"
        );
    }
    for name in AUDIT_VARIABLES {
        let redeploys = &options.faults.redeploys;
        if redeploys
            .iter()
            .any(|redeploy| redeploy.variables.contains_key(name))
        {
            bail!("`--redeploy-at`: changes `{name}`: the audit of a burst depends on its value");
        }
    }
    deploy::check_variables(&options)?;
    let stack = Stack::start(&options).await?;
    let done = tokio::select! {
        done = send_and_audit(&stack, &workload, &args) => done,
        failure = stack.cold_start_failure() => Err(failure),
        _ = tokio::signal::ctrl_c() => Err(anyhow::anyhow!("stopped by Ctrl-C")),
    };
    stack.stop().await;
    let summary = done?;
    if args.json {
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

async fn send_and_audit(
    stack: &Stack,
    workload: &Workload,
    args: &BurstArgs,
) -> anyhow::Result<Summary> {
    let started = Instant::now();
    let sending = async {
        let progress = Progress::new("sent", workload.len());
        let constant = |per_second| Shape::Constant { per_second };
        let options = SendOptions {
            schedule: Schedule::new(&args.rate.map_or(Shape::Max, constant))?,
            concurrency: 8,
            ..SendOptions::new(stack.queue_url(INPUT_QUEUE))
        };
        let sent = loadgen::send(stack.sqs_client(), workload, &options, &|done| {
            progress.set_with_retries(done.acknowledged, done.retries)
        })
        .await;
        progress.finish();
        anyhow::Ok((sent?, started.elapsed()))
    };
    let (sent, sent_after) = sending.await?;
    let (claimed_after, drained_after) =
        wait_until_drained(stack, workload, started, Duration::from_secs(args.patience)).await?;
    let rule = match stack.variable("ON_DUPLICATE") {
        Some("requeue") => DuplicateRule::Requeue,
        Some(_) | None => DuplicateRule::Drop,
    };
    stack.export_parts().await?;
    // A sink that got nothing has no directory. The audit then reports every event as lost.
    std::fs::create_dir_all(&stack.out)?;
    let audit_started = Instant::now();
    let manifests = stack.sink_report().kind.manifests();
    let audit = loadgen::audit(&stack.out, workload, rule, manifests)?;
    let depth = |queue| stack.sqs.depth(queue);
    let batches = stack.batches_by_status().await?;
    Ok(Summary {
        cost: stack.ledger(sent.sent, sent.unique),
        claims: stack.claims(),
        latency: stack.latencies(args.size).await?,
        tickets_given_back: stack.function_logs.given_back(),
        sink_outages: stack.outages().await?,
        audit,
        sink: stack.sink_report(),
        time: TimeSplit {
            sent_secs: sent_after.as_secs_f64(),
            claimed_secs: claimed_after.as_secs_f64(),
            drained_secs: drained_after.as_secs_f64(),
            audit_secs: audit_started.elapsed().as_secs_f64(),
        },
        aggregator: Usage::of(&stack.aggregator.stats(), sent.sent),
        batch_processor: Usage::of(&stack.batch_processor.stats(), sent.sent),
        set_aside: SetAside::of(
            depth(QUARANTINE_QUEUE)?,
            depth(INPUT_DEAD_LETTER_QUEUE)?,
            depth(BATCH_DEAD_LETTER_QUEUE)?,
        ),
        faults: stack.faults.report(),
        batches_in_error: batches.get(&Status::Error).copied().unwrap_or_default(),
        sent,
    })
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
            if batches.values().all(|count| *count == 0) {
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
