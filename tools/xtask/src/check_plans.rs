//! Holds `loadgen plan` against `batch-local burst`, with the same settings and limits.
//!
//! What carries over between machines is what configured limits decide: rates, windows, timeouts, units a second. So most
//! settings send at a rate that leaves the functions idle most of the time, or throttle the tables. What the machine decides
//! is measured by one burst at the beginning: how long a message takes in either function, and given to every plan.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;

use anyhow::{Context, bail, ensure};
use serde_json::Value;

use crate::tools::{cargo, target_dir};

/// The arguments of `cargo xtask check-plans`.
#[derive(clap::Args)]
pub struct CheckPlans {
    /// Run three short settings, with the executables of the tests: the part that `cargo xtask test --all` runs
    #[arg(long)]
    small: bool,
    /// Run only the settings whose name contains this text [default: all]
    #[arg(long, value_name = "TEXT", default_value = "")]
    setting: String,
    /// Use this executable of `local` instead of building one
    #[arg(long, value_name = "PATH")]
    local: Option<PathBuf>,
}

/// By how much a plan may be off, as a share.
const OFF_MAX: f64 = 0.1;
/// By how many batches a plan of `--small` may be off: its bursts are so short that one batch is more than a tenth.
const SMALL_BATCHES_OFF_MAX: f64 = 1.0;
/// How often a setting is run before its plan counts as wrong: other work of the machine may disturb a burst.
const RUNS_MAX: u32 = 2;

/// One setting: flags of `batch-local burst` and the same for `loadgen plan`, beside those that both have.
struct Setting {
    name: &'static str,
    messages: u64,
    /// Messages a second; as fast as possible if 0.
    rate: u64,
    burst: &'static [&'static str],
    plan: &'static [&'static str],
}

const fn setting(
    name: &'static str,
    messages: u64,
    rate: u64,
    burst: &'static [&'static str],
    plan: &'static [&'static str],
) -> Setting {
    Setting {
        name,
        messages,
        rate,
        burst,
        plan,
    }
}

/// Messages a second that `batch-local burst` sends at most, for plans of bursts without a rate.
const FASTEST: u64 = 15_000;

/// Flags of both for settings with a rate: windows of 3 s, so that there are so many batches that one more or less is below a
/// tenth; and one environment for both invocations, so that a slow moment of the machine makes no second one, which would open
/// batches of its own.
const STEADY_BURST: [&str; 2] = [
    "--concurrency-per-environment=2",
    "--env=MAX_SECONDARY_BATCHING_WINDOW=3",
];
const STEADY_PLAN: [&str; 2] = [
    "--concurrency-per-environment=2",
    "--set=MaxSecondaryBatchingWindow=3",
];

/// The settings of `--small`, which run at the same time. Each takes less than a minute.
const SMALL: [Setting; 3] = [
    setting(
        "full batches",
        6_000,
        500,
        &["--env=MAX_BATCH_SIZE=500"],
        &["--set=MaxBatchSize=500"],
    ),
    setting(
        "window 15 s",
        5_000,
        500,
        &["--env=MAX_SECONDARY_BATCHING_WINDOW=15"],
        &["--set=MaxSecondaryBatchingWindow=15"],
    ),
    setting(
        "300 units a table, chunks",
        4_000,
        0,
        &[
            "--table-limit=300",
            "--bodies=table",
            "--aggregator-timeout=30",
            "--batch-size=1000",
        ],
        &[
            "--table-limit=300",
            "--set=Bodies=table",
            // Twice what all messages take: environments do not get equal shares of the table's units.
            "--set=AggregatorTimeout=30",
            "--set=InputBatchSize=1000",
        ],
    ),
];

