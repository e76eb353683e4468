//! The turns of deliveries as an environment takes them.

use async_trait::async_trait;
use protocol::turns::Turns;
use shared::ports::{PortError, TurnStore};

use crate::environment::Environment;
use crate::world::fakes::now;

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
