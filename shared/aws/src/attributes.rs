//! Attribute values of stored items, and a reader that checks every attribute.

use std::collections::HashMap;
use std::fmt::Display;
use std::str::FromStr;
use std::sync::Arc;

use aws_sdk_dynamodb::primitives::Blob;
use aws_sdk_dynamodb::types::AttributeValue;
use protocol::format_version::{self, FORMAT_VERSION_FIELD};
use protocol::seqs::SeqSet;
use protocol::time::Timestamp;
use shared::compression::decompress;
use shared::ports::{Attributes, PortError};

use crate::errors::DYNAMODB;

/// One item, or one map within an item.
pub(crate) type Item = HashMap<String, AttributeValue>;

/// Returns an item with these attributes; those without a value are left out.
pub(crate) fn item_of<'n, V: Into<Option<AttributeValue>>>(
    attributes: impl IntoIterator<Item = (&'n str, V)>,
) -> Item {
    let attribute = |(name, value): (&str, V)| {
        let value: Option<AttributeValue> = value.into();
        Some((name.to_owned(), value?))
    };
    attributes.into_iter().filter_map(attribute).collect()
}

pub(crate) enum StoredBody {
    Inline(Arc<str>),
    InS3(Item),
}

/// Returns a text.
pub(crate) fn s(text: impl Into<String>) -> AttributeValue {
    AttributeValue::S(text.into())
}

/// Returns a number.
pub(crate) fn n(number: impl Display) -> AttributeValue {
    AttributeValue::N(number.to_string())
}

/// Returns bytes.
pub(crate) fn b(bytes: impl Into<Vec<u8>>) -> AttributeValue {
    AttributeValue::B(Blob::new(bytes))
}

/// Returns a time as epoch milliseconds.
pub(crate) fn ms(time: Timestamp) -> AttributeValue {
    n(time.as_ms())
}

/// Returns a time as epoch seconds, the unit of the TTL, rounded up: never earlier than `time`.
pub(crate) fn ttl(time: Timestamp) -> AttributeValue {
    n(time.as_secs_ceil())
}

/// Returns a set of seqs as bytes; `None` when it is empty.
pub(crate) fn seqs_value(seqs: &SeqSet) -> Option<AttributeValue> {
    (!seqs.is_empty()).then(|| b(seqs.to_bytes()))
}

/// Returns values as a list; `None` when there are none.
pub(crate) fn list<T>(
    values: &[T],
    value: impl Fn(&T) -> AttributeValue,
) -> Option<AttributeValue> {
    (!values.is_empty()).then(|| AttributeValue::L(values.iter().map(value).collect()))
}

/// An item in a form that this program does not write.
#[derive(Debug, thiserror::Error)]
#[error("table `{table}`, item {key}, attribute `{attribute}`: {problem}")]
pub(crate) struct MalformedItem {
    table: String,
    /// The key in quotes. An event id has quotes of its own, by which the log leaves it out.
    key: String,
    attribute: String,
    problem: String,
}

impl From<MalformedItem> for PortError {
    fn from(error: MalformedItem) -> PortError {
        PortError::refused(DYNAMODB, error.to_string())
    }
}

/// An item that is being read. Each read removes its attribute.
pub(crate) struct StoredItem<'a> {
    table: &'a str,
    key: String,
    /// Whether the key is an event id.
    of_event: bool,
    item: Item,
}

impl<'a> StoredItem<'a> {
    /// Returns a reader of an item of `table`. Its partition key is named in every error. An item of a later format is
    /// refused.
    pub(crate) fn new(
        table: &'a str,
        key_attribute: &'static str,
        item: Item,
    ) -> Result<Self, MalformedItem> {
        StoredItem::keyed(table, key_attribute, item, false)
    }

    /// Returns a reader of an item whose key is an event id.
    pub(crate) fn of_event(
        table: &'a str,
        key_attribute: &'static str,
        item: Item,
    ) -> Result<Self, MalformedItem> {
        StoredItem::keyed(table, key_attribute, item, true)
    }

