//! Ends a command early on Ctrl-C or SIGTERM, or when another program stops it, so that it can say how far it got.

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

/// A signal that ends a command, with the exit code by which a shell reports that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// SIGINT: Ctrl-C.
    Interrupt = 130,
    /// SIGTERM.
    Terminate = 143,
}

/// Whether a command must end early. The first signal begins nothing further, the second one gives up what is under way.
#[derive(Clone, Debug)]
pub struct Interrupt(watch::Receiver<Vec<Signal>>);

/// Stops a command that another program runs.
#[derive(Debug)]
pub struct Stop(watch::Sender<Vec<Signal>>);

impl Stop {
    /// Has the effect of one SIGTERM.
    pub fn stop(&self) {
        self.0
            .send_modify(|signals| signals.push(Signal::Terminate));
    }
}

impl Interrupt {
    /// Listens to the signals from now on. They no longer end the process by themselves.
    pub fn listen() -> std::io::Result<Interrupt> {
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut terminate = signal(SignalKind::terminate())?;
        let (sender, receiver) = watch::channel(Vec::new());
        tokio::spawn(async move {
            loop {
                let signal = tokio::select! {
                    _ = interrupt.recv() => Signal::Interrupt,
                    _ = terminate.recv() => Signal::Terminate,
                };
                sender.send_modify(|signals| signals.push(signal));
                eprintln!("stopping: waiting for the work in flight; signal again to abandon it");
            }
        });
        Ok(Interrupt(receiver))
    }

    /// Listens to no signal, but to what is returned with it.
    pub fn manual() -> (Stop, Interrupt) {
        let (sender, receiver) = watch::channel(Vec::new());
        (Stop(sender), Interrupt(receiver))
    }

    /// Listens to no signal.
    pub fn never() -> Interrupt {
        Interrupt(watch::channel(Vec::new()).1)
    }

    /// Returns the first signal, if there was one.
    pub fn signal(&self) -> Option<Signal> {
        self.0.borrow().first().copied()
    }

    /// Waits for the first signal.
    pub async fn signalled(&self) {
        self.signals(1).await;
    }

    /// Waits for the second signal.
    pub async fn given_up(&self) {
        self.signals(2).await;
    }

    async fn signals(&self, count: usize) {
        let mut signals = self.0.clone();
        if signals.wait_for(|all| all.len() >= count).await.is_err() {
            // Without a listener there will be no signal.
            std::future::pending::<()>().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[test]
    fn the_first_stop_is_a_signal_and_the_second_one_gives_up() {
        let (stop, interrupt) = Interrupt::manual();
        let is_given_up = || interrupt.given_up().now_or_never().is_some();
        assert_eq!(interrupt.signal(), None);
        stop.stop();
        assert_eq!(interrupt.signal(), Some(Signal::Terminate));
        assert!(!is_given_up());
        stop.stop();
        assert!(is_given_up());
    }

    #[test]
    fn a_command_that_nothing_can_stop_any_more_goes_on() {
        let (stop, interrupt) = Interrupt::manual();
        stop.stop();
        drop(stop);
        assert!(interrupt.given_up().now_or_never().is_none());
    }
}
