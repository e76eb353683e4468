//! Time and randomness in a simulated environment.

use std::task::{Poll, Waker};
use std::time::Duration;

use async_trait::async_trait;
use protocol::ids::BatchId;
use protocol::time::Timestamp;
use shared::ports::{Clock, Entropy};

use super::{Environment, lock};

#[async_trait]
impl Clock for Environment {
    fn now(&self) -> Timestamp {
        lock(&self.world).now_in(self.number)
    }

    async fn sleep(&self, duration: Duration) {
        let mut wake_at_ms = None;
        // One wake-up for each sleep: each poll of joined sleeps asks all of them, and wake-ups would double with every joined retry.
        let mut asked: Option<Waker> = None;
        std::future::poll_fn(|context| {
            let mut world = lock(&self.world);
            // Some time passes in any case, so that a loop that waits for nothing comes to its deadline.
            let sleep_ms = (duration.as_millis() as u64).max(1);
            let at_ms = *wake_at_ms.get_or_insert(world.now_ms + sleep_ms);
            if world.now_ms >= at_ms {
                world.looks_again(self.number);
                return Poll::Ready(());
            }
            let waker = context.waker();
            if !asked.as_ref().is_some_and(|asked| asked.will_wake(waker)) {
                world.wake_at(at_ms, waker.clone());
                asked = Some(waker.clone());
            }
            Poll::Pending
        })
        .await;
    }
}

impl Entropy for Environment {
    fn batch_id(&self, now: Timestamp) -> BatchId {
        self.entropy.batch_id(now)
    }

    fn secret(&self) -> [u8; 32] {
        self.entropy.secret()
    }

    fn jitter(&self) -> f64 {
        self.entropy.jitter()
    }
}
