//! The signals that end a command, Ctrl-C and SIGTERM.

use std::fmt;
use std::io;

use serde::Serialize;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// A signal that ends a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum StopSignal {
    /// Ctrl-C.
    #[serde(rename = "SIGINT")]
    Interrupt,
    #[serde(rename = "SIGTERM")]
    Terminate,
}

impl StopSignal {
    /// Returns the exit code of a command that this signal has ended: 128 and the number of the signal, as shells report it.
    pub fn code(self) -> u8 {
        match self {
            StopSignal::Interrupt => 130,
            StopSignal::Terminate => 143,
        }
    }
}

impl fmt::Display for StopSignal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            StopSignal::Interrupt => "SIGINT",
            StopSignal::Terminate => "SIGTERM",
        })
    }
}

/// Waits for signals. From its creation on, they do not end the process by themselves.
pub struct StopSignals {
    interrupt: Signal,
    terminate: Signal,
}

impl StopSignals {
    /// Begins to wait.
    ///
    /// # Errors
    /// The system refuses handlers of signals.
    ///
    /// # Panics
    /// Outside of a Tokio runtime.
    pub fn new() -> io::Result<StopSignals> {
        Ok(StopSignals {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
        })
    }

    /// Waits for the next signal.
    pub async fn next(&mut self) -> StopSignal {
        tokio::select! {
            _ = self.interrupt.recv() => StopSignal::Interrupt,
            _ = self.terminate.recv() => StopSignal::Terminate,
        }
    }
}