    fn keyed(
        table: &'a str,
        key_attribute: &'static str,
        mut item: Item,
        of_event: bool,
    ) -> Result<Self, MalformedItem> {
        let key = item.remove(key_attribute);
        // Without a key, the error shows an empty one, in quotes that the log does not leave out.
        let mut item = StoredItem {
            table,
            key: String::new(),
            of_event: false,
            item,
        };
        let Some(AttributeValue::S(key)) = key else {
            return Err(item.malformed(key_attribute, "missing, or not a string"));
        };
        (item.key, item.of_event) = (key, of_event);
        let version = item.number(FORMAT_VERSION_FIELD)?;
        match format_version::check(version) {
            Ok(()) => Ok(item),
            Err(later) => Err(item.malformed(FORMAT_VERSION_FIELD, later)),
        }
    }

    /// Returns the value of the partition key, whose name is `attribute`.
    pub(crate) fn parsed_key<T>(&self, attribute: &str) -> Result<T, MalformedItem>
    where
        T: FromStr<Err: Display>,
    {
        self.parsed_key_after("", attribute)
    }

    /// Returns what stands in the partition key after `prefix`, if it has that.
    pub(crate) fn parsed_key_after<T>(
        &self,
        prefix: &str,
        attribute: &str,
    ) -> Result<T, MalformedItem>
    where
        T: FromStr<Err: Display>,
    {
        let key = self.key.strip_prefix(prefix).unwrap_or(&self.key);
        let key = key.parse::<T>();
        key.map_err(|error| self.malformed(attribute, error))
    }

