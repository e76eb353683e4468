//! The pauses as an environment reads them.

use async_trait::async_trait;
use protocol::pause::Pauses;
use shared::ports::{PauseStore, PortError};
use sinks::Part;

use crate::environment::{Environment, lock};

impl Environment {
    /// Checks that a delivery may begin.
    pub fn check_not_paused(&self, part: &Part) {
        lock(self.world()).check_not_paused(self.number(), part);
    }
}

#[async_trait]
impl PauseStore for Environment {
    async fn read(&self) -> Result<Pauses, PortError> {
        // A history without pauses takes the same course as before there were pauses.
        if lock(self.world()).plan.pauses.is_empty() {
            return Ok(Pauses::default());
        }
        self.request(|world| world.pauses.stored.clone()).await
    }

    async fn write(&self, _: &Pauses) -> Result<bool, PortError> {
        unreachable!("only operators write pauses")
    }
}
