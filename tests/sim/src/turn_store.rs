//! The turns of deliveries as an environment takes them, and the hours of delivery.

use std::time::Duration;

use async_trait::async_trait;
use protocol::time::Timestamp;
use shared::ports::{PortError, TurnStore};
use sinks::Part;

use crate::environment::{Environment, lock};

impl Environment {
    /// Checks that a delivery may begin.
    pub fn check_hours(&self, part: &Part) {
        lock(self.world()).check_hours(part);
    }
}

#[async_trait]
impl TurnStore for Environment {
    async fn take(
        &self,
        now: Timestamp,
        length: Duration,
        _rate: u64,
    ) -> Result<Timestamp, PortError> {
        self.request(move |world| {
            let begins = now.max(world.turns_free_at);
            world.turns_free_at = begins + length;
            begins
        })
        .await
    }
}
