//! What may happen to the environments of a function.

use std::fmt::Debug;
use std::process::ExitStatus;
use std::time::Duration;

/// What may happen to the environments of a function: nothing, except where this is overridden.
pub trait EnvironmentFaults: Debug + Send + Sync {
    /// How long after the start of an invocation its environment is to be killed, if it is.
    fn kill_after(&self) -> Option<Duration> {
        None
    }

    /// An environment was killed at the moment that [`kill_after`](Self::kill_after) gave.
    fn killed(&self) {}

    /// Whether the environment that has logged this line is to be killed.
    fn kills_at(&self, line: &str) -> bool {
        let _ = line;
        false
    }

    /// An invocation was answered after so long.
    fn answered(&self, time: Duration) {
        let _ = time;
    }

    /// The process that had this access key has ended; `exit` is `None` where the host ended it.
    fn exited(&self, access_key: &str, exit: Option<ExitStatus>) {
        let _ = (access_key, exit);
    }
}

/// Nothing happens.
#[derive(Clone, Copy, Debug)]
pub struct NoFaults;

impl EnvironmentFaults for NoFaults {}
