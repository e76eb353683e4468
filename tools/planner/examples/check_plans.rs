//! Holds plans against `batch-local burst`, with the same settings and limits: `cargo xtask check-plans`.
//!
//! What carries over between machines is what configured limits decide: rates, windows, timeouts, units a second. So most
//! settings send at a rate that leaves the functions idle most of the time, or throttle the tables. What the machine decides
//! is measured by two bursts at the beginning, the second of the log: how long a message takes in either function, and given to every plan.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;

use anyhow::{Context, bail, ensure};
use clap::Parser;
use planner::{Settings, Shape, local, parameters};
use serde_json::Value;

/// The arguments.
#[derive(Parser)]
struct Arguments {
    /// The executable of `local`
    #[arg(long, value_name = "PATH")]
    local: PathBuf,
    /// Run three short settings
    #[arg(long)]
    small: bool,
    /// Run only the settings whose name contains this text [default: all]
    #[arg(long, value_name = "TEXT", default_value = "")]
    setting: String,
}

/// By how much a plan may be off, as a share.
const OFF_MAX: f64 = 0.1;
/// By how many batches a plan of `--small` may be off: its bursts are so short that one batch is more than a tenth.
const SMALL_BATCHES_OFF_MAX: f64 = 1.0;
/// How often a setting is run before its plan counts as wrong: other work of the machine may disturb a burst.
const RUNS_MAX: u32 = 2;

/// One setting of a burst and of its plan.
struct Setting {
    name: &'static str,
    messages: u64,
    /// Messages a second; as fast as possible if 0.
    rate: u64,
    changes: &'static [Change],
}

const fn setting(
    name: &'static str,
    messages: u64,
    rate: u64,
    changes: &'static [Change],
) -> Setting {
    Setting {
        name,
        messages,
        rate,
        changes,
    }
}

/// What a setting changes, in the burst and in the plan.
#[derive(Clone, Copy)]
enum Change {
    /// Percent of the messages.
    Duplicates(f64),
    BodyBytes(u64),
    BatchKeys(u32),
    Log,
    AggregatorTimeoutSecs(u64),
    /// Records of one event of the aggregator, at most.
    BatchSize(u64),
    ConcurrencyPerEnvironment(u32),
    /// A variable of the functions, and the parameter of that name.
    Variable(&'static str, &'static str, u64),
    /// Write units a second of each table.
    TableUnits(u32),
    /// Write units a second of each index key.
    KeyUnits(u32),
}

use Change::{
    AggregatorTimeoutSecs, BatchKeys, BatchSize, BodyBytes, ConcurrencyPerEnvironment, Duplicates,
    KeyUnits, Log, TableUnits, Variable,
};

const fn window_secs(secs: u64) -> Change {
    Variable(
        "MAX_SECONDARY_BATCHING_WINDOW",
        "MaxSecondaryBatchingWindow",
        secs,
    )
}

const fn batch_items(count: u64) -> Change {
    Variable("MAX_BATCH_SIZE", "MaxBatchSize", count)
}

/// Messages a second that `batch-local burst` sends at most, for plans of bursts without a rate.
const FASTEST: u64 = 15_000;

/// What settings with a rate have beside their own changes: windows of 3 s, so that there are so many batches that one more or less
/// is below a tenth; and one environment for both invocations, which remembers the claims of both.
const STEADY: [Change; 2] = [ConcurrencyPerEnvironment(2), window_secs(3)];

/// The settings of `--small`, which run at the same time. Each takes less than a minute.
const SMALL: [Setting; 3] = [
    setting("full batches", 6_000, 500, &[batch_items(500)]),
    setting("window 15 s", 5_000, 500, &[window_secs(15)]),
    setting(
        "full batches of the log",
        6_000,
        500,
        &[Log, batch_items(500)],
    ),
];

