//! What the stack is told: flags, and the service's own variables from the environment.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, bail};
use clap::Args;
use emulators::lambda::Bootstrap;

use crate::faults::{FaultArgs, FaultOptions};
use crate::sink::SinkKind;
use crate::template::Template;

/// The service's variables that are not taken over from the environment: names of tables and queues are the stack's own, and
/// nothing stands in for what the others lead to.
const NOT_TAKEN_OVER: [&str; 9] = [
    "DDB_LOCK_TABLE",
    "DDB_BATCH_TABLE",
    "DDB_BATCH_INDEX",
    "BATCH_QUEUE_URL",
    "QUARANTINE_SQS_URL",
    "SINK_PAYLOADS",
    "SINK_SECRET",
    "SINK_SECRET_HEADER",
    "PARAMETERS_SECRETS_EXTENSION_HTTP_PORT",
];

/// Returns what is taken over from the environment, so that `ON_DUPLICATE=requeue local` works.
fn taken_over() -> impl Iterator<Item = &'static str> {
    let functions = [
        aggregator::config::Config::declarations(),
        batch_processor::Config::declarations(),
    ];
    let variables = functions.into_iter().flat_map(|each| each.variables);
    let names = variables
        .map(|each| each.name)
        .chain(["AWS_LAMBDA_LOG_LEVEL"]);
    names.filter(|name| !NOT_TAKEN_OVER.contains(name))
}

/// How the stack differs from a deployment: waits are seconds, so that a burst ends while one watches.
///
/// The stand-in for DynamoDB does one thing at a time: more requests in flight would only wait longer, and time out.
const DEFAULTS: &[(&str, &str)] = &[
    ("VERIFY_DELAY", "2"),
    ("EVENT_ID", "json:id"),
    ("WRITE_CONCURRENCY", "8"),
];

/// Flags of the stack.
#[derive(Args, Clone, Debug)]
pub struct StackArgs {
    /// Run this executable as the aggregator instead of the one built in
    #[arg(long, value_name = "PATH")]
    aggregator: Option<PathBuf>,
    /// Run this executable as the batch processor instead of the one built in
    #[arg(long, value_name = "PATH")]
    batch_processor: Option<PathBuf>,
    /// Take queues, tables and the functions' variables from this SAM template instead of the one built in
    #[arg(long, value_name = "FILE")]
    template: Option<PathBuf>,
    /// A variable for both functions, over the environment's: NAME=VALUE; may be repeated
    #[arg(long = "env", value_name = "NAME=VALUE")]
    env: Vec<String>,
    /// Where batches go: sets SINK, and stands in for what is behind it [default: file]
    #[arg(long, value_enum)]
    sink: Option<SinkKind>,
    /// Where the batches end up; must be empty or absent. Default: a temporary directory, removed at the end
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Most records of one aggregator event; all of them should be done within the timeout even on a busy machine
    #[arg(long, value_name = "N", default_value_t = 5_000)]
    batch_size: usize,
    /// Aggregator environments at once (MaximumConcurrency)
    #[arg(long, value_name = "N", default_value_t = 2)]
    aggregators: u32,
    /// Batch processor environments at once (MaximumConcurrency)
    #[arg(long, value_name = "N", default_value_t = 2)]
    batch_processors: u32,
    /// Invocations at once within one aggregator environment (AWS_LAMBDA_MAX_CONCURRENCY)
    #[arg(long, value_name = "N", default_value_t = 1)]
    concurrency_per_environment: u32,
    /// Timeout of the aggregator
    #[arg(long, value_name = "SECONDS", default_value_t = 10)]
    aggregator_timeout: u64,
    /// Timeout of the batch processor
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    batch_processor_timeout: u64,
    /// Show every log line of the functions, not only warnings and errors
    #[arg(long)]
    logs: bool,
    /// How often the batch processor is told to sweep; 0 is never
    #[arg(long, value_name = "SECONDS", default_value_t = 15)]
    sweep_every: u64,
    #[command(flatten)]
    faults: FaultArgs,
}

