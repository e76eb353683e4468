//! The options of the stack: flags, and the variables of the service in the environment.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use aggregator::config::BODIES;
use anyhow::{Context, bail};
use clap::Args;
use emulators::lambda::{Bootstrap, MAPPING_CONCURRENCY};
use emulators::sam::Template;
use planner::{check_directory, check_file, local as defaults};
use shared::config::WITHOUT_FULL;

use crate::bodies::{self, BodiesKind};
use crate::config_file::{LocalConfig, declarations};
use crate::env_file::EnvFile;
use crate::faults::{DeployAt, FaultArgs, FaultOptions, NewCode, Redeploy};
use crate::notices::CompletionKind;
use crate::sink::SinkKind;
use crate::template;

/// Variables of the service that are not taken from the environment. The stack sets those of tables and queues itself, and
/// has no stand-in for what the others name.
const NOT_FROM_ENVIRONMENT: [&str; 9] = [
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

/// Returns the names of the variables that are taken from the environment, so that `ON_DUPLICATE=requeue local` works.
fn from_environment() -> impl Iterator<Item = &'static str> {
    let variables = declarations().into_iter().flat_map(|each| each.variables);
    let names = variables.map(|each| each.name);
    names.filter(|name| !NOT_FROM_ENVIRONMENT.contains(name))
}

/// The event id of the messages that a burst sends.
const EVENT_ID: &str = "EVENT_ID";

/// Returns the values of unset variables, where the stack differs from a deployment. `LOG_FORMAT` is for the people who
/// read what the functions log here.
fn default_variables() -> [(&'static str, String); 4] {
    [
        ("VERIFY_DELAY", defaults::VERIFY_DELAY_SECS.to_string()),
        (EVENT_ID, "json:id".to_owned()),
        ("WRITE_CONCURRENCY", defaults::WRITE_CONCURRENCY.to_string()),
        ("LOG_FORMAT", "text".to_owned()),
    ]
}

/// The path that stands for the executable built into this one.
const BUILT_IN: &str = "built-in";

/// Flags of the stack.
#[derive(Args, Clone, Debug)]
pub struct StackArgs {
    /// Run this executable as the aggregator instead of the one built in
    #[arg(long, value_name = "PATH")]
    aggregator: Option<PathBuf>,
    /// Run this executable as the batch-processor instead of the one built in
    #[arg(long, value_name = "PATH")]
    batch_processor: Option<PathBuf>,
    /// Give a function another executable SECONDS after the start; FUNCTION is `aggregator` or `batch-processor`, PATH may be
    /// `built-in`; may be repeated
    #[arg(long = "deploy-at", value_name = "SECONDS:FUNCTION=PATH")]
    deploys: Vec<DeployAt>,
    /// Take queues, tables and the functions' variables from this SAM template instead of the one built in
    #[arg(long, value_name = "FILE")]
    template: Option<PathBuf>,
    /// Port of SQS; DynamoDB gets the next one, and S3 the one after that [default: free ports]
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..=65_533))]
    port: Option<u16>,
    /// Write the variables that another client needs to this file while the stack runs; must not exist
    #[arg(long, value_name = "FILE")]
    env_file: Option<PathBuf>,
    /// A variable for both functions; overrides the environment; may be repeated
    #[arg(long = "env", value_name = "NAME=VALUE")]
    env: Vec<String>,
    /// Read this configuration file for both functions; the environment overrides it, and the sink is a stand-in of its kind
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Where the bodies of batches go: sets BODIES [default: items]
    #[arg(long, value_enum, value_name = "PLACE")]
    bodies: Option<BodiesKind>,
    /// Where notices of complete batches go: sets COMPLETION, and starts a stand-in [default: no notices]
    #[arg(long, value_enum, value_name = "TARGET")]
    completion: Option<CompletionKind>,
    /// Where batches go: sets SINK, and starts a stand-in for the sink [default: file]
    #[arg(long, value_enum)]
    sink: Option<SinkKind>,
    /// The directory for delivered batches; must be empty or absent [default: a temporary one, removed at the end]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Maximum number of records in one aggregator event; choose it so that the aggregator handles them within its timeout
    #[arg(long, value_name = "N", default_value_t = defaults::BATCH_SIZE)]
    batch_size: usize,
    /// Maximum number of aggregator environments (MaximumConcurrency, 2 to 1000)
    #[arg(long, value_name = "N", default_value_t = defaults::ENVIRONMENTS, value_parser = mapping_concurrency)]
    aggregators: u32,
    /// Maximum number of batch-processor environments (MaximumConcurrency, 2 to 1000)
    #[arg(long, value_name = "N", default_value_t = defaults::ENVIRONMENTS, value_parser = mapping_concurrency)]
    batch_processors: u32,
    /// Maximum number of concurrent invocations in one aggregator environment (AWS_LAMBDA_MAX_CONCURRENCY)
    #[arg(long, value_name = "N", default_value_t = 1)]
    concurrency_per_environment: u32,
    /// Timeout of the aggregator
    #[arg(long, value_name = "SECONDS", default_value_t = defaults::AGGREGATOR_TIMEOUT_SECS)]
    aggregator_timeout: u64,
    /// Timeout of the batch-processor
    #[arg(long, value_name = "SECONDS", default_value_t = defaults::BATCH_PROCESSOR_TIMEOUT_SECS)]
    batch_processor_timeout: u64,
    /// Show every log line of the functions, not only warnings and errors
    #[arg(long)]
    logs: bool,
    /// Trace the functions and the burst, and write the spans to this file; needs the cargo feature `full`
    #[arg(long, value_name = "FILE")]
    traces: Option<PathBuf>,
    /// Time between two sweeps of the batch-processor; 0 is never
    #[arg(long, value_name = "SECONDS", default_value_t = 15)]
    sweep_every: u64,
    #[command(flatten)]
    faults: FaultArgs,
}

