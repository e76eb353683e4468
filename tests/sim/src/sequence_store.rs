//! The numbers of parts, as an environment takes them.

use async_trait::async_trait;
use protocol::sequence::{Sequence, SequenceScope};
use shared::ports::{PortError, SequenceStore};

use crate::environment::Environment;
use crate::world::fakes::now;

#[async_trait]
impl SequenceStore for Environment {
    async fn read(&self, scope: &SequenceScope) -> Result<Sequence, PortError> {
        self.note_reads(1);
        let (scope, environment) = (scope.clone(), self.number());
        self.request(move |world| world.look_at_sequence(environment, &scope))
            .await?
    }

    async fn replace(
        &self,
        scope: &SequenceScope,
        from: Sequence,
        to: Sequence,
    ) -> Result<bool, PortError> {
        let (scope, environment) = (scope.clone(), self.number());
        self.request(move |world| {
            // Others may write it at the same moment; then the part looks again.
            world.ledger.looks.remove(&environment);
            let replaced = now(world.sequences.replace(&scope, from, to));
            match replaced {
                Ok(true) => world.number_taken(to),
                // With the record of the part that has the last number.
                Ok(false) => world.note_read_again(environment, 2),
                Err(_) => {}
            }
            replaced
        })
        .await?
    }
}
