//! Pauses, turns and sequences, as an environment reads and writes them.

use async_trait::async_trait;
use shared::ports::{Change, Document, NamedItems, PortError};

use crate::environment::{Environment, lock};
use crate::world::named_items::Kind;
use crate::world::now;

#[async_trait]
impl NamedItems for Environment {
    async fn read(&self, name: &str) -> Result<Document, PortError> {
        let (environment, kind) = (self.number, Kind::of(name));
        if !matches!(kind, Kind::Scope | Kind::Epoch | Kind::Manifest) {
            self.note_reads(1);
        }
        // A history without pauses takes the same course as before there were pauses.
        if kind == Kind::Pauses && lock(&self.world).plan.pauses.is_empty() {
            return Ok(Document::default());
        }
        let name = name.to_owned();
        self.request(move |world| {
            let read = now(world.named_items.read(&name))?;
            world.note_named_item_read(environment, &name, &read)?;
            Ok(read)
        })
        .await?
    }

    async fn write(&self, name: &str, from: u64, change: &Change) -> Result<bool, PortError> {
        let (name, change, environment) = (name.to_owned(), change.clone(), self.number);
        self.request(move |world| {
            let written = now(world.named_items.write(&name, from, &change))?;
            world.note_named_item_written(environment, &name, written)?;
            Ok(written)
        })
        .await?
    }
}
