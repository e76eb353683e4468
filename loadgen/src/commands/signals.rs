//! Ends a burst on signals.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use anyhow::Context;
use loadgen::Halt;
use tokio::signal::unix::{SignalKind, signal};

/// The exit codes of a burst that was stopped by Ctrl-C and by SIGTERM, as a shell reports a process that they ended.
const INTERRUPTED: u8 = 130;
const TERMINATED: u8 = 143;

/// The signals that came while a burst ran.
pub struct Signals {
    /// The exit code of the first one; 0 if there was none.
    code: Arc<AtomicU8>,
    listener: tokio::task::JoinHandle<()>,
}

impl Signals {
    /// Stops the burst at the first SIGINT or SIGTERM, and aborts it at the second one.
    ///
    /// # Errors
    /// The system refuses handlers of signals.
    pub fn halt(halt: Halt) -> anyhow::Result<Signals> {
        let mut interrupt = signal(SignalKind::interrupt()).context("wait for SIGINT")?;
        let mut terminate = signal(SignalKind::terminate()).context("wait for SIGTERM")?;
        let code = Arc::new(AtomicU8::new(0));
        let first = code.clone();
        let listener = tokio::spawn(async move {
            let mut next = async || {
                tokio::select! {
                    _ = interrupt.recv() => INTERRUPTED,
                    _ = terminate.recv() => TERMINATED,
                }
            };
            first.store(next().await, Ordering::Relaxed);
            halt.stop();
            eprintln!(
                "stopping: waiting for the replies to the requests in flight; again to give them up"
            );
            next().await;
            halt.abort();
        });
        Ok(Signals { code, listener })
    }

    /// Stops listening, and returns the exit code of the first signal, if there was one.
    pub fn code(self) -> Option<u8> {
        self.listener.abort();
        Some(self.code.load(Ordering::Relaxed)).filter(|code| *code > 0)
    }
}
