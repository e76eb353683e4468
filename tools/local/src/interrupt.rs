//! Ends a command on SIGINT and SIGTERM, and says what was done until then.

use std::collections::BTreeMap;
use std::fmt;
use std::time::SystemTime;

use loadgen::{StopSignal, StopSignals};
use protocol::text::counted;
use serde::Serialize;

use crate::batch_life::BatchLife;
use crate::sink::SinkReport;
use crate::stack::Stack;

/// Stops a stack after a signal. Another signal gives up the invocations in flight.
pub(crate) async fn stop(stack: &Stack, signals: &mut StopSignals) {
    eprintln!("stopping: waiting for the invocations in flight; again to give them up");
    tokio::select! {
        () = stack.stop() => {}
        _ = signals.next() => {}
    }
}

/// What a stack did until it was stopped.
#[derive(Debug, Serialize)]
pub struct SoFar {
    pub interrupted: StopSignal,
    /// Messages that were sent, and the number of messages of the whole burst; `None` if the stack sends none itself.
    #[serde(flatten)]
    pub burst: Option<SentSoFar>,
    /// Messages that were taken off the input queue.
    pub taken: u64,
    /// Events in delivered parts.
    pub delivered: u64,
    /// Batches with a delivered part.
    pub batches: usize,
    /// Batches that are not complete.
    pub incomplete: usize,
    pub sink: SinkReport,
}

/// How far a burst was sent.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct SentSoFar {
    pub sent: u64,
    pub messages: u64,
}

impl SoFar {
    pub async fn of(
        stack: &Stack,
        interrupted: StopSignal,
        burst: Option<SentSoFar>,
    ) -> anyhow::Result<SoFar> {
        stack.export_parts().await?;
        // Neither times nor sizes of batches are shown.
        let (began, leases, body_bytes) = (SystemTime::now(), BTreeMap::new(), 1);
        let lives = stack.batch_lives(began, &leases, body_bytes).await?;
        let delivered = |life: &BatchLife| -> u64 {
            let parts = life.parts.iter().filter(|part| part.at_secs.is_some());
            parts.map(|part| part.events).sum()
        };
        let delivered = lives.iter().map(delivered).filter(|events| *events > 0);
        let delivered = Vec::from_iter(delivered);
        Ok(SoFar {
            interrupted,
            burst,
            taken: stack.input_mapping.stats().deleted,
            delivered: delivered.iter().sum(),
            batches: delivered.len(),
            incomplete: stack.batches_by_status().await?.values().sum(),
            sink: stack.sink_report(),
        })
    }
}

/// Lines for people; the last one has no line break.
impl fmt::Display for SoFar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let signal = self.interrupted;
        writeln!(f, "INTERRUPTED by {signal}: deliveries are not audited")?;
        if let Some(SentSoFar { sent, messages }) = self.burst {
            writeln!(f, "sent        {sent} of {messages} messages")?;
        }
        let taken = counted(self.taken, "message");
        writeln!(f, "taken       {taken} off the input queue")?;
        writeln!(
            f,
            "delivered   {} in {}; not complete: {}",
            counted(self.delivered, "event"),
            counted(self.batches, "batch"),
            counted(self.incomplete, "batch")
        )?;
        f.write_str(self.sink.to_string().trim_end())
    }
}