const ALL: [Setting; 16] = [
    setting("500 a second", 20_000, 500, &[], &[]),
    setting("1,000 a second", 40_000, 1_000, &[], &[]),
    setting(
        "30 % duplicates",
        20_000,
        500,
        &["--duplicates=30"],
        &["--duplicates=30"],
    ),
    setting(
        "2 KB bodies",
        20_000,
        500,
        &["--size=2000"],
        &["--size=2000"],
    ),
    setting(
        "5 batch keys",
        20_000,
        500,
        &["--sources=5", "--env=BATCH_KEY=source"],
        &["--keys=5"],
    ),
    setting(
        "20 batch keys",
        20_000,
        500,
        &["--sources=20", "--env=BATCH_KEY=source"],
        &["--keys=20"],
    ),
    setting(
        "full batches of 1,000",
        20_000,
        500,
        &["--env=MAX_BATCH_SIZE=1000"],
        &["--set=MaxBatchSize=1000"],
    ),
    setting(
        "window 60 s, timeout 20 s",
        20_000,
        500,
        &[
            "--env=MAX_SECONDARY_BATCHING_WINDOW=60",
            "--aggregator-timeout=20",
        ],
        &[
            "--set=MaxSecondaryBatchingWindow=60",
            "--set=AggregatorTimeout=20",
        ],
    ),
    setting(
        "timeout 20 s",
        20_000,
        500,
        &["--aggregator-timeout=20"],
        &["--set=AggregatorTimeout=20"],
    ),
    setting(
        "100 messages an invocation",
        15_000,
        500,
        &["--batch-size=100"],
        &["--set=InputBatchSize=100"],
    ),
    setting(
        "chunks in the table",
        20_000,
        500,
        &["--bodies=table"],
        &["--set=Bodies=table"],
    ),
    setting(
        "500 units a table, chunks",
        20_000,
        0,
        &[
            "--table-limit=500",
            "--bodies=table",
            "--aggregator-timeout=60",
            "--batch-size=2000",
        ],
        &[
            "--table-limit=500",
            "--set=Bodies=table",
            "--set=AggregatorTimeout=60",
            "--set=InputBatchSize=2000",
        ],
    ),
    setting(
        "1,000 units a table, claims and releases",
        20_000,
        0,
        &[
            "--table-limit=1000",
            "--aggregator-timeout=60",
            "--batch-size=2000",
        ],
        &[
            "--table-limit=1000",
            "--set=AggregatorTimeout=60",
            "--set=InputBatchSize=2000",
        ],
    ),
    setting(
        "100 units a key, 10 shards",
        20_000,
        0,
        &[
            "--partition-limit=100",
            "--aggregator-timeout=60",
            "--batch-size=2000",
        ],
        &[
            "--key-limit=100",
            "--set=AggregatorTimeout=60",
            "--set=InputBatchSize=2000",
        ],
    ),
    setting(
        "50 units a key, 4 shards",
        20_000,
        0,
        &[
            "--partition-limit=50",
            "--aggregator-timeout=60",
            "--batch-size=2000",
            "--env=INDEX_SHARDS=4",
        ],
        &[
            "--key-limit=50",
            "--set=AggregatorTimeout=60",
            "--set=InputBatchSize=2000",
            "--set=IndexShards=4",
        ],
    ),
    setting(
        "1,000 units a table, chunks, messages that come back",
        20_000,
        0,
        &["--table-limit=1000", "--bodies=table"],
        &["--table-limit=1000", "--set=Bodies=table"],
    ),
];

/// What a burst or a plan came to.
#[derive(Clone, Copy)]
struct Figures {
    taken_secs: f64,
    drained_secs: f64,
    batches: f64,
}

/// Microseconds of a message in each function on this machine.
struct Speed {
    aggregator: f64,
    processor: f64,
}

/// Runs the settings, and prints a row for each.
///
/// # Errors
/// A plan is off by more than a tenth, or a burst or plan does not run.
pub fn run(arguments: &CheckPlans) -> anyhow::Result<()> {
    let (local, loadgen) = build(arguments)?;
    let settings: &[Setting] = if arguments.small { &SMALL } else { &ALL };
    let batches_off_max = match arguments.small {
        true => SMALL_BATCHES_OFF_MAX,
        false => 0.0,
    };
    let calibration = setting("calibration", 5_000, 500, &[], &[]);
    let speed = speed(&burst(&local, &calibration)?)?;
    println!(
        "a message takes {:.0} µs in the aggregator and {:.0} µs in the batch-processor\n",
        speed.aggregator, speed.processor
    );
    println!(
        "| setting | taken, s | planned | drained, s | planned | off | batches | planned | off |"
    );
    println!("|---|---:|---:|---:|---:|---:|---:|---:|---:|");
    let chosen = settings
        .iter()
        .filter(|setting| setting.name.contains(&arguments.setting));
    let fits = |setting| fits(&local, &loadgen, setting, &speed, batches_off_max);
    let held: Vec<(&str, anyhow::Result<bool>)> = match arguments.small {
        // They mostly wait, so they hardly disturb each other.
        true => thread::scope(|scope| {
            let held: Vec<_> = chosen
                .map(|setting| (setting.name, scope.spawn(move || fits(setting))))
                .collect();
            held.into_iter()
                .map(|(name, held)| (name, held.join().unwrap_or_else(|_| bail!("it panicked"))))
                .collect()
        }),
        false => chosen
            .map(|setting| (setting.name, fits(setting)))
            .collect(),
    };
    let mut wrong = Vec::new();
    for (name, held) in held {
        if !held.with_context(|| format!("setting `{name}`"))? {
            wrong.push(name);
        }
    }
    ensure!(
        wrong.is_empty(),
        "plans that are off by more than 10 %: {}",
        wrong.join("; ")
    );
    Ok(())
}

