//! Ends a burst on signals.

use std::sync::{Arc, OnceLock};

use anyhow::Context;
use loadgen::{Halt, StopSignal, StopSignals};

/// The signals that came while a burst ran.
pub struct Signals {
    first: Arc<OnceLock<StopSignal>>,
    listener: tokio::task::JoinHandle<()>,
}

impl Signals {
    /// Stops the burst at the first SIGINT or SIGTERM, and aborts it at the second one.
    ///
    /// # Errors
    /// The system refuses handlers of signals.
    pub fn halt(halt: Halt) -> anyhow::Result<Signals> {
        let mut signals = StopSignals::new().context("wait for SIGINT and SIGTERM")?;
        let first = Arc::new(OnceLock::new());
        let stopped = Arc::clone(&first);
        let listener = tokio::spawn(async move {
            let signal = signals.next().await;
            stopped.get_or_init(|| signal);
            halt.stop();
            eprintln!(
                "stopping: waiting for the replies to the requests in flight; again to give them up"
            );
            signals.next().await;
            halt.abort();
        });
        Ok(Signals { first, listener })
    }

    /// Stops listening, and returns the exit code of the first signal, if there was one.
    pub fn code(self) -> Option<u8> {
        self.listener.abort();
        self.first.get().map(|signal| signal.code())
    }
}
