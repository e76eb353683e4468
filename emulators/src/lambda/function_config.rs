//! A function as it is deployed.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

/// The program an environment runs.
#[derive(Clone, Debug)]
pub struct Bootstrap {
    /// Path of the executable.
    pub program: PathBuf,
    /// Its arguments.
    pub args: Vec<String>,
}

/// A function as it is deployed.
#[derive(Clone, Debug)]
pub struct FunctionConfig {
    /// Name, as in the ARN and in log prefixes.
    pub name: String,
    /// What each environment runs.
    pub bootstrap: Bootstrap,
    /// Environment variables besides those Lambda sets.
    pub variables: BTreeMap<String, String>,
    /// Longest invocation; the environment is killed then.
    pub timeout: Duration,
    /// Configured memory, told to the process and not enforced.
    pub memory_mb: u32,
    /// Invocations that run at once in one environment. Over 1 the process is told by `AWS_LAMBDA_MAX_CONCURRENCY`.
    pub concurrency_per_environment: u32,
}
