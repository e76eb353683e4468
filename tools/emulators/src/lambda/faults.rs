//! The trait for faults of execution environments.

use std::fmt::Debug;
use std::process::ExitStatus;
use std::time::Duration;

/// Faults of the environments of a function, and notifications for their source. The default methods inject no
/// fault.
pub trait EnvironmentFaults: Debug + Send + Sync {
    /// Returns after what time the environment of an invocation is killed; `None` to let it run. Is called once at the start
    /// of each invocation.
    fn kill_after(&self) -> Option<Duration> {
        None
    }

    /// Is called when an environment was killed after the time that [`kill_after`](Self::kill_after) returned.
    fn killed(&self) {}

    /// Returns whether to kill the environment that logged this line. Is called for each line.
    fn kills_at_line(&self, line: &str) -> bool {
        let _ = line;
        false
    }

    /// Is called when the function has responded to an invocation, after `time`.
    fn completed(&self, time: Duration) {
        let _ = time;
    }

    /// Is called when the process with this access key was reaped. `exit` is `None` if the host ended the process.
    fn exited(&self, access_key: &str, exit: Option<ExitStatus>) {
        let _ = (access_key, exit);
    }
}

/// Injects no faults.
#[derive(Clone, Copy, Debug)]
pub struct NoFaults;

impl EnvironmentFaults for NoFaults {}
