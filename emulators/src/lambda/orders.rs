//! How an environment's supervisor is told to end its process.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::mpsc;

/// What the supervisor is told.
#[derive(Clone, Copy, Debug)]
pub(super) enum Order {
    /// SIGKILL.
    Kill,
    /// SIGTERM if an extension registered, as Lambda does, and SIGKILL after a grace; else SIGKILL.
    Terminate,
}

/// Kills the environment whose log it is, as [`Environment::kill`](super::environment::Environment::kill) does.
#[derive(Clone)]
pub(super) struct Killer {
    pub(super) ending: Arc<AtomicBool>,
    pub(super) orders: mpsc::WeakUnboundedSender<Order>,
}

impl Killer {
    pub(super) fn kill(&self) {
        self.ending.store(true, Ordering::Relaxed);
        if let Some(orders) = self.orders.upgrade() {
            // A supervisor that is gone has reaped the process.
            let _ = orders.send(Order::Kill);
        }
    }
}
