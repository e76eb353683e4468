//! Commands to the supervisor of an environment to end its process.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::mpsc;

/// How the supervisor is to end the process.
#[derive(Clone, Copy, Debug)]
pub(super) enum EndCommand {
    /// Sends SIGKILL.
    Kill,
    /// Ends the process as Lambda shuts an environment down. If an extension registered: SIGTERM, then SIGKILL after
    /// `SHUTDOWN_GRACE`. Otherwise SIGKILL.
    Terminate,
}

/// Kills one environment, as [`Environment::kill`](super::environment::Environment::kill) does. The tasks that read the
/// environment's log use it.
#[derive(Clone)]
pub(super) struct Killer {
    pub(super) ending: Arc<AtomicBool>,
    pub(super) commands: mpsc::WeakUnboundedSender<EndCommand>,
}

impl Killer {
    pub(super) fn kill(&self) {
        self.ending.store(true, Ordering::Relaxed);
        if let Some(commands) = self.commands.upgrade() {
            // Fails if the supervisor has ended, which means that the process is reaped.
            let _ = commands.send(EndCommand::Kill);
        }
    }
}
