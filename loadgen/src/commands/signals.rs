//! Ends a burst on signals.

use anyhow::Context;
use loadgen::Halt;

/// Stops the burst at the first SIGINT or SIGTERM, and aborts it at the second one.
pub async fn halt_on_signals(halt: Halt) -> anyhow::Result<()> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut interrupt = signal(SignalKind::interrupt()).context("wait for SIGINT")?;
    let mut terminate = signal(SignalKind::terminate()).context("wait for SIGTERM")?;
    let mut next = async || {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
    };
    next().await;
    halt.stop();
    eprintln!("stopping: waiting for the replies to the requests in flight; again to give them up");
    next().await;
    halt.abort();
    Ok(())
}