/// What the stack is told, checked.
#[derive(Clone, Debug)]
pub struct StackOptions {
    /// What runs as the aggregator.
    pub aggregator: Bootstrap,
    /// What runs as the batch processor.
    pub batch_processor: Bootstrap,
    /// What is deployed.
    pub template: Template,
    /// Variables of both functions, without those the stack sets itself.
    pub variables: BTreeMap<String, String>,
    /// Where batches go.
    pub sink: SinkKind,
    /// Where they end up, if somebody chose.
    pub out: Option<PathBuf>,
    /// Most records of one aggregator event.
    pub batch_size: usize,
    /// Aggregator environments at once.
    pub aggregators: u32,
    /// Batch processor environments at once.
    pub batch_processors: u32,
    /// Invocations at once within one aggregator environment.
    pub concurrency_per_environment: u32,
    /// Timeout of the aggregator.
    pub aggregator_timeout: Duration,
    /// Timeout of the batch processor.
    pub batch_processor_timeout: Duration,
    /// Whether every log line is shown.
    pub logs: bool,
    /// How often the batch processor sweeps, if it does.
    pub sweep_every: Option<Duration>,
    /// The faults that are on.
    pub faults: FaultOptions,
}

impl StackOptions {
    /// Sets a variable that nobody chose.
    pub fn default_variable(&mut self, name: &str, value: u64) {
        self.variables
            .entry(name.to_owned())
            .or_insert_with(|| value.to_string());
    }
}

impl StackArgs {
    /// Which flags contradict each other, in words.
    pub fn contradiction(&self) -> Option<String> {
        let sink = self.sink.unwrap_or_default();
        let of_file = sink == SinkKind::File;
        if of_file && self.faults.sink_errors() {
            return Some("`--sink-error-rate` has no one to answer 503 with `--sink file`".into());
        }
        #[cfg(feature = "postgres")]
        if sink == SinkKind::Postgres && self.faults.sink_outages() {
            return Some(format!(
                "`--sink-outage` and `--sink-down` have no one to refuse requests with `--sink {sink}`"
            ));
        }
        None
    }

    /// Checks the flags against the environment.
    ///
    /// # Errors
    /// A malformed `--env`, two sinks, a template that cannot be read, a missing executable, an output directory with
    /// something in it.
    pub fn resolve(&self) -> anyhow::Result<StackOptions> {
        let mut variables: BTreeMap<String, String> = DEFAULTS
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect();
        for name in taken_over() {
            if let Ok(value) = std::env::var(name) {
                variables.insert(name.to_owned(), value);
            }
        }
        for pair in &self.env {
            let Some((name, value)) = pair.split_once('=').filter(|(name, _)| !name.is_empty())
            else {
                bail!("`--env {pair}` is not of the form NAME=VALUE");
            };
            variables.insert(name.to_owned(), value.to_owned());
        }
        if let (Some(sink), Some(uri)) = (self.sink, variables.get("SINK")) {
            bail!("`--sink {sink}` sets `SINK`, but `SINK={uri}` is set as well");
        }
        if let Some(out) = &self.out {
            let taken = std::fs::read_dir(out).is_ok_and(|mut entries| entries.next().is_some());
            if taken {
                bail!(
                    "`--out {}` is not empty: its files would be taken for this burst's",
                    out.display()
                );
            }
        }
        Ok(StackOptions {
            aggregator: bootstrap(self.aggregator.as_ref(), "aggregator")?,
            batch_processor: bootstrap(self.batch_processor.as_ref(), "batch-processor")?,
            template: template(self.template.as_ref())?,
            variables,
            sink: self.sink.unwrap_or_default(),
            out: self.out.clone(),
            batch_size: self.batch_size,
            aggregators: self.aggregators,
            batch_processors: self.batch_processors,
            concurrency_per_environment: self.concurrency_per_environment,
            aggregator_timeout: Duration::from_secs(self.aggregator_timeout),
            batch_processor_timeout: Duration::from_secs(self.batch_processor_timeout),
            logs: self.logs,
            sweep_every: Some(Duration::from_secs(self.sweep_every))
                .filter(|every| !every.is_zero()),
            faults: self.faults.resolve()?,
        })
    }
}

fn template(path: Option<&PathBuf>) -> anyhow::Result<Template> {
    let Some(path) = path else {
        return Template::deployed();
    };
    let flag = || format!("`--template {}`", path.display());
    let text = std::fs::read_to_string(path).with_context(flag)?;
    Template::parse(&text).with_context(flag)
}

fn bootstrap(path: Option<&PathBuf>, built_in: &str) -> anyhow::Result<Bootstrap> {
    Ok(match path {
        Some(path) if path.is_file() => Bootstrap {
            program: path.canonicalize()?,
            args: Vec::new(),
        },
        Some(path) => bail!("`--{built_in} {}` is not a file", path.display()),
        None => Bootstrap {
            program: std::env::current_exe().context("find the own executable")?,
            args: vec!["bootstrap".to_owned(), built_in.to_owned()],
        },
    })
}
