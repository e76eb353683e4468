//! The faults of the environments of one function, as the Lambda host asks for them.

use std::process::ExitStatus;
use std::sync::Arc;
use std::time::Duration;

use emulators::lambda;
use emulators::proxy::ExpiringCredentials;

use super::kills::Kills;

/// The faults of the environments of one function.
#[derive(Clone, Debug, Default)]
pub struct EnvironmentFaults {
    /// Decides which environments are killed.
    pub kills: Option<Arc<Kills>>,
    /// Decides whose credentials expire.
    pub credentials: Option<Arc<ExpiringCredentials>>,
}

impl lambda::EnvironmentFaults for EnvironmentFaults {
    fn kill_after(&self) -> Option<Duration> {
        self.kills.as_ref()?.delay()
    }

    fn killed(&self) {
        if let Some(kills) = &self.kills {
            kills.killed.add(1);
        }
    }

    fn kills_at_line(&self, line: &str) -> bool {
        let kills = self.kills.as_ref();
        kills.is_some_and(|kills| kills.kills_at(line))
    }

    fn completed(&self, time: Duration) {
        if let Some(kills) = &self.kills {
            kills.record_duration(time);
        }
    }

    fn exited(&self, access_key: &str, exit: Option<ExitStatus>) {
        if let Some(credentials) = &self.credentials {
            credentials.exited(access_key, exit);
        }
    }
}