/// The checked options of the stack: [`StackArgs`] says what those are that have no comment here.
#[derive(Clone, Debug)]
pub struct StackOptions {
    pub aggregator: Bootstrap,
    pub batch_processor: Bootstrap,
    pub template: Template,
    /// Variables of both functions, without those that the stack sets itself.
    pub variables: BTreeMap<String, String>,
    /// Where notices go; `None` if there are none, or if `variables` says where.
    pub completion: Option<CompletionKind>,
    pub sink: SinkKind,
    /// One line about what the file of `--config` has, and this run does not use.
    pub not_used: Option<String>,
    /// The port of SQS, before those of DynamoDB and S3; free ports if `None`.
    pub port: Option<u16>,
    /// The directory for delivered batches; a temporary one if `None`.
    pub out: Option<PathBuf>,
    pub batch_size: usize,
    pub aggregators: u32,
    pub batch_processors: u32,
    pub concurrency_per_environment: u32,
    pub aggregator_timeout: Duration,
    pub batch_processor_timeout: Duration,
    pub logs: bool,
    pub traces: Option<PathBuf>,
    /// `None` for no sweeps.
    pub sweep_every: Option<Duration>,
    pub faults: FaultOptions,
}

impl StackOptions {
    /// Tells what the file of `--config` has, and this run does not use.
    pub(crate) fn tell_not_used(&self) {
        self.not_used.iter().for_each(|line| eprintln!("{line}"));
    }

    /// Sets a variable that is not set yet.
    pub fn default_variable(&mut self, name: &str, value: impl ToString) {
        let variable = self.variables.entry(name.to_owned());
        variable.or_insert_with(|| value.to_string());
    }
}

impl StackArgs {
    /// Returns why the flags do not go together, if they do not.
    pub fn contradiction(&self) -> Option<String> {
        let sink = self.sink.unwrap_or_default();
        let errors = !self.faults.sink_error_rate.is_zero();
        if sink == SinkKind::File && errors {
            return Some(
                "`--sink-error-rate`: not with `--sink file`: files cannot return an error".into(),
            );
        }
        if sink == SinkKind::Sftp && errors {
            return Some(
                "`--sink-error-rate`: not with `--sink sftp`: its server returns no errors; `--cut-connections` makes deliveries fail"
                    .into(),
            );
        }
        if !self.faults.cut_connections.is_zero() && sink != SinkKind::Sftp {
            return Some(format!(
                "`--cut-connections`: not with `--sink {sink}`: only `sftp` has connections that can be cut"
            ));
        }
        if sink == SinkKind::Postgres && self.faults.sink_outages() {
            return Some(format!(
                "`--sink-outage` and `--sink-down`: not with `--sink {sink}`: its stand-in cannot be down"
            ));
        }
        None
    }