/// Plans a setting, and runs it until the plan fits, at most [`RUNS_MAX`] times. Returns whether it did.
fn fits(
    local: &Path,
    loadgen: &Path,
    setting: &Setting,
    speed: &Speed,
    batches_off_max: f64,
) -> anyhow::Result<bool> {
    let planned = of_plan(&plan(loadgen, setting, speed)?)?;
    for _ in 0..RUNS_MAX {
        let seen = of_burst(&burst(local, setting)?)?;
        if print_row(setting, &seen, &planned, batches_off_max) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Builds both executables: those of the tests for the small part, and optimised ones otherwise.
fn build(arguments: &CheckPlans) -> anyhow::Result<(PathBuf, PathBuf)> {
    let (profile, flags): (&str, &[&str]) = match arguments.small {
        true => ("debug", &["build", "--workspace", "--all-targets"]),
        false => (
            "release",
            &["build", "--release", "-p", "local", "-p", "loadgen"],
        ),
    };
    let built = target_dir().join(profile);
    let loadgen = match &arguments.local {
        // Not the optimised one, which would compile everything else too.
        Some(_) => {
            cargo(&["build", "-p", "loadgen"])?;
            target_dir().join("debug/loadgen")
        }
        None => {
            cargo(flags)?;
            built.join("loadgen")
        }
    };
    let local = arguments
        .local
        .clone()
        .unwrap_or_else(|| built.join("batch-local"));
    Ok((local, loadgen))
}

/// Prints a row; returns whether the plan is off by a tenth at most, or by `batches_off_max` batches.
fn print_row(setting: &Setting, seen: &Figures, planned: &Figures, batches_off_max: f64) -> bool {
    let off = |planned: f64, seen: f64| planned / seen - 1.0;
    let of_time = off(planned.drained_secs, seen.drained_secs);
    let of_batches = off(planned.batches, seen.batches);
    println!(
        "| {} | {:.1} | {:.1} | {:.1} | {:.1} | {:+.1} % | {} | {} | {:+.1} % |",
        setting.name,
        seen.taken_secs,
        planned.taken_secs,
        seen.drained_secs,
        planned.drained_secs,
        100.0 * of_time,
        seen.batches,
        planned.batches,
        100.0 * of_batches
    );
    let batches_fit =
        of_batches.abs() <= OFF_MAX || (planned.batches - seen.batches).abs() <= batches_off_max;
    of_time.abs() <= OFF_MAX && batches_fit
}

/// Runs a burst through `local`; returns its summary.
fn burst(local: &Path, setting: &Setting) -> anyhow::Result<Value> {
    let mut command = Command::new(local);
    command.args([
        "burst",
        "--json",
        "--messages",
        &setting.messages.to_string(),
    ]);
    if setting.rate > 0 {
        command.args(["--rate", &setting.rate.to_string()]);
        command.args(STEADY_BURST);
    }
    if !setting
        .burst
        .iter()
        .any(|flag| flag.starts_with("--duplicates"))
    {
        command.args(["--duplicates", "0"]);
    }
    output(command.args(setting.burst))
}

/// Plans the same burst; returns the record of the plan.
fn plan(loadgen: &Path, setting: &Setting, speed: &Speed) -> anyhow::Result<Value> {
    let rate = if setting.rate > 0 {
        setting.rate
    } else {
        FASTEST
    };
    let mut command = Command::new(loadgen);
    command.args([
        "plan",
        "--json",
        "--local",
        "--messages",
        &setting.messages.to_string(),
    ]);
    command.arg(format!("--shape=constant:{rate}"));
    command.arg(format!("--aggregator-micros={}", speed.aggregator));
    command.arg(format!("--processor-micros={}", speed.processor));
    if setting.rate > 0 {
        command.args(STEADY_PLAN);
    }
    output(command.args(setting.plan))
}

fn output(command: &mut Command) -> anyhow::Result<Value> {
    let output = command
        .output()
        .with_context(|| format!("run {command:?}"))?;
    ensure!(
        output.status.success(),
        "{command:?} failed: {}\n{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    serde_json::from_slice(&output.stdout)
        .with_context(|| format!("read the output of {command:?}, expected one JSON object"))
}

fn number(json: &Value, pointer: &str) -> anyhow::Result<f64> {
    let number = json.pointer(pointer).and_then(Value::as_f64);
    number.with_context(|| format!("the output has no number at {pointer}"))
}

/// Returns how long a message took in each function of a burst.
fn speed(summary: &Value) -> anyhow::Result<Speed> {
    let sent = number(summary, "/sent/sent")?;
    let of = |function: &str| {
        Ok::<_, anyhow::Error>(number(summary, &format!("/{function}/invoke_secs"))? / sent * 1e6)
    };
    Ok(Speed {
        aggregator: of("aggregator")?,
        processor: of("batch_processor")?,
    })
}

fn of_burst(summary: &Value) -> anyhow::Result<Figures> {
    Ok(Figures {
        taken_secs: number(summary, "/time/claimed_secs")?,
        drained_secs: number(summary, "/time/drained_secs")?,
        batches: number(summary, "/audit/batches/count")?,
    })
}

fn of_plan(record: &Value) -> anyhow::Result<Figures> {
    let batches = record.pointer("/batches").and_then(Value::as_array);
    Ok(Figures {
        taken_secs: number(record, "/outcome/claimed_after_secs")?,
        drained_secs: number(record, "/outcome/drained_after_secs")?,
        batches: batches.context("the record has no batches")?.len() as f64,
    })
}
