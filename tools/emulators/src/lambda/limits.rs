//! Limits that the host enforces, and the region and account that it tells its functions.

use std::time::Duration;

/// Region of every function.
pub const REGION: &str = "us-east-1";

/// Account of every function.
pub const ACCOUNT_ID: &str = "000000000000";

/// Maximum number of bytes of the payload of a synchronous invocation.
/// Source: <https://docs.aws.amazon.com/lambda/latest/dg/gettingstarted-limits.html>
pub const REQUEST_BYTES_MAX: usize = 6 * 1024 * 1024;

/// Maximum number of bytes of the response to a synchronous invocation: AWS allows 100 bytes more than 6 MB.
pub const RESPONSE_BYTES_MAX: usize = 6 * 1024 * 1024 + 100;

/// Longest init phase: the time from the start of the process to its first poll.
/// Source: <https://docs.aws.amazon.com/lambda/latest/dg/lambda-runtime-environment.html>
pub const INIT_TIME_MAX: Duration = Duration::from_secs(10);

/// The error type of an init phase that took longer.
pub(super) const INIT_TIMED_OUT: &str = "Sandbox.Timedout";

/// Time from SIGTERM to SIGKILL when an environment with a registered extension is shut down.
pub const SHUTDOWN_GRACE: Duration = Duration::from_secs(2);
