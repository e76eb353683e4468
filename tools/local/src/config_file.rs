//! `--config`: the configuration file of a deployment, run on this machine.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, bail};
use clap::ValueEnum as _;
use shared::config::{
    COMPLETION, Completion, ConfigError, ConfigFile, Declarations, Settings, completion,
    placeholder,
};
use sinks::SINK;

use crate::notices::CompletionKind;
use crate::sink::SinkKind;

/// Settings of the file that this machine has no use for. The stand-ins have addresses, keys and secrets of their own, no stand-in
/// has the queue for reports, nobody waits here for the hours of deliveries or for long windows, and the stand-in for DynamoDB
/// handles one request at a time.
const NOT_USED: [&str; 12] = [
    "COMPLETION",
    "DELIVERY_HOURS",
    "DUPLICATES_SQS_URL",
    "LOG_FORMAT",
    "MAX_SECONDARY_BATCHING_WINDOW",
    "SINK",
    "SINK_HOST_KEY",
    "SINK_PAYLOADS",
    "SINK_SECRET",
    "SINK_SECRET_HEADER",
    "VERIFY_DELAY",
    "WRITE_CONCURRENCY",
];

/// Returns what both functions declare.
pub(crate) fn declarations() -> [Declarations; 2] {
    [
        aggregator::Config::declarations(),
        batch_processor::Config::declarations(),
    ]
}

/// What a run takes from a configuration file.
#[derive(Clone, Debug)]
pub struct LocalConfig {
    name: String,
    /// The settings that are used, as variables.
    pub variables: BTreeMap<String, String>,
    /// The kind of sink that batches go to.
    pub sink: SinkKind,
    /// The kind of target that notices go to.
    pub completion: Option<CompletionKind>,
    not_used: Vec<&'static str>,
}

impl LocalConfig {
    /// Reads the file, and checks it as the functions do. `set` has the variables that override it.
    ///
    /// # Errors
    /// The file cannot be read, it has problems, or its sink has no stand-in.
    pub fn read(path: &Path, set: &BTreeMap<String, String>) -> anyhow::Result<LocalConfig> {
        let name = path.display().to_string();
        let flag = || format!("`--config {name}`");
        let text = std::fs::read_to_string(path).with_context(flag)?;
        let file = ConfigFile::parse(&name, text)?;
        let lookup = |name: &str| set.get(name).cloned().or_else(|| placeholder(name));
        let settings = Settings::new(&lookup, Some(&file));
        let errors = [
            aggregator::Config::of(settings).err(),
            batch_processor::Config::of(settings).err(),
        ];
        let problems = ConfigError::problems_of(errors.into_iter().flatten());
        if !problems.is_empty() {
            bail!(
                "{}: the functions cannot start with it:\n  {}",
                flag(),
                problems.join("\n  ")
            );
        }
        let functions = declarations();
        let mut variables = file.variables(functions.iter().flat_map(|each| &each.declared));
        let sink = settings.value(&SINK).unwrap_or_default();
        let Some(sink) = kind_of(&sink) else {
            bail!(
                "{}: no stand-in for this sink: got `{sink}`, expected another sink, or `--sink` with the kind of one",
                settings.named(&SINK)
            );
        };
        let target = settings.value(&COMPLETION);
        let completion = match target.map(|target| completion(&target)) {
            Some(Ok(Completion::Queue { .. })) => Some(CompletionKind::Queue),
            #[cfg(feature = "full")]
            Some(Ok(Completion::EventBus { .. })) => Some(CompletionKind::EventBus),
            _ => None,
        };
        let mut not_used = NOT_USED.to_vec();
        not_used.retain(|name| variables.remove(*name).is_some());
        Ok(LocalConfig {
            name,
            variables,
            sink,
            completion,
            not_used,
        })
    }

    /// Returns one line about the settings of the file that this run sets itself or leaves out.
    pub fn not_used(&self) -> Option<String> {
        let names = self.not_used.iter().map(|name| format!("`{name}`"));
        let names = Vec::from_iter(names).join(", ");
        (!names.is_empty()).then(|| {
            format!(
                "{}: this run has its own {names}, whatever the file says",
                self.name
            )
        })
    }
}

/// Returns the kind of sink that a URI names, if there is a stand-in for it in this build.
fn kind_of(uri: &str) -> Option<SinkKind> {
    let kind = match uri.split_once(':')? {
        ("https", _) => "http",
        ("postgresql", _) => "postgres",
        ("arn", rest) if rest.contains(":lambda:") => "lambda",
        ("arn", rest) if rest.contains(":states:") => "states",
        (scheme, _) => scheme,
    };
    SinkKind::from_str(kind, false).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uri_names_the_kind_of_its_stand_in() {
        let of_full = |kind| cfg!(feature = "full").then_some(kind);
        let function = "arn:aws:lambda:eu-west-1:123456789012:function:f";
        for (uri, kind) in [
            ("file:///out", Some("file")),
            ("https://host/path", Some("http")),
            ("sftp://user@host/in", of_full("sftp")),
            (function, of_full("lambda")),
            ("log:", None),
            ("nothing", None),
        ] {
            let found = kind_of(uri).map(|kind| kind.to_string());
            assert_eq!(found.as_deref(), kind, "{uri}");
        }
    }
}