const ALL: [Setting; 16] = [
    setting("500 a second", 20_000, 500, &[]),
    setting("1,000 a second", 40_000, 1_000, &[]),
    setting("30 % duplicates", 20_000, 500, &[Duplicates(30.0)]),
    setting("2 KB bodies", 20_000, 500, &[BodyBytes(2_000)]),
    setting("5 batch keys", 20_000, 500, &[BatchKeys(5)]),
    setting("20 batch keys", 20_000, 500, &[BatchKeys(20)]),
    setting("full batches of 1,000", 20_000, 500, &[batch_items(1_000)]),
    setting(
        "window 60 s, timeout 20 s",
        20_000,
        500,
        &[window_secs(60), AggregatorTimeoutSecs(20)],
    ),
    setting("timeout 20 s", 20_000, 500, &[AggregatorTimeoutSecs(20)]),
    setting("100 messages an invocation", 15_000, 500, &[BatchSize(100)]),
    setting("the log", 20_000, 500, &[Log]),
    setting(
        "the log, 30 % duplicates, full batches of 1,000",
        20_000,
        500,
        &[Log, Duplicates(30.0), batch_items(1_000)],
    ),
    setting(
        "200 units a table, the log",
        20_000,
        0,
        &[
            TableUnits(200),
            Log,
            window_secs(30),
            AggregatorTimeoutSecs(60),
            BatchSize(1_000),
        ],
    ),
    setting(
        "1,000 units a table, claims and releases",
        20_000,
        0,
        &[
            TableUnits(1_000),
            AggregatorTimeoutSecs(60),
            BatchSize(2_000),
        ],
    ),
    setting(
        "100 units a key, 10 shards",
        20_000,
        0,
        &[KeyUnits(100), AggregatorTimeoutSecs(60), BatchSize(2_000)],
    ),
    setting(
        "50 units a key, 4 shards",
        20_000,
        0,
        &[
            KeyUnits(50),
            AggregatorTimeoutSecs(60),
            BatchSize(2_000),
            Variable("INDEX_SHARDS", "IndexShards", 4),
        ],
    ),
];

impl Setting {
    /// Returns every change; a later one of a variable counts.
    fn changes(&self) -> impl Iterator<Item = Change> {
        let steady: &[Change] = if self.rate > 0 { &STEADY } else { &[] };
        let has_duplicates = self.changes.iter().any(|one| matches!(one, Duplicates(_)));
        // `batch-local burst` has some by default.
        let none: &[Change] = if has_duplicates {
            &[]
        } else {
            &[Duplicates(0.0)]
        };
        let all = none.iter().chain(steady).chain(self.changes);
        all.copied()
    }
}

impl Change {
    /// Returns the flags of `batch-local burst`.
    fn flags(self) -> Vec<String> {
        let flag = match self {
            Duplicates(percent) => format!("--duplicates={percent}"),
            BodyBytes(bytes) => format!("--size={bytes}"),
            BatchKeys(count) => {
                return vec![
                    format!("--sources={count}"),
                    "--env=BATCH_KEY=source".to_owned(),
                ];
            }
            Log => "--bodies=log:table".to_owned(),
            AggregatorTimeoutSecs(secs) => format!("--aggregator-timeout={secs}"),
            BatchSize(count) => format!("--batch-size={count}"),
            ConcurrencyPerEnvironment(count) => format!("--concurrency-per-environment={count}"),
            Variable(name, _, value) => format!("--env={name}={value}"),
            TableUnits(units) => format!("--table-limit={units}"),
            KeyUnits(units) => format!("--partition-limit={units}"),
        };
        vec![flag]
    }

    /// Changes the settings of a plan, or the parameters that are applied to them.
    fn apply(self, settings: &mut Settings, given: &mut Vec<parameters::Parameter>) {
        let mut parameter =
            |name: &str, value: &dyn ToString| given.push((name.to_owned(), value.to_string()));
        match self {
            Duplicates(percent) => settings.burst.duplicates_percent = percent,
            BodyBytes(bytes) => settings.burst.size_bytes = bytes,
            BatchKeys(count) => settings.burst.keys = count,
            Log => parameter("Bodies", &"log:table"),
            AggregatorTimeoutSecs(secs) => parameter("AggregatorTimeout", &secs),
            BatchSize(count) => parameter("InputBatchSize", &count),
            ConcurrencyPerEnvironment(count) => settings.aggregator.per_environment = count,
            Variable(_, name, value) => parameter(name, &value),
            TableUnits(units) => settings.tables.fix_units(units.into()),
            KeyUnits(units) => settings.tables.key = Some(units.into()),
        }
    }
}

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

