//! The named items of the batch table: what the world notes about reads and writes of them.

use protocol::log::IndexEpoch;
use protocol::pause::Pauses;
use protocol::sequence::Sequence;
use protocol::turns::Turns;
use shared::named_items::{NamedItem, Versioned, versioned};
use shared::ports::{Document, NamedItems, PortError};

use super::{World, now};

/// What a named item holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Pauses,
    Turns,
    Sequence,
    Scope,
    Epoch,
    Manifest,
}

impl Kind {
    /// Returns what the item `name` holds.
    pub fn of(name: &str) -> Kind {
        match name.split(['/', '#']).next() {
            Some("pauses") => Kind::Pauses,
            Some("turns") => Kind::Turns,
            Some("sequence") => Kind::Sequence,
            Some("scope") => Kind::Scope,
            Some("dedup") if name == IndexEpoch::name(&()) => Kind::Epoch,
            Some("dedup") => Kind::Manifest,
            Some(_) | None => panic!("a named item that no check knows: {name}"),
        }
    }
}

impl World {
    /// Returns a value as it is stored.
    pub fn named_item<T: NamedItem>(&self, scope: &T::Scope) -> Versioned<T> {
        let items: &dyn NamedItems = &self.named_items;
        now(items.get(scope)).expect("the program wrote the item")
    }

    /// An environment has read an item.
    pub fn note_named_item_read(
        &mut self,
        environment: u64,
        name: &str,
        read: &Document,
    ) -> Result<(), PortError> {
        match Kind::of(name) {
            Kind::Turns => {
                let turns: Versioned<Turns> = versioned(name, read.clone())?;
                self.note_turns(environment, turns.value);
            }
            Kind::Sequence => {
                let sequence: Versioned<Sequence> = versioned(name, read.clone())?;
                self.note_sequence_look(environment, name, sequence.value);
            }
            Kind::Pauses | Kind::Scope | Kind::Epoch | Kind::Manifest => {}
        }
        Ok(())
    }

    /// An environment has written an item, or could not because another had.
    pub fn note_named_item_written(
        &mut self,
        environment: u64,
        name: &str,
        written: bool,
    ) -> Result<(), PortError> {
        match (Kind::of(name), written) {
            (Kind::Pauses, true) => self.note_pauses_written(&self.named_item::<Pauses>(&()).value),
            // What others wrote at the same time is read again.
            (Kind::Turns, false) => self.change_look(environment, |read| read.saturating_sub(1)),
            (Kind::Sequence, _) => {
                // Others may write it at the same moment; then the part looks again.
                self.ledger.looks.remove(&environment);
                match written {
                    true => {
                        let stored = now(self.named_items.read(name))?;
                        self.number_taken(versioned(name, stored)?.value);
                    }
                    // With the record of the part that has the last number.
                    false => self.change_look(environment, |read| read.saturating_sub(2)),
                }
            }
            (Kind::Manifest, true) => self.note_committed(),
            (Kind::Epoch, true) => self.note_epoch(),
            (Kind::Manifest, false) => self.note("commit refused", || environment.to_string()),
            (Kind::Pauses | Kind::Epoch, false) | (Kind::Turns, true) | (Kind::Scope, _) => {}
        }
        Ok(())
    }
}
