//! The configuration of a function.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

/// The executable that an environment runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bootstrap {
    /// Path of the executable.
    pub program: PathBuf,
    /// Arguments of the executable.
    pub args: Vec<String>,
}

/// The configuration of a function.
#[derive(Clone, Debug)]
pub struct FunctionConfig {
    /// Name, which is part of the ARN and of log prefixes.
    pub name: String,
    /// The executable that each environment runs.
    pub bootstrap: Bootstrap,
    /// Environment variables in addition to those that Lambda sets.
    pub variables: BTreeMap<String, String>,
    /// Longest duration of an invocation. The environment is killed after it.
    pub timeout: Duration,
    /// Configured memory in MB. The process gets the value, but no limit is enforced.
    pub memory_mb: u32,
    /// Maximum number of invocations that run at once in one environment. If over 1, the process gets it as
    /// `AWS_LAMBDA_MAX_CONCURRENCY`.
    pub concurrency_per_environment: u32,
}