    /// Returns a reader of a map within this item. Its errors name the key of the item.
    fn nested(&self, item: Item) -> StoredItem<'a> {
        StoredItem {
            table: self.table,
            key: self.key.clone(),
            of_event: self.of_event,
            item,
        }
    }

    /// Returns an error about an attribute.
    pub(crate) fn malformed(&self, attribute: &str, problem: impl Display) -> MalformedItem {
        MalformedItem {
            table: self.table.to_owned(),
            key: match self.of_event {
                true => format!("‹{}›", self.key),
                false => format!("`{}`", self.key),
            },
            attribute: attribute.to_owned(),
            problem: problem.to_string(),
        }
    }

    /// Returns the attributes that were not read yet.
    pub(crate) fn into_attributes(self) -> Attributes {
        let attribute = |(name, value): (String, AttributeValue)| (name, value.into());
        self.item.into_iter().map(attribute).collect()
    }

    /// Returns whether the item has an attribute that was not read yet.
    pub(crate) fn has(&self, attribute: &str) -> bool {
        self.item.contains_key(attribute)
    }

    /// Reads a string.
    pub(crate) fn string(&mut self, attribute: &str) -> Result<Option<String>, MalformedItem> {
        match self.item.remove(attribute) {
            None => Ok(None),
            Some(AttributeValue::S(text)) => Ok(Some(text)),
            Some(_) => Err(self.malformed(attribute, "wrong type: expected a string")),
        }
    }

    /// Reads a body: a string, compressed bytes, or a map that names an S3 object.
    pub(crate) fn body(&mut self, attribute: &str) -> Result<Option<StoredBody>, MalformedItem> {
        match self.item.remove(attribute) {
            None => Ok(None),
            Some(AttributeValue::S(text)) => Ok(Some(StoredBody::Inline(text.into()))),
            Some(AttributeValue::B(bytes)) => match decompress(bytes.as_ref()) {
                Ok(text) => Ok(Some(StoredBody::Inline(text.into()))),
                Err(error) => Err(self.malformed(attribute, error)),
            },
            Some(AttributeValue::M(fields)) => Ok(Some(StoredBody::InS3(fields))),
            Some(_) => {
                Err(self.malformed(attribute, "wrong type: expected a string, binary or a map"))
            }
        }
    }

    /// Reads a string by [`FromStr`].
    pub(crate) fn parsed<T>(&mut self, attribute: &str) -> Result<Option<T>, MalformedItem>
    where
        T: FromStr<Err: Display>,
    {
        let value = self.string(attribute)?.map(|text| text.parse::<T>());
        let value = value.transpose();
        value.map_err(|error| self.malformed(attribute, error))
    }

    /// Reads a number within the range of `T`.
    pub(crate) fn number<T: FromStr>(
        &mut self,
        attribute: &str,
    ) -> Result<Option<T>, MalformedItem> {
        match self.item.remove(attribute) {
            None => Ok(None),
            Some(AttributeValue::N(number)) => number.parse().map(Some).map_err(|_| {
                let problem = format_args!("not a number in range: got `{number}`");
                self.malformed(attribute, problem)
            }),
            Some(_) => Err(self.malformed(attribute, "wrong type: expected a number")),
        }
    }

    /// Reads a time in epoch milliseconds.
    pub(crate) fn time_ms(&mut self, attribute: &str) -> Result<Option<Timestamp>, MalformedItem> {
        Ok(self.number(attribute)?.map(Timestamp::from_ms))
    }

    /// Reads a time in epoch seconds.
    pub(crate) fn time_secs(
        &mut self,
        attribute: &str,
    ) -> Result<Option<Timestamp>, MalformedItem> {
        let secs: Option<u64> = self.number(attribute)?;
        Ok(secs.map(|secs| Timestamp::from_ms(secs.saturating_mul(1_000))))
    }

    /// Reads bytes.
    pub(crate) fn bytes(&mut self, attribute: &str) -> Result<Option<Vec<u8>>, MalformedItem> {
        match self.item.remove(attribute) {
            None => Ok(None),
            Some(AttributeValue::B(bytes)) => Ok(Some(bytes.into_inner())),
            Some(_) => Err(self.malformed(attribute, "wrong type: expected binary")),
        }
    }

    /// Reads bytes as a `T`.
    pub(crate) fn decoded<T>(&mut self, attribute: &str) -> Result<Option<T>, MalformedItem>
    where
        T: for<'b> TryFrom<&'b [u8], Error: Display>,
    {
        match self.bytes(attribute)? {
            None => Ok(None),
            Some(bytes) => T::try_from(bytes.as_slice())
                .map(Some)
                .map_err(|error| self.malformed(attribute, error)),
        }
    }

    /// Reads a map; empty when the attribute is absent.
    pub(crate) fn map(&mut self, attribute: &str) -> Result<Item, MalformedItem> {
        match self.item.remove(attribute) {
            None => Ok(Item::default()),
            Some(AttributeValue::M(map)) => Ok(map),
            Some(_) => Err(self.malformed(attribute, "wrong type: expected a map")),
        }
    }

    /// Reads a list of maps, each with `read`; empty when the attribute is absent.
    pub(crate) fn list<T>(
        &mut self,
        attribute: &str,
        read: impl Fn(StoredItem<'a>) -> Result<T, MalformedItem>,
    ) -> Result<Vec<T>, MalformedItem> {
        let values = match self.item.remove(attribute) {
            None => return Ok(Vec::new()),
            Some(AttributeValue::L(values)) => values,
            Some(_) => return Err(self.malformed(attribute, "wrong type: expected a list")),
        };
        let element = |value| match value {
            AttributeValue::M(map) => read(self.nested(map)),
            _ => Err(self.malformed(attribute, "wrong type: expected a list of maps")),
        };
        values.into_iter().map(element).collect()
    }
}

/// Reads an attribute that every item has.
pub(crate) fn required<'a, T>(
    item: &mut StoredItem<'a>,
    attribute: &str,
    read: impl FnOnce(&mut StoredItem<'a>, &str) -> Result<Option<T>, MalformedItem>,
) -> Result<T, MalformedItem> {
    let value = read(item, attribute)?;
    value.ok_or_else(|| item.malformed(attribute, "missing"))
}
