//! Items of the batch table that have a name where others have a batch id, which is a UUID: pauses, turns, sequences, scope items and the
//! manifest.
//!
//! Each item has a version, and a write replaces only the version that was read. A field that this program does not know is kept.
//! The items have no `statusShard`, so they are not in `status-index`, but for those with [answers](BatchAnswers).

use std::collections::HashMap;

use protocol::answer::{BatchAnswers, FoundAnswer, NamedParts};
use protocol::ids::{BatchId, BodyHash};
use protocol::limits::DYNAMODB_KEY_BYTES_MAX;
use protocol::log::{IndexEpoch, Manifest};
use protocol::pause::Pauses;
use protocol::scope::{BatchScope, ScopeItem};
use protocol::sequence::{Sequence, SequenceScope};
use protocol::time::Timestamp;
use protocol::turns::Turns;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_dynamo::{AttributeValue, Deserializer};
use uuid::Uuid;

use crate::ports::{Attributes, Change, Document, NamedItems, PortError};

/// When DynamoDB may remove an item: the TTL attribute of the batch table.
const EXPIRES_AT: &str = "expiresAt";

/// What the names of items with answers begin with. The id of the batch follows.
pub const ANSWERS: &str = "answers#";

/// A value that the batch table has under a name. Its default is the value of an item that was never written.
pub trait NamedItem: Default + Serialize + DeserializeOwned {
    /// The subject of an item: each has its own item.
    type Scope: Sync + ?Sized;

    /// Returns the partition key of the item.
    fn name(scope: &Self::Scope) -> String;

    /// Returns when DynamoDB may remove the item with this value; `None` if never.
    fn expires_at(&self, _: &Self::Scope) -> Option<Timestamp> {
        None
    }
}

/// A value as it was read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Versioned<T> {
    pub value: T,
    /// How often the item was written.
    pub version: u64,
}

impl dyn NamedItems + '_ {
    /// Reads a value with strong consistency.
    ///
    /// # Errors
    /// An item that this program cannot read is [`PortError::Refused`], with its name and attribute.
    pub async fn get<T: NamedItem>(&self, scope: &T::Scope) -> Result<Versioned<T>, PortError> {
        let name = T::name(scope);
        let document = self.read(&name).await?;
        versioned(&name, document)
    }

    /// Writes `to` in place of `from`. Returns `false` if the item was written since `from` was read. After a lost reply, the write
    /// may have been applied; sent again, it is refused.
    pub async fn replace<T: NamedItem>(
        &self,
        scope: &T::Scope,
        from: &Versioned<T>,
        to: &T,
    ) -> Result<bool, PortError> {
        let mut set = encode(to);
        let former = encode(&from.value).into_keys();
        let remove = former.filter(|name| !set.contains_key(name)).collect();
        if let Some(at) = to.expires_at(scope) {
            let secs = at.as_secs_ceil().to_string();
            set.insert(EXPIRES_AT.to_owned(), AttributeValue::N(secs));
        }
        let change = Change { set, remove };
        self.write(&T::name(scope), from.version, &change).await
    }
}

fn encode<T: NamedItem>(value: &T) -> Attributes {
    let item: HashMap<String, AttributeValue> =
        serde_dynamo::to_item(value).expect("the value is a struct of plain values");
    item.into_iter().collect()
}

/// Returns the value of the item `name`.
///
/// # Errors
/// An item that this program cannot read is [`PortError::Refused`], with its name and attribute.
pub fn versioned<T: NamedItem>(name: &str, item: Document) -> Result<Versioned<T>, PortError> {
    // An item that was made by hand may have the version 0 as well.
    let value = match item == Document::default() {
        true => T::default(),
        false => {
            let map = AttributeValue::M(item.attributes.into_iter().collect());
            let map = Deserializer::from_attribute_value(map);
            serde_path_to_error::deserialize(map).map_err(|error| {
                let (path, problem) = (error.path(), error.inner());
                let message = format!("item `{name}`, attribute `{path}`: {problem}");
                PortError::refused("DynamoDB", message)
            })?
        }
    };
    Ok(Versioned {
        value,
        version: item.version,
    })
}

impl NamedItem for Pauses {
    type Scope = ();

    fn name((): &()) -> String {
        "pauses".to_owned()
    }
}

impl NamedItem for Turns {
    type Scope = ();

    fn name((): &()) -> String {
        "turns".to_owned()
    }
}

impl NamedItem for Sequence {
    type Scope = SequenceScope;

    /// Returns `sequence/<source>` or `sequence/<source>/<batch key>`. The ARN of a queue has no slash. If the name would be too long,
    /// a hash stands for the batch key.
    fn name(scope: &SequenceScope) -> String {
        let source = scope.source.as_str();
        let Some(batch_key) = &scope.batch_key else {
            return format!("sequence/{source}");
        };
        let name = format!("sequence/{source}/{}", batch_key.as_str());
        match name.len() <= DYNAMODB_KEY_BYTES_MAX {
            true => name,
            false => format!(
                "sequence/{source}/{}",
                BodyHash::of(batch_key.as_str().as_bytes())
            ),
        }
    }
}

impl NamedItem for ScopeItem {
    type Scope = BatchScope;

    /// Returns `scope#<hash>`. A hash, because source and batch key may be longer than a key of the table.
    fn name(scope: &BatchScope) -> String {
        let scope = serde_json::to_vec(scope).expect("a scope is texts and numbers");
        format!("scope#{}", BodyHash::of(&scope))
    }

    fn expires_at(&self, _: &BatchScope) -> Option<Timestamp> {
        self.expires_at()
    }
}

impl NamedItem for BatchAnswers {
    type Scope = BatchId;

    fn name(batch: &BatchId) -> String {
        format!("{ANSWERS}{batch}")
    }

    fn expires_at(&self, _: &BatchId) -> Option<Timestamp> {
        Some(BatchAnswers::expires_at(self))
    }
}

impl NamedItem for FoundAnswer {
    /// Its name, and a text that is another if its content is.
    type Scope = (String, String);

    /// Returns `answer/<hash>`. A hash, because the name may be long.
    fn name(answer: &(String, String)) -> String {
        let answer = serde_json::to_vec(answer).expect("texts are JSON");
        format!("answer/{}", BodyHash::of(&answer))
    }

    fn expires_at(&self, _: &(String, String)) -> Option<Timestamp> {
        Some(FoundAnswer::expires_at(*self))
    }
}

impl NamedItem for NamedParts {
    /// What the names of the files begin with.
    type Scope = str;

    /// Returns `file/<hash>`.
    fn name(stem: &str) -> String {
        format!("file/{}", BodyHash::of(stem.as_bytes()))
    }

    fn expires_at(&self, _: &str) -> Option<Timestamp> {
        Some(NamedParts::expires_at(self))
    }
}

impl NamedItem for IndexEpoch {
    type Scope = ();

    fn name((): &()) -> String {
        "dedup#epoch".to_owned()
    }
}

impl NamedItem for Manifest {
    /// The epoch.
    type Scope = Uuid;

    fn name(epoch: &Uuid) -> String {
        format!("dedup#{epoch}")
    }
}
