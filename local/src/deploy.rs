//! What the functions are deployed with: the template's variables, with what is of this machine and what was asked for over
//! them. And whether a function can start with it.

use std::collections::BTreeMap;

use anyhow::{Context, bail};
use emulators::lambda::{ACCOUNT_ID, Bootstrap, FunctionConfig, process_variables};
use shared::config::ConfigError;

use crate::options::StackOptions;
use crate::sink;
use crate::template::Resources;

/// Name of the aggregator.
pub(crate) const AGGREGATOR: &str = "aggregator";
/// Name of the batch processor.
pub(crate) const BATCH_PROCESSOR: &str = "batch-processor";

/// An address at which nothing listens, of the form that those have at which something will.
const NOWHERE: &str = "http://127.0.0.1:9";

/// What a build says of a variable that it was built without the code for.
const NOT_IN_THIS_BUILD: &str = "without the cargo feature";

/// Where the services listen, as the functions see them.
#[derive(Clone, Debug)]
pub(crate) struct Endpoints {
    pub(crate) dynamodb: String,
    pub(crate) sqs: String,
    #[cfg(feature = "s3")]
    pub(crate) s3: String,
}

/// Both functions as they are deployed.
pub(crate) struct Functions {
    pub(crate) aggregator: FunctionConfig,
    pub(crate) batch_processor: FunctionConfig,
}

/// URL of a queue.
pub(crate) fn queue_url(endpoint: &str, queue: &str) -> String {
    format!("{endpoint}/{ACCOUNT_ID}/{queue}")
}

/// What the template makes, where the queues are at this endpoint.
///
/// # Errors
/// As [`Template::resolve`](crate::template::Template::resolve).
pub(crate) fn resources(options: &StackOptions, sqs: &str) -> anyhow::Result<Resources> {
    let parameters = options.template.parameters_for(&options.variables);
    options
        .template
        .resolve(&parameters, &|queue| queue_url(sqs, queue))
}

/// Both functions, with the sink's variables.
///
/// # Errors
/// When the template does not have them.
pub(crate) fn functions(
    options: &StackOptions,
    resources: &Resources,
    endpoints: &Endpoints,
    sink: &[(&'static str, String)],
) -> anyhow::Result<Functions> {
    let changed = changed_variables(options, endpoints, sink);
    let function = |name: &str, bootstrap: &Bootstrap, timeout, concurrency_per_environment| {
        let deployed = resources.function(name)?;
        let mut variables = deployed.variables.clone();
        variables.extend(changed.clone());
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

/// The variables that differ from the template's: what is of this machine, then what was asked for.
fn changed_variables(
    options: &StackOptions,
    endpoints: &Endpoints,
    sink: &[(&'static str, String)],
) -> BTreeMap<String, String> {
    let mut variables: BTreeMap<String, String> = [
        ("AWS_ENDPOINT_URL_DYNAMODB", endpoints.dynamodb.clone()),
        ("AWS_ENDPOINT_URL_SQS", endpoints.sqs.clone()),
        #[cfg(feature = "s3")]
        ("AWS_ENDPOINT_URL_S3", endpoints.s3.clone()),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into();
    variables.extend(
        sink.iter()
            .map(|(name, value)| ((*name).to_owned(), value.clone())),
    );
    variables.extend(options.variables.clone());
    variables
}

/// Checks that both functions can start with the variables that they will get, also after each redeploy, before anything
/// is started.
///
/// # Errors
/// Everything that is wrong with any variable of either, in words; or what is wrong with the template.
pub fn check_variables(options: &StackOptions) -> anyhow::Result<()> {
    let resources = resources(options, NOWHERE)?;
    let nowhere = || NOWHERE.to_owned();
    let endpoints = Endpoints {
        dynamodb: nowhere(),
        sqs: nowhere(),
        #[cfg(feature = "s3")]
        s3: nowhere(),
    };
    let sink = sink::variables_anywhere(options.sink, NOWHERE);
    let mut functions = functions(options, &resources, &endpoints, &sink)?;
    let mut problems = Vec::new();
    let mut known = Vec::new();
    let mut when = String::new();
    for redeploy in std::iter::once(None).chain(options.faults.redeploys.iter().map(Some)) {
        if let Some(redeploy) = redeploy {
            for function in [&mut functions.aggregator, &mut functions.batch_processor] {
                function.variables.extend(redeploy.variables.clone());
            }
            when = format!(", redeployed after {} s", redeploy.at.as_secs_f64());
        }
        for (name, problem) in functions.problems() {
            // Each is told once, where it comes up.
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
    /// What is wrong with the variables of either, each with the function's name.
    fn problems(&self) -> Vec<(&'static str, String)> {
        let aggregator = problems(&self.aggregator, |lookup| {
            aggregator::config::Config::read(lookup).err()
        });
        let batch_processor = problems(&self.batch_processor, |lookup| {
            batch_processor::Config::read(lookup).err()
        });
        let aggregator = aggregator.into_iter().map(|problem| (AGGREGATOR, problem));
        let batch_processor = batch_processor
            .into_iter()
            .map(|problem| (BATCH_PROCESSOR, problem));
        aggregator.chain(batch_processor).collect()
    }
}

fn problems(
    function: &FunctionConfig,
    read: impl FnOnce(&dyn Fn(&str) -> Option<String>) -> Option<ConfigError>,
) -> Vec<String> {
    let variables = process_variables(function, 1, NOWHERE);
    let error = read(&|name| variables.get(name).cloned());
    let problems = error.map(|error| error.problems).unwrap_or_default();
    // What this build lacks, another may have.
    let own = std::env::current_exe().is_ok_and(|own| own == function.bootstrap.program);
    problems
        .into_iter()
        .filter(|problem| own || !problem.contains(NOT_IN_THIS_BUILD))
        .collect()
}

/// A variable as a number.
///
/// # Errors
/// When it is none.
pub(crate) fn number(variables: &BTreeMap<String, String>, name: &str) -> anyhow::Result<u64> {
    let value = variables.get(name).map(String::as_str).unwrap_or_default();
    value.parse().with_context(|| format!("{name}=`{value}`"))
}
