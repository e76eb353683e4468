//! The turns of deliveries as an environment takes them.

use async_trait::async_trait;
use protocol::turns::Turns;
use shared::ports::{PortError, TurnStore};

use crate::environment::Environment;
use crate::world::fakes::now;

#[async_trait]
impl TurnStore for Environment {
    async fn read(&self) -> Result<Option<Turns>, PortError> {
        self.note_reads(1);
        let environment = self.number();
        self.request(move |world| {
            let read = now(world.turns.read());
            if let Ok(turns) = read {
                world.note_turns(environment, turns);
            }
            read
        })
        .await?
    }

    async fn replace(&self, from: Option<Turns>, to: Turns) -> Result<bool, PortError> {
        let environment = self.number();
        self.request(move |world| {
            let replaced = now(world.turns.replace(from, to));
            if matches!(replaced, Ok(false)) {
                world.note_read_again(environment, 1);
            }
            replaced
        })
        .await?
    }
}
