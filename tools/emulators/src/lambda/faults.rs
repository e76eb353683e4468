//! The trait for faults of execution environments.

use std::fmt::Debug;
use std::process::ExitStatus;
use std::time::Duration;

/// Faults of the environments of a function, and notifications for their source. The default methods inject no
/// fault; `()` has only these.
pub trait EnvironmentFaults: Debug + Send + Sync {
    /// Returns after what time the environment of an invocation is killed; `None` to let it run. Is called once at the start
    /// of each invocation.
    fn kill_after(&self) -> Option<Duration> {
        None
    }

    /// Is called when an environment was killed after the time that [`kill_after`](Self::kill_after) returned.
    fn killed(&self) {}

    /// Returns whether to kill the environment that logged this line. Is called for each line.
    fn kills_at_line(&self, _line: &str) -> bool {
        false
    }

    /// Is called when the function has responded to an invocation, after this time.
    fn completed(&self, _time: Duration) {}

    /// Is called when the process with this access key was reaped. Its status is `None` if the host ended the process.
    fn exited(&self, _access_key: &str, _exit: Option<ExitStatus>) {}
}

impl EnvironmentFaults for () {}
