//! Finds variables of the environment that no function reads, but whose name says that they were meant for one. Without
//! this, a mistyped name would leave its variable at the default.

use std::collections::BTreeSet;
use std::fmt;

use super::known::{removed, variable_names};

/// The beginnings of names that belong to the service. Names that begin as those of Lambda, of the SDKs or of OpenTelemetry do
/// are not among them.
pub const OWN_PREFIXES: [&str; 11] = [
    "BATCH_KEY_",
    "BODIES_",
    "CLOSE_AT_",
    "COMPLETION_",
    "DEDUP_",
    "DELIVERY_",
    "DUPLICATES_",
    "EVENT_ID_",
    "MAX_BATCH_",
    "QUOTA_",
    "SINK_",
];

/// A variable that no function reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownVariable {
    pub name: String,
    /// The variable whose name is one edit away; [`None`] if only the beginning of the name belongs to the service.
    pub meant: Option<&'static str>,
}

impl fmt::Display for UnknownVariable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let UnknownVariable { name, meant } = self;
        match (removed(name), meant) {
            (Some(now), _) => write!(f, "`{name}`: removed variable: unset it: {now}"),
            (None, Some(meant)) => write!(f, "`{name}`: unknown variable: expected `{meant}`"),
            (None, None) => write!(
                f,
                "`{name}`: unknown variable: expected a name from docs/configuration.md, or one that does not begin as they do"
            ),
        }
    }
}

/// Returns those of `names` that no function reads, and that were meant for one: upper and lower case apart, they are one edit
/// away from the name of a variable (a character too many, missing, wrong, or swapped with the next), or begin with one of
/// [`OWN_PREFIXES`].
pub fn unknown_variables(names: impl IntoIterator<Item = String>) -> Vec<UnknownVariable> {
    let names = BTreeSet::from_iter(names);
    names.into_iter().filter_map(unknown).collect()
}

fn unknown(name: String) -> Option<UnknownVariable> {
    if variable_names().any(|known| known == name) {
        return None;
    }
    let upper = name.to_ascii_uppercase();
    let is_near = |known: &&str| strsim::osa_distance(&upper, known) <= 1;
    let meant = variable_names().find(is_near);
    let is_own = OWN_PREFIXES.iter().any(|own| upper.starts_with(own));
    (meant.is_some() || is_own).then_some(UnknownVariable { name, meant })
}

/// Returns the names of the variables of this process that have a value. An empty variable counts as one that is not set.
pub fn names_in_environment() -> impl Iterator<Item = String> {
    let set = std::env::vars_os().filter(|(_, value)| !value.to_string_lossy().trim().is_empty());
    set.filter_map(|(name, _)| name.into_string().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(names: &[&str]) -> Vec<String> {
        let names = names.iter().map(|name| (*name).to_owned());
        let unknown = unknown_variables(names);
        unknown.iter().map(UnknownVariable::to_string).collect()
    }

    #[test]
    fn a_name_one_edit_away_is_refused_with_the_name_that_was_meant() {
        for (wrong, meant) in [
            ("MAX_BATCH_SIZ", "MAX_BATCH_SIZE"),
            ("MAX_BATCH_SIZES", "MAX_BATCH_SIZE"),
            ("MAX_BATCH_SIYE", "MAX_BATCH_SIZE"),
            ("MAX_BATCH_SZIE", "MAX_BATCH_SIZE"),
            ("max_batch_size", "MAX_BATCH_SIZE"),
            ("SNIK", "SINK"),
            ("DDB_BATCH_TABEL", "DDB_BATCH_TABLE"),
            ("WRITE_CONCURENCY", "WRITE_CONCURRENCY"),
        ] {
            let expected = format!("`{wrong}`: unknown variable: expected `{meant}`");
            assert_eq!(problems(&[wrong]), [expected]);
        }
    }

    #[test]
    fn a_name_that_only_begins_as_the_own_ones_is_refused_too() {
        for wrong in ["SINK_FORMAT_VERSION", "MAX_BATCH_ITEMS", "QUOTA_PER_DAY"] {
            let problem = problems(&[wrong]).concat();
            let words = format!("`{wrong}`: unknown variable: expected a name from docs/");
            assert!(problem.starts_with(&words), "{problem}");
        }
    }

    #[test]
    fn a_variable_that_was_removed_is_refused_with_what_happens_now() {
        assert_eq!(
            problems(&["QUOTA_BEYOND"]),
            [
                "`QUOTA_BEYOND`: removed variable: unset it: an event beyond its quota always goes to the quarantine, from where `batchctl redrive` brings it back"
            ]
        );
    }

    #[test]
    fn variables_of_both_functions_and_of_others_are_not_refused() {
        assert_eq!(problems(&Vec::from_iter(variable_names())), [""; 0]);
        for others in [
            // Lambda.
            "_HANDLER _X_AMZN_TRACE_ID AWS_DEFAULT_REGION AWS_EXECUTION_ENV \
             AWS_LAMBDA_FUNCTION_MEMORY_SIZE AWS_LAMBDA_FUNCTION_NAME \
             AWS_LAMBDA_INITIALIZATION_TYPE AWS_LAMBDA_LOG_FORMAT AWS_LAMBDA_LOG_GROUP_NAME \
             AWS_LAMBDA_LOG_LEVEL AWS_LAMBDA_MAX_CONCURRENCY AWS_LAMBDA_RUNTIME_API \
             AWS_XRAY_DAEMON_ADDRESS LAMBDA_RUNTIME_DIR LAMBDA_TASK_ROOT LANG LD_LIBRARY_PATH \
             PATH TZ",
            // The SDKs, the extension for secrets, OpenTelemetry, Rust.
            "AWS_ENDPOINT_URL_SQS AWS_MAX_ATTEMPTS OTEL_EXPORTER_OTLP_ENDPOINT OTEL_LOG_LEVEL \
             OTEL_SERVICE_NAME PARAMETERS_SECRETS_EXTENSION_CACHE_ENABLED RUST_BACKTRACE \
             RUST_LOG",
            // Printed by `local serve`, and read by examples and by `local`.
            "BATCH_DEAD_LETTER_QUEUE_URL IMPORT_PROGRAM INPUT_QUEUE_URL NIGHTLY_DIRECTORY \
             POSTGRES_BIN SSHD_BIN",
            // A user's own.
            "CUSTOMER_TABLE LOG_GROUP MAX_RETRIES WRITE_TIMEOUT",
        ] {
            let names = Vec::from_iter(others.split(' '));
            assert_eq!(problems(&names), [""; 0]);
        }
    }
}
