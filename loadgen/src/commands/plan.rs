//! `loadgen plan`.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use clap::Args;
use planner::{
    PlanReport, Prices, Settings, Shape, check_file, parameters, plan, published, search, what_if,
};

use super::USAGE;

/// The arguments of a plan.
#[derive(Args)]
pub struct PlanArgs {
    /// Number of messages in the burst, including duplicates
    #[arg(long, value_name = "N", default_value_t = 100_000)]
    messages: u64,
    /// Percentage of the messages that repeat an earlier one, from 0 to below 100
    #[arg(long, value_name = "PERCENT", default_value_t = 0.0)]
    duplicates: f64,
    /// Length of every body, in bytes
    #[arg(long, value_name = "BYTES", default_value_t = 300)]
    size: u64,
    /// When the messages arrive: `burst` (all at once), `constant:RATE` a second, `ramp:SECONDS`, `spikes:COUNT:SECONDS` apart
    #[arg(long, value_name = "SHAPE", default_value = "burst", value_parser = str::parse::<Shape>)]
    shape: Shape,
    /// Number of values of the batch key; 1 without BatchKey
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    keys: u32,
    /// A file with parameters of the SAM template: the JSON of CloudFormation, `Name=value` pairs, or a samconfig.toml
    #[arg(long, value_name = "FILE")]
    parameters: Option<PathBuf>,
    /// A parameter of the SAM template; overrides the file; may be repeated
    #[arg(long = "set", value_name = "NAME=VALUE")]
    set: Vec<String>,
    /// A price file of the form of tools/planner/prices.json [default: that file]
    #[arg(long, value_name = "FILE")]
    prices: Option<PathBuf>,
    #[command(flatten)]
    assumed: AssumedArgs,
    /// Plan for the stand-ins and defaults of `batch-local burst` instead of AWS
    #[arg(long, value_name = "ENVIRONMENTS", num_args = 0..=1, default_missing_value = "2")]
    local: Option<u32>,
    /// With `--local`, concurrent invocations of one environment
    #[arg(long, value_name = "N", requires = "local", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    concurrency_per_environment: u32,
    /// Plan the one published run of such a service instead, and what this service's defaults do with its messages
    #[arg(long)]
    published_run: bool,
    /// Find the cheapest settings for which this holds, for example `drain < 5m and cost < 1.2`
    #[arg(long, value_name = "CONDITION", value_parser = str::parse::<search::Conditions>)]
    search: Option<search::Conditions>,
    /// Show what doubling each limit by itself would change
    #[arg(long)]
    what_if: bool,
    /// Write the record of the plan, which `loadgen report` draws
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// Print the record of the plan instead of text
    #[arg(long)]
    json: bool,
    /// Decides the small differences between invocations
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
}

/// What AWS does not tell, or what depends on the account or the machine.
#[derive(Args)]
#[command(next_help_heading = "Assumptions")]
struct AssumedArgs {
    /// Messages a second that a mapping receives for each concurrent invocation [default: 1000]
    #[arg(long, value_name = "N")]
    receive_rate: Option<f64>,
    /// Time that the sink takes for a part
    #[arg(long, value_name = "SECONDS")]
    sink_secs: Option<f64>,
    /// How much of a part the sink takes in a second
    #[arg(long, value_name = "MB")]
    sink_mb_per_second: Option<f64>,
    /// Write units a second of each table and each index; fixes them, and overrides LockTableCapacity
    #[arg(long, value_name = "UNITS")]
    table_limit: Option<f64>,
    /// Write units a second of each index key, and of the record of a batch [default: 1000]
    #[arg(long, value_name = "UNITS")]
    key_limit: Option<f64>,
    /// Entries that the index of the log has at the start: those of the last 11 days and DedupWindow [default: 0]
    #[arg(long, value_name = "N")]
    index_entries: Option<u64>,
    /// Concurrent invocations of the account [default: 1000]
    #[arg(long, value_name = "N")]
    account_concurrency: Option<u64>,
    /// CPU of the aggregator for a message, in microseconds [default: as measured for the size and place of bodies]
    #[arg(long, value_name = "MICROSECONDS")]
    aggregator_micros: Option<f64>,
    /// CPU of the batch-processor for a message, in microseconds [default: as measured]
    #[arg(long, value_name = "MICROSECONDS")]
    processor_micros: Option<f64>,
    /// Time of a request with 25 writes
    #[arg(long, value_name = "MILLISECONDS")]
    write_ms: Option<f64>,
}

/// Plans, and prints the plan.
pub fn run(args: &PlanArgs) -> anyhow::Result<ExitCode> {
    if let Some(record) = &args.record {
        check_file("--record", record)?;
    }
    let prices = match &args.prices {
        Some(path) => Prices::from_json(&read(path)?)?,
        None => Prices::us_east_1(),
    };
    if args.published_run {
        return published_run(args, &prices);
    }
    let settings = match settings(args)? {
        Ok(settings) => settings,
        Err(problems) => {
            problems.iter().for_each(|problem| eprintln!("{problem}"));
            return Ok(ExitCode::from(USAGE));
        }
    };
    if let Some(conditions) = &args.search {
        let found = search::cheapest(&settings, &prices, conditions);
        let (Ok(text) | Err(text)) = &found;
        print!("{text}");
        return Ok(match found.is_ok() {
            true => ExitCode::SUCCESS,
            false => ExitCode::FAILURE,
        });
    }
    let plan = plan(&settings);
    let report = PlanReport {
        settings: &settings,
        plan: &plan,
        prices: &prices,
    };
    output(args, &report, "a plan")?;
    if !args.json {
        print!("{report}");
        if args.what_if {
            print!("{}", what_if::table(&settings, &plan, &prices));
        }
        print!("{}", report.assumptions());
    }
    Ok(ExitCode::SUCCESS)
}

