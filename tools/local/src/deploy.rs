//! The configuration of the deployed functions: the variables of the template, overridden by those of this machine and by
//! those that the user set. Also checks whether the functions can start with it.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::bail;
use emulators::lambda::{ACCOUNT_ID, Bootstrap, FunctionConfig, process_variables};
use emulators::sam::Resources;
use shared::config::{
    Common, ConfigError, UnknownVariable, WITHOUT_FULL, names_in_environment, unknown_variables,
};

use crate::faults::FunctionName;
use crate::notices;
use crate::options::StackOptions;
use crate::sink;

/// The name of the aggregator's function.
pub(crate) const AGGREGATOR: &str = "aggregator";
/// The name of the batch-processor's function.
pub(crate) const BATCH_PROCESSOR: &str = "batch-processor";

/// Stands in for the endpoints of services that are not started yet. It has their form; nothing listens there.
const PLACEHOLDER_ENDPOINT: &str = "http://127.0.0.1:9";

/// The URLs of the services.
#[derive(Clone, Debug)]
pub(crate) struct Endpoints {
    pub(crate) dynamodb: String,
    pub(crate) sqs: String,
    /// S3, if this build has a stand-in for it.
    pub(crate) s3: Option<String>,
}

/// The configuration of both functions.
pub(crate) struct Functions {
    pub(crate) aggregator: FunctionConfig,
    pub(crate) batch_processor: FunctionConfig,
}

pub(crate) fn queue_url(endpoint: &str, queue: &str) -> String {
    format!("{endpoint}/{ACCOUNT_ID}/{queue}")
}

/// Returns the resources of the template, with queues at the endpoint `sqs`.
pub(crate) fn resources(options: &StackOptions, sqs: &str) -> anyhow::Result<Resources> {
    let template = &options.template;
    let parameters = template.parameters_for(&options.variables);
    template.resolve(&parameters, &|queue| queue_url(sqs, queue))
}