/// Runs the settings, and prints a row for each. Fails if a plan is off by more than a tenth, or a burst does not run.
fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    let settings: &[Setting] = if arguments.small { &SMALL } else { &ALL };
    let batches_off_max = match arguments.small {
        true => SMALL_BATCHES_OFF_MAX,
        false => 0.0,
    };
    let items = calibrated(&arguments.local, &[])?;
    let log = calibrated(&arguments.local, &[Log])?;
    println!();
    println!(
        "| setting | taken, s | planned | drained, s | planned | off | batches | planned | off |"
    );
    println!("|---|---:|---:|---:|---:|---:|---:|---:|---:|");
    let settings = settings.iter();
    let chosen = settings.filter(|setting| setting.name.contains(&arguments.setting));
    let fits = |setting: &Setting| {
        let is_log = setting.changes.iter().any(|one| matches!(one, Log));
        let speed = if is_log { &log } else { &items };
        fits(&arguments.local, setting, speed, batches_off_max)
    };
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
    setting: &Setting,
    speed: &Speed,
    batches_off_max: f64,
) -> anyhow::Result<bool> {
    let planned = planned(setting, speed)?;
    for _ in 0..RUNS_MAX {
        let seen = of_burst(&burst(local, setting)?)?;
        if print_row(setting, &seen, &planned, batches_off_max) {
            return Ok(true);
        }
    }
    Ok(false)
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
    command.args(["burst", "--json"]);
    command.arg(format!("--messages={}", setting.messages));
    if setting.rate > 0 {
        command.arg(format!("--rate={}", setting.rate));
    }
    for change in setting.changes() {
        command.args(change.flags());
    }
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

/// Plans the same burst.
fn planned(setting: &Setting, speed: &Speed) -> anyhow::Result<Figures> {
    let mut settings = Settings::default();
    settings.burst.messages = setting.messages;
    let rate = match setting.rate {
        0 => FASTEST,
        rate => rate,
    };
    settings.burst.shape = Shape::Constant { rate: rate as f64 };
    settings.be_local(local::ENVIRONMENTS);
    let mut given = Vec::new();
    for change in setting.changes() {
        change.apply(&mut settings, &mut given);
    }
    let problems = parameters::apply_to_local(&mut settings, &given);
    ensure!(problems.is_empty(), "{problems:?}");
    settings.aggregator.micros_per_message = speed.aggregator;
    settings.processor.micros_per_message = speed.processor;
    let plan = planner::plan(&settings);
    ensure!(plan.drained, "the plan does not come to its end");
    Ok(Figures {
        taken_secs: plan.claimed_secs,
        drained_secs: plan.drained_secs,
        batches: plan.batches as f64,
    })
}

fn number(json: &Value, pointer: &str) -> anyhow::Result<f64> {
    let number = json.pointer(pointer).and_then(Value::as_f64);
    number.with_context(|| format!("the output has no number at {pointer}"))
}

/// Runs a burst that leaves the functions idle most of the time; returns how long a message took.
fn calibrated(local: &Path, changes: &'static [Change]) -> anyhow::Result<Speed> {
    let summary = burst(local, &setting("calibration", 5_000, 500, changes))?;
    let sent = number(&summary, "/sent/sent")?;
    let of = |function: &str| {
        let secs = number(&summary, &format!("/{function}/invoke_secs"));
        secs.map(|secs| secs / sent * 1e6)
    };
    let speed = Speed {
        aggregator: of("aggregator")?,
        processor: of("batch_processor")?,
    };
    println!(
        "a message takes {:.0} µs in the aggregator and {:.0} µs in the batch-processor{}",
        speed.aggregator,
        speed.processor,
        if changes.is_empty() {
            ""
        } else {
            ", with the log"
        }
    );
    Ok(speed)
}

fn of_burst(summary: &Value) -> anyhow::Result<Figures> {
    Ok(Figures {
        taken_secs: number(summary, "/time/claimed_secs")?,
        drained_secs: number(summary, "/time/drained_secs")?,
        batches: number(summary, "/audit/batches/count")?,
    })
}
