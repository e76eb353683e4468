//! What the host tells its functions of itself, and what it holds them to.

use std::time::Duration;

/// Region told to the functions.
pub const REGION: &str = "us-east-1";

/// Account in the ARNs handed out.
pub const ACCOUNT_ID: &str = "000000000000";

/// Most bytes of a synchronous invocation's payload.
/// Source: <https://docs.aws.amazon.com/lambda/latest/dg/gettingstarted-limits.html>
pub const REQUEST_BYTES_MAX: usize = 6 * 1024 * 1024;

/// Most bytes of a synchronous invocation's response: AWS allows 100 bytes over the 6 MB.
pub const RESPONSE_BYTES_MAX: usize = 6 * 1024 * 1024 + 100;

/// Longest init phase, from the start of the process to its first poll.
/// Source: <https://docs.aws.amazon.com/lambda/latest/dg/lambda-runtime-environment.html>
pub const INIT_TIME_MAX: Duration = Duration::from_secs(10);

/// What Lambda calls an init phase that took longer.
pub(super) const INIT_TIMED_OUT: &str = "Sandbox.Timedout";

/// Time between SIGTERM and SIGKILL for an environment in which an extension registered.
pub const SHUTDOWN_GRACE: Duration = Duration::from_secs(2);