/// Returns the configuration of both functions. `sink` has the variables of the sink.
pub(crate) fn functions(
    options: &StackOptions,
    resources: &Resources,
    endpoints: &Endpoints,
    sink: &[(&'static str, String)],
) -> anyhow::Result<Functions> {
    let overrides = overrides(options, endpoints, sink);
    let function = |name: &str, bootstrap: &Bootstrap, timeout, concurrency_per_environment| {
        let deployed = resources.function(name)?;
        let mut variables = deployed.variables.clone();
        variables.extend(overrides.clone());
        anyhow::Ok(FunctionConfig {
            name: name.to_owned(),
            bootstrap: bootstrap.clone(),
            variables,
            timeout,
            memory_mb: deployed.memory_mb,
            concurrency_per_environment,
        })
    };
    Ok(Functions {
        aggregator: function(
            AGGREGATOR,
            &options.aggregator,
            options.aggregator_timeout,
            options.concurrency_per_environment,
        )?,
        batch_processor: function(
            BATCH_PROCESSOR,
            &options.batch_processor,
            options.batch_processor_timeout,
            1,
        )?,
    })
}

/// Returns the variables that override the template's: those of this machine, overridden by those that the user set.
fn overrides(
    options: &StackOptions,
    endpoints: &Endpoints,
    sink: &[(&'static str, String)],
) -> BTreeMap<String, String> {
    let own = [
        ("AWS_ENDPOINT_URL_DYNAMODB", &endpoints.dynamodb),
        ("AWS_ENDPOINT_URL_SQS", &endpoints.sqs),
    ];
    let s3 = endpoints.s3.iter().map(|s3| ("AWS_ENDPOINT_URL_S3", s3));
    let sink = sink.iter().map(|(name, value)| (*name, value));
    let all = own.into_iter().chain(s3).chain(sink);
    let all = all.map(|(name, value)| (name.to_owned(), value.clone()));
    let mut variables = BTreeMap::from_iter(all);
    variables.extend(options.variables.clone());
    variables
}

/// Checks that both functions can start with the variables that they will get, at first and after each redeploy, and that
/// their timeouts leave them time. Starts nothing.
///
/// # Errors
/// All problems of all variables of both functions and of this process, or a problem of the template.
pub fn check_variables(options: &StackOptions) -> anyhow::Result<()> {
    let resources = resources(options, PLACEHOLDER_ENDPOINT)?;
    let placeholder = || PLACEHOLDER_ENDPOINT.to_owned();
    let endpoints = Endpoints {
        dynamodb: placeholder(),
        sqs: placeholder(),
        s3: Some(placeholder()),
    };
    let mut sink = sink::placeholder_variables(options.sink, PLACEHOLDER_ENDPOINT);
    if let Some(kind) = options.completion {
        sink.extend(notices::variables(kind, PLACEHOLDER_ENDPOINT));
    }
    let mut functions = functions(options, &resources, &endpoints, &sink)?;
    let unknown = unknown_variables(names_in_environment());
    let mut problems = Vec::from_iter(unknown.iter().map(UnknownVariable::to_string));
    let mut known = Vec::new();
    let mut when = String::new();
    for redeploy in std::iter::once(None).chain(options.faults.redeploys.iter().map(Some)) {
        if let Some(redeploy) = redeploy {
            for function in [&mut functions.aggregator, &mut functions.batch_processor] {
                function.variables.extend(redeploy.variables.clone());
            }
            if let Some(code) = &redeploy.code {
                let function = match code.function {
                    FunctionName::Aggregator => &mut functions.aggregator,
                    FunctionName::BatchProcessor => &mut functions.batch_processor,
                };
                function.bootstrap = code.bootstrap.clone();
            }
            when = format!(", redeployed after {} s", redeploy.at.as_secs_f64());
        }
        for (name, problem) in functions.problems() {
            // A problem that a redeploy does not change is reported once.
            if !known.contains(&(name, problem.clone())) {
                problems.push(format!("{name}{when}: {problem}"));
                known.push((name, problem));
            }
        }
    }
    if problems.is_empty() {
        return Ok(());
    }
    bail!(
        "the functions cannot start with these variables:\n  {}",
        problems.join("\n  ")
    );
}

impl Functions {
    /// Returns the problems of the variables of both functions, each with the name of its function.
    fn problems(&self) -> Vec<(&'static str, String)> {
        let aggregator = problems(&self.aggregator, |lookup| {
            aggregator::config::Config::read(lookup).map(|config| config.common)
        });
        let batch_processor = problems(&self.batch_processor, |lookup| {
            batch_processor::Config::read(lookup).map(|config| config.common)
        });
        let aggregator = aggregator.into_iter().map(|problem| (AGGREGATOR, problem));
        let batch_processor = batch_processor.into_iter();
        let batch_processor = batch_processor.map(|problem| (BATCH_PROCESSOR, problem));
        aggregator.chain(batch_processor).collect()
    }
}

fn problems(
    function: &FunctionConfig,
    read: impl FnOnce(&dyn Fn(&str) -> Option<String>) -> Result<Common, ConfigError>,
) -> Vec<String> {
    let variables = process_variables(function, 1, PLACEHOLDER_ENDPOINT);
    let common = read(&|name| variables.get(name).cloned());
    let mut problems = match common {
        Ok(common) => Vec::from_iter(margin_problem(function, common.deadline_margin)),
        Err(error) => error.problems,
    };
    // An executable that the user named may have the cargo feature `full`, and variables of its own.
    let own = std::env::current_exe().is_ok_and(|own| own == function.bootstrap.program);
    if !own {
        problems.retain(|problem| !problem.contains(WITHOUT_FULL));
        return problems;
    }
    let set = variables.into_iter();
    let set = set.filter(|(_, value)| !value.trim().is_empty());
    let unknown = unknown_variables(set.map(|(name, _)| name));
    problems.extend(unknown.iter().map(UnknownVariable::to_string));
    problems
}

/// Returns that an invocation would have no time to start anything, if that is so.
fn margin_problem(function: &FunctionConfig, margin: Duration) -> Option<String> {
    let FunctionConfig { name, timeout, .. } = function;
    (margin >= *timeout).then(|| {
        format!(
            "`DEADLINE_MARGIN_MS`: as long as the timeout, or longer: got `{}`, expected less than {}, which `--{name}-timeout` is in \
             milliseconds",
            margin.as_millis(),
            timeout.as_millis()
        )
    })
}
