//! What strikes the environments of one function.

use std::process::ExitStatus;
use std::sync::Arc;
use std::time::Duration;

use emulators::lambda;
use emulators::proxy::Credentials;

use super::kills::Kills;

/// What strikes the environments of one function.
#[derive(Clone, Debug, Default)]
pub struct EnvironmentFaults {
    /// Which of them are killed.
    pub kills: Option<Arc<Kills>>,
    /// Whose credentials expire.
    pub credentials: Option<Arc<Credentials>>,
}

impl lambda::EnvironmentFaults for EnvironmentFaults {
    fn kill_after(&self) -> Option<Duration> {
        self.kills.as_ref()?.moment()
    }

    fn killed(&self) {
        if let Some(kills) = &self.kills {
            kills.killed();
        }
    }

    fn kills_at(&self, line: &str) -> bool {
        self.kills.as_ref().is_some_and(|kills| kills.at_line(line))
    }

    fn answered(&self, time: Duration) {
        if let Some(kills) = &self.kills {
            kills.took(time);
        }
    }

    fn exited(&self, access_key: &str, exit: Option<ExitStatus>) {
        if let Some(credentials) = &self.credentials {
            credentials.exited(access_key, exit);
        }
    }
}
