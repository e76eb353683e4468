//! The turns of deliveries as an environment takes them, and the hours of delivery.

use async_trait::async_trait;
use protocol::turns::Turns;
use shared::ports::{PortError, TurnStore};
use sinks::Part;

use crate::environment::{Environment, lock};
use crate::world::fakes::now;

impl Environment {
    /// Checks that a delivery may begin.
    pub fn check_hours(&self, part: &Part) {
        lock(self.world()).check_hours(part);
    }
}

#[async_trait]
impl TurnStore for Environment {
    async fn read(&self) -> Result<Option<Turns>, PortError> {
        self.request(|world| now(world.turns.read())).await?
    }

    async fn replace(&self, from: Option<Turns>, to: Turns) -> Result<bool, PortError> {
        self.request(move |world| now(world.turns.replace(from, to)))
            .await?
    }
}
