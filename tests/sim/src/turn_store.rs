//! The turns of deliveries as an environment takes them.

use std::time::Duration;

use async_trait::async_trait;
use protocol::time::Timestamp;
use shared::ports::{PortError, TurnStore};

use crate::environment::Environment;

#[async_trait]
impl TurnStore for Environment {
    async fn take(
        &self,
        now: Timestamp,
        length: Duration,
        _rate: u64,
    ) -> Result<Timestamp, PortError> {
        let environment = self.number();
        self.request(move |world| world.take_turn(environment, now, length))
            .await
    }
}