/// Writes the record, to the file and to standard output as the flags say.
fn output(args: &PlanArgs, report: &PlanReport<'_>, title: &str) -> anyhow::Result<()> {
    if args.record.is_none() && !args.json {
        return Ok(());
    }
    let record = report.record(title);
    if let Some(path) = &args.record {
        let write = || format!("write the record to `{}`", path.display());
        std::fs::write(path, record.to_json()).with_context(write)?;
    }
    match args.json {
        true => super::print(&record),
        false => Ok(()),
    }
}

fn read(path: &PathBuf) -> anyhow::Result<String> {
    std::fs::read_to_string(path).with_context(|| format!("read `{}`", path.display()))
}

/// Returns the settings, or everything that is wrong with the arguments.
///
/// # Errors
/// A file cannot be read.
fn settings(args: &PlanArgs) -> anyhow::Result<Result<Settings, Vec<String>>> {
    let mut settings = Settings {
        seed: args.seed,
        ..Settings::default()
    };
    let mut problems = Vec::new();
    let burst = &mut settings.burst;
    (burst.messages, burst.duplicates_percent, burst.size_bytes) =
        (args.messages, args.duplicates, args.size);
    (burst.shape, burst.keys) = (args.shape, args.keys);
    problems.extend(burst.problems());
    if let Some(environments) = args.local {
        settings.be_local(environments);
        settings.aggregator.per_environment = args.concurrency_per_environment;
    }
    let mut given = Vec::new();
    if let Some(path) = &args.parameters {
        match parameters::read(&read(path)?) {
            Ok(parameters) => given.extend(parameters),
            Err(problem) => problems.push(problem),
        }
    }
    for pair in &args.set {
        match pair.split_once('=') {
            Some((name, value)) => given.push((name.to_owned(), value.to_owned())),
            None => problems.push(format!(
                "`--set`: wrong form: got `{pair}`, expected NAME=VALUE"
            )),
        }
    }
    problems.extend(match args.local {
        None => parameters::apply(&mut settings, &given),
        Some(_) => parameters::apply_to_local(&mut settings, &given),
    });
    problems.extend(args.assumed.apply(&mut settings));
    let wrong = !problems.is_empty();
    Ok(if wrong { Err(problems) } else { Ok(settings) })
}

impl AssumedArgs {
    /// Applies what is given; returns what is wrong with it.
    fn apply(&self, settings: &mut Settings) -> Vec<String> {
        let given = [
            ("--receive-rate", self.receive_rate),
            ("--sink-mb-per-second", self.sink_mb_per_second),
            ("--table-limit", self.table_limit),
            ("--key-limit", self.key_limit),
            ("--aggregator-micros", self.aggregator_micros),
            ("--processor-micros", self.processor_micros),
            ("--write-ms", self.write_ms),
        ];
        let wrong = given.iter().filter_map(|(flag, value)| {
            let value = value.filter(|value| !(*value > 0.0 && value.is_finite()))?;
            Some(format!(
                "`{flag}`: not allowed: got `{value}`, expected a number above 0"
            ))
        });
        let problems: Vec<String> = wrong.collect();
        let Settings { input, sink, .. } = settings;
        let set = |to: &mut f64, given: Option<f64>| *to = given.unwrap_or(*to);
        set(&mut input.receive_rate, self.receive_rate);
        set(&mut sink.secs_per_part, self.sink_secs);
        let bytes = self.sink_mb_per_second.map(|mb| mb * 1e6);
        set(&mut sink.bytes_per_sec, bytes);
        let tables = &mut settings.tables;
        if let Some(units) = self.table_limit {
            tables.fix_units(units);
        }
        tables.key = self.key_limit.or(tables.key);
        settings.batches.index_entries = self.index_entries.unwrap_or_default();
        let account = &mut settings.account_concurrency;
        *account = self.account_concurrency.unwrap_or(*account);
        let (aggregator, processor) = (&mut settings.aggregator, &mut settings.processor);
        set(&mut aggregator.micros_per_message, self.aggregator_micros);
        set(&mut processor.micros_per_message, self.processor_micros);
        let write_secs = self.write_ms.map(|ms| ms / 1e3);
        set(&mut settings.requests.write_secs, write_secs);
        problems
    }
}

/// Plans the published run, and prints it beside what this service's defaults do with its messages.
fn published_run(args: &PlanArgs, prices: &Prices) -> anyhow::Result<ExitCode> {
    let settings = published::settings();
    let plan = plan(&settings);
    let report = PlanReport {
        settings: &settings,
        plan: &plan,
        prices,
    };
    output(args, &report, "the published run of a proof of concept")?;
    if !args.json {
        print!("{}", published::comparison(&plan, prices));
        println!("\n{}", report.assumptions());
    }
    Ok(ExitCode::SUCCESS)
}