    /// Returns what needs a build with the cargo feature `full`, if anything does. `bodies_in_s3` says whether a value of `BODIES` is
    /// in S3.
    fn needs_full(&self, bodies_in_s3: bool) -> Option<String> {
        let sink = self.sink.filter(|sink| sink.needs_full());
        let sink = sink.map(|sink| format!("`--sink {sink}`"));
        let bodies = || bodies_in_s3.then(|| "`BODIES` in S3".to_owned());
        let traces = || self.traces.as_ref().map(|_| "`--traces`".to_owned());
        sink.or_else(bodies).or_else(traces)
    }

    /// Returns the file of `--env-file`, if there is one, after a check that it can be written.
    pub fn env_file(&self) -> anyhow::Result<Option<EnvFile>> {
        self.env_file.as_deref().map(EnvFile::prepare).transpose()
    }

    /// Checks the flags, and combines them with the environment.
    ///
    /// # Errors
    /// A malformed `--env`, both `--sink` and `SINK`, both `--bodies` and `BODIES`, both `--completion` and `COMPLETION`,
    /// what has no stand-in in a build without the cargo feature `full`, a template that cannot be read, a missing executable, an
    /// output directory that is not empty, or an output that cannot be written.
    pub fn resolve(&self) -> anyhow::Result<StackOptions> {
        let mut variables = BTreeMap::new();
        for name in from_environment() {
            if let Ok(value) = std::env::var(name) {
                variables.insert(name.to_owned(), value);
            }
        }
        for pair in &self.env {
            let Some((name, value)) = pair.split_once('=').filter(|(name, _)| !name.is_empty())
            else {
                bail!("`--env`: wrong form: got `{pair}`, expected NAME=VALUE");
            };
            variables.insert(name.to_owned(), value.to_owned());
        }
        let config = self.config.as_deref();
        let config = config.map(|path| LocalConfig::read(path, &variables));
        let config = config.transpose()?;
        for (name, value) in config.iter().flat_map(|config| &config.variables) {
            // Flags override the file.
            if self.bodies.is_none() || name != BODIES.name {
                let variable = variables.entry(name.clone());
                variable.or_insert_with(|| value.clone());
            }
        }
        for (name, value) in default_variables() {
            variables.entry(name.to_owned()).or_insert(value);
        }
        let mut faults = self.faults.resolve()?;
        for deploy in &self.deploys {
            faults.redeploys.push(redeploy(deploy)?);
        }
        faults.redeploys.sort_by_key(|redeploy| redeploy.at);
        bodies::set_variable(self.bodies, &mut variables, &mut faults.redeploys)?;
        if let (Some(sink), Some(uri)) = (self.sink, variables.get("SINK")) {
            bail!(
                "`--sink`: not with `SINK`: got `--sink {sink}` and `SINK={uri}`, expected one of them"
            );
        }
        let in_s3 = bodies::in_s3(&variables, &faults.redeploys);
        if let Some(wanted) = self.needs_full(in_s3).filter(|_| !cfg!(feature = "full")) {
            bail!("{wanted}: not in this build: {WITHOUT_FULL}");
        }
        if let (Some(_), Some(target)) = (self.completion, variables.get("COMPLETION")) {
            bail!(
                "`--completion`: not with `COMPLETION`: got `COMPLETION={target}`, expected one of them"
            );
        }
        if let Some(out) = &self.out {
            let taken = std::fs::read_dir(out).is_ok_and(|mut entries| entries.next().is_some());
            if taken {
                bail!(
                    "`--out`: not empty: got `{}`, expected an empty or absent directory: the audit would read its files too",
                    out.display()
                );
            }
            check_directory("--out", out)?;
        }
        if let Some(traces) = &self.traces {
            check_file("--traces", traces)?;
        }
        let sink = self.sink.or_else(|| Some(config.as_ref()?.sink));
        Ok(StackOptions {
            aggregator: bootstrap(self.aggregator.as_ref(), "aggregator")?,
            batch_processor: bootstrap(self.batch_processor.as_ref(), "batch-processor")?,
            template: read_template(self.template.as_ref())?,
            variables,
            completion: self.completion.or_else(|| config.as_ref()?.completion),
            sink: sink.unwrap_or_default(),
            not_used: config.and_then(|config| config.not_used()),
            port: self.port,
            out: self.out.clone(),
            batch_size: self.batch_size,
            aggregators: self.aggregators,
            batch_processors: self.batch_processors,
            concurrency_per_environment: self.concurrency_per_environment,
            aggregator_timeout: Duration::from_secs(self.aggregator_timeout),
            batch_processor_timeout: Duration::from_secs(self.batch_processor_timeout),
            logs: self.logs,
            traces: self.traces.clone(),
            sweep_every: Some(Duration::from_secs(self.sweep_every))
                .filter(|every| !every.is_zero()),
            faults,
        })
    }
}

