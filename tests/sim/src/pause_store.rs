//! The pauses as an environment reads them.

use async_trait::async_trait;
use protocol::pause::Pauses;
use shared::ports::{PauseStore, PortError};
use sinks::Part;

use crate::environment::{Environment, lock};

impl Environment {
    /// Checks that a delivery may begin.
    pub fn check_begins(&self, part: &Part) {
        let mut world = lock(self.world());
        world.check_not_paused(self.number(), part);
        world.check_hours(part);
        world.check_rate(part);
    }
}

#[async_trait]
impl PauseStore for Environment {
    async fn read(&self) -> Result<Pauses, PortError> {
        self.note_reads(1);
        // A history without pauses takes the same course as before there were pauses.
        if lock(self.world()).plan.pauses.is_empty() {
            return Ok(Pauses::default());
        }
        self.request(|world| world.pauses.stored.clone()).await
    }

    async fn write(&self, pauses: &Pauses) -> Result<bool, PortError> {
        let pauses = pauses.clone();
        self.request(move |world| world.write_pauses(&pauses)).await
    }
}
