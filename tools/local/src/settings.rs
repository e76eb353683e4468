//! What a record says of a run's place and configuration.

use std::collections::BTreeSet;

use loadgen::WorkloadConfig;
use planner::Setting;
use protocol::text::counted;

use crate::config_file::declarations;
use crate::options::StackOptions;
use crate::stack::Stack;

/// Returns the settings of a burst: the machine, the workload, the flags, and every variable of the functions that has a value.
/// Variables about access to a sink are left out: they may be secrets.
pub fn settings(
    workload: &WorkloadConfig,
    rate: Option<u64>,
    options: &StackOptions,
    stack: &Stack,
) -> Vec<Setting> {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let processors = counted(processors, "processor");
    let (os, arch) = (std::env::consts::OS, std::env::consts::ARCH);
    let rate = rate.map(|rate| format!("{} a second", counted(rate, "message")));
    let rate = rate.unwrap_or_else(|| "as fast as possible".to_owned());
    let mut settings = vec![
        setting("Place", "local: stand-ins for AWS on one machine"),
        setting("Machine", format!("{processors}, {arch}, {os}")),
        setting("Version", env!("CARGO_PKG_VERSION")),
        setting("Messages", workload.messages.to_string()),
        setting("Duplicates", format!("{} %", workload.duplicates)),
        setting("Body", format!("{} bytes", workload.sizes)),
        setting("Sources", workload.sources.to_string()),
        setting("Seed", workload.seed.to_string()),
        setting("Rate", rate),
        setting("Sink", stack.sink_report().kind.to_string()),
        setting(
            "Records of an aggregator event, at most",
            options.batch_size.to_string(),
        ),
        setting(
            "Environments of the aggregator, at most",
            options.aggregators.to_string(),
        ),
        setting(
            "Invocations of an aggregator at once",
            options.concurrency_per_environment.to_string(),
        ),
        setting(
            "Environments of the batch-processor, at most",
            options.batch_processors.to_string(),
        ),
        setting(
            "Timeout of the aggregator",
            format!("{} s", options.aggregator_timeout.as_secs_f64()),
        ),
        setting(
            "Timeout of the batch-processor",
            format!("{} s", options.batch_processor_timeout.as_secs_f64()),
        ),
    ];
    settings.extend(variables(stack));
    settings
}

fn setting(name: &str, value: impl Into<String>) -> Setting {
    Setting {
        name: name.to_owned(),
        value: value.into(),
    }
}

fn variables(stack: &Stack) -> Vec<Setting> {
    let mut known = BTreeSet::new();
    let mut settings = Vec::new();
    for variable in declarations().into_iter().flat_map(|each| each.variables) {
        // Tables and queues have the same names in every run, on a port that tells nothing; secrets are not shown.
        let shown = variable.key.is_some() && !variable.name.ends_with("_URL");
        let value = stack.variable(variable.name).map(str::to_owned);
        let value = value.or(variable.default).filter(|value| !value.is_empty());
        if let Some(value) = value.filter(|_| shown && known.insert(variable.name)) {
            settings.push(setting(variable.name, value));
        }
    }
    settings
}