/// Reads the value of `MaximumConcurrency`.
fn mapping_concurrency(text: &str) -> Result<u32, String> {
    let number = text.parse().ok();
    number
        .filter(|number| MAPPING_CONCURRENCY.contains(number))
        .ok_or_else(|| {
            format!(
                "expected {} to {}, as Lambda allows for `MaximumConcurrency`",
                MAPPING_CONCURRENCY.start(),
                MAPPING_CONCURRENCY.end()
            )
        })
}

fn read_template(path: Option<&PathBuf>) -> anyhow::Result<Template> {
    let Some(path) = path else {
        return template::deployed();
    };
    let flag = || format!("`--template {}`", path.display());
    let text = std::fs::read_to_string(path).with_context(flag)?;
    Template::parse(&text).with_context(flag)
}

fn redeploy(deploy: &DeployAt) -> anyhow::Result<Redeploy> {
    let name = deploy.function.to_string();
    let path = Some(PathBuf::from(&deploy.executable)).filter(|_| deploy.executable != BUILT_IN);
    let bootstrap = bootstrap(path.as_ref(), &name).context("`--deploy-at`")?;
    Ok(Redeploy {
        at: deploy.at,
        code: Some(NewCode {
            function: deploy.function,
            bootstrap,
        }),
        ..Redeploy::default()
    })
}

fn bootstrap(path: Option<&PathBuf>, built_in: &str) -> anyhow::Result<Bootstrap> {
    Ok(match path {
        Some(path) if path.is_file() => Bootstrap {
            program: path.canonicalize()?,
            args: Vec::new(),
        },
        Some(path) => bail!(
            "`--{built_in}`: no such file: got `{}`, expected an executable",
            path.display()
        ),
        None => Bootstrap {
            program: std::env::current_exe().context("find the executable of this process")?,
            args: vec!["bootstrap".to_owned(), built_in.to_owned()],
        },
    })
}

#[cfg(test)]
mod tests {
    use clap::{Parser, ValueEnum};

    use super::*;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        stack: StackArgs,
    }

    #[test]
    fn what_needs_the_cargo_feature_full_is_named_by_its_flag() {
        let needs = |flags: &[&str], bodies_in_s3| {
            let command = [&["batch-local"], flags].concat();
            Command::parse_from(command).stack.needs_full(bodies_in_s3)
        };
        for sink in SinkKind::value_variants() {
            let named = needs(&["--sink", &sink.to_string()], false);
            let expected = format!("`--sink {sink}`");
            assert_eq!(named, sink.needs_full().then_some(expected));
        }
        assert_eq!(needs(&[], true).unwrap(), "`BODIES` in S3");
        assert_eq!(needs(&["--traces", "f"], false).unwrap(), "`--traces`");
        assert_eq!(needs(&["--bodies", "log:table"], false), None);
    }
}
