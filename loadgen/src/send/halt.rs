//! Ends a burst early.

use std::sync::Arc;

use tokio::sync::watch;

/// Ends a burst early. Clones end the same burst.
#[derive(Clone, Debug, Default)]
pub struct Halt(Arc<watch::Sender<Going>>);

/// How far a burst goes on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Going {
    #[default]
    On,
    /// No request is begun, and none is retried. Those in flight are waited for.
    Stopping,
    /// Requests in flight are given up too.
    Aborting,
}

impl Halt {
    /// Returns a handle for a burst that goes on.
    pub fn new() -> Self {
        Self::default()
    }

    /// Begins no further request, and waits for the replies to those in flight. A burst that fails does this by itself.
    pub fn stop(&self) {
        self.raise(Going::Stopping);
    }

    /// Gives up the requests in flight too. Their messages may be in the queue.
    pub fn abort(&self) {
        self.raise(Going::Aborting);
    }

    pub(crate) fn is_stopped(&self) -> bool {
        *self.0.borrow() >= Going::Stopping
    }

    /// Waits until the burst is stopped or aborted.
    pub(crate) async fn stopped(&self) {
        self.reached(Going::Stopping).await;
    }

    /// Waits until the burst is aborted.
    pub(crate) async fn aborted(&self) {
        self.reached(Going::Aborting).await;
    }

    fn raise(&self, going: Going) {
        self.0.send_if_modified(|now| {
            let further = going > *now;
            *now = going.max(*now);
            further
        });
    }

    async fn reached(&self, going: Going) {
        let mut changes = self.0.subscribe();
        // The sender lives as long as `self`, so this returns only if the state is reached.
        let _ = changes.wait_for(|now| *now >= going).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_aborted_burst_stays_so() {
        let halt = Halt::new();
        assert!(!halt.is_stopped());
        halt.abort();
        halt.stop();
        halt.clone().aborted().await;
        halt.stopped().await;
        assert!(halt.is_stopped());
    }
}
