//! The numbers of parts, as an environment takes them.

use async_trait::async_trait;
use protocol::sequence::{Sequence, SequenceScope};
use shared::ports::{PortError, SequenceStore};

use crate::environment::Environment;
use crate::world::fakes::now;

#[async_trait]
impl SequenceStore for Environment {
    async fn read(&self, scope: &SequenceScope) -> Result<Sequence, PortError> {
        let scope = scope.clone();
        self.request(move |world| now(world.sequences.read(&scope)))
            .await?
    }

    async fn replace(
        &self,
        scope: &SequenceScope,
        from: Sequence,
        to: Sequence,
    ) -> Result<bool, PortError> {
        let scope = scope.clone();
        self.request(move |world| {
            let replaced = now(world.sequences.replace(&scope, from, to));
            if matches!(replaced, Ok(true)) {
                world.number_taken(to);
            }
            replaced
        })
        .await?
    }
}
