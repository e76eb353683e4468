//! Stored items: values as they are sent and as they come, and reading them with a check at every attribute.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt::{self, Display};
use std::io::Write as _;
use std::str::FromStr;
use std::sync::Arc;

use aws_sdk_dynamodb::primitives::Blob;
use aws_sdk_dynamodb::types::AttributeValue;
use base64::Engine as _;
use base64::display::Base64Display;
use base64::prelude::BASE64_STANDARD as STANDARD;
use protocol::ids::BatchShard;
use protocol::time::Timestamp;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::errors::DYNAMODB;
use crate::compression::decompress;
use crate::json::push_text;
use crate::ports::PortError;

/// One item, or one map within an item, as the SDK has it.
pub(super) type SdkItem = HashMap<String, AttributeValue>;

/// One attribute's value in DynamoDB's JSON, of which texts without escapes are borrowed.
/// Source: <https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_AttributeValue.html> (2026-08).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) enum Value<'a> {
    S(#[serde(borrow)] Cow<'a, str>),
    N(#[serde(borrow)] Cow<'a, str>),
    B(Bytes),
    #[serde(rename = "BS")]
    Bs(Vec<Bytes>),
    M(#[serde(borrow)] Item<'a>),
    L(#[serde(borrow)] Vec<Value<'a>>),
    #[serde(rename = "SS")]
    Ss(Vec<String>),
    #[serde(rename = "NS")]
    Ns(Vec<String>),
    #[serde(rename = "BOOL")]
    Bool(bool),
    #[serde(rename = "NULL")]
    Null(bool),
}

/// Bytes, base64 in JSON.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Bytes(Vec<u8>);

/// One item, or one map within an item. It has a handful of attributes, so looking one up is looking through them.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Item<'a>(Vec<(Cow<'a, str>, Value<'a>)>);

/// A value that is sent: borrowed, or so small that it is copied; a map has a list of such.
pub(super) enum Sent<'a> {
    Text(&'a str),
    Shard(BatchShard),
    Number(u64),
    Bytes(&'a [u8]),
    Map(Vec<(&'a str, Sent<'a>)>),
}

/// What an item says of a body.
pub(super) enum StoredBody<'a> {
    Here(Arc<str>),
    Elsewhere(Item<'a>),
}

/// A text, borrowed where it can be: a `Cow` alone never is.
#[derive(Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

impl<'a> Item<'a> {
    fn take(&mut self, name: &str) -> Option<Value<'a>> {
        let index = self.0.iter().position(|(other, _)| other == name)?;
        Some(self.0.swap_remove(index).1)
    }

    fn has(&self, name: &str) -> bool {
        self.0.iter().any(|(other, _)| other == name)
    }
}

impl<'a> IntoIterator for Item<'a> {
    type Item = (Cow<'a, str>, Value<'a>);
    type IntoIter = std::vec::IntoIter<(Cow<'a, str>, Value<'a>)>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl<'a> FromIterator<(Cow<'a, str>, Value<'a>)> for Item<'a> {
    fn from_iter<T: IntoIterator<Item = (Cow<'a, str>, Value<'a>)>>(attributes: T) -> Item<'a> {
        Item(attributes.into_iter().collect())
    }
}

impl Serialize for Item<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, value)| (name, value)))
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Item<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Item<'a>, D::Error> {
        struct Attributes;

        impl<'de> Visitor<'de> for Attributes {
            type Value = Item<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an item")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Item<'de>, A::Error> {
                let mut attributes = Vec::with_capacity(10);
                while let Some((Text(name), value)) = map.next_entry()? {
                    attributes.push((name, value));
                }
                Ok(Item(attributes))
            }
        }

        deserializer.deserialize_map(Attributes)
    }
}

impl Sent<'_> {
    /// Writes the value as JSON.
    pub(super) fn push_to(&self, to: &mut Vec<u8>) {
        match self {
            Sent::Text(text) => {
                to.extend_from_slice(b"{\"S\":");
                push_text(to, text);
                to.push(b'}');
            }
            Sent::Shard(shard) => push_plain(to, "S", shard),
            Sent::Number(number) => {
                to.extend_from_slice(b"{\"N\":\"");
                to.extend_from_slice(itoa::Buffer::new().format(*number).as_bytes());
                to.extend_from_slice(b"\"}");
            }
            Sent::Bytes(bytes) => push_plain(to, "B", Base64Display::new(bytes, &STANDARD)),
            Sent::Map(fields) => {
                to.extend_from_slice(b"{\"M\":{");
                for (index, (name, value)) in fields.iter().enumerate() {
                    if index > 0 {
                        to.push(b',');
                    }
                    push_text(to, name);
                    to.push(b':');
                    value.push_to(to);
                }
                to.extend_from_slice(b"}}");
            }
        }
    }
}

/// Writes what needs no escapes, with its kind.
fn push_plain(to: &mut Vec<u8>, kind: &str, text: impl Display) {
    // Into memory: it cannot fail.
    let _ = write!(to, "{{\"{kind}\":\"{text}\"}}");
}

impl Serialize for Bytes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&Base64Display::new(&self.0, &STANDARD))
    }
}

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Bytes, D::Error> {
        let Text(text) = Text::deserialize(deserializer)?;
        STANDARD
            .decode(text.as_bytes())
            .map(Bytes)
            .map_err(serde::de::Error::custom)
    }
}

impl From<Sent<'_>> for AttributeValue {
    fn from(value: Sent<'_>) -> AttributeValue {
        match value {
            Sent::Text(text) => s(text),
            Sent::Shard(shard) => s(shard.to_string()),
            Sent::Number(number) => n(number),
            Sent::Bytes(bytes) => b(bytes),
            Sent::Map(fields) => AttributeValue::M(
                fields
                    .into_iter()
                    .map(|(name, value)| (name.to_owned(), value.into()))
                    .collect(),
            ),
        }
    }
}

impl From<AttributeValue> for Value<'static> {
    fn from(value: AttributeValue) -> Value<'static> {
        match value {
            AttributeValue::S(text) => Value::S(text.into()),
            AttributeValue::N(number) => Value::N(number.into()),
            AttributeValue::B(blob) => Value::B(Bytes(blob.into_inner())),
            AttributeValue::Bs(blobs) => Value::Bs(
                blobs
                    .into_iter()
                    .map(|blob| Bytes(blob.into_inner()))
                    .collect(),
            ),
            AttributeValue::M(map) => Value::M(map.into()),
            AttributeValue::L(values) => Value::L(values.into_iter().map(Value::from).collect()),
            AttributeValue::Ss(texts) => Value::Ss(texts),
            AttributeValue::Ns(numbers) => Value::Ns(numbers),
            AttributeValue::Bool(truth) => Value::Bool(truth),
            // Whatever the SDK may add is none of the kinds that are read here.
            _ => Value::Null(true),
        }
    }
}

impl From<SdkItem> for Item<'static> {
    fn from(item: SdkItem) -> Item<'static> {
        item.into_iter()
            .map(|(name, value)| (name.into(), value.into()))
            .collect()
    }
}

impl<'a> Value<'a> {
    /// A text.
    pub(super) fn text(text: impl Into<Cow<'a, str>>) -> Value<'a> {
        Value::S(text.into())
    }

    /// A number.
    pub(super) fn number(number: impl Display) -> Value<'a> {
        Value::N(number.to_string().into())
    }
}

/// A text, for the SDK.
pub(super) fn s(text: impl Into<String>) -> AttributeValue {
    AttributeValue::S(text.into())
}

/// A number, for the SDK.
pub(super) fn n(number: impl Display) -> AttributeValue {
    AttributeValue::N(number.to_string())
}

/// Bytes, for the SDK.
pub(super) fn b(bytes: impl Into<Vec<u8>>) -> AttributeValue {
    AttributeValue::B(Blob::new(bytes))
}

/// A point in time, as epoch milliseconds, for the SDK.
pub(super) fn ms(time: Timestamp) -> AttributeValue {
    n(time.as_ms())
}

/// A point in time as the table's TTL wants it: epoch seconds, never earlier than `time`.
pub(super) fn ttl(time: Timestamp) -> AttributeValue {
    n(time.as_secs_ceil())
}

/// An item that this program did not write.
#[derive(Debug, thiserror::Error)]
#[error("table `{table}`: item `{key}` is malformed: attribute `{attribute}` {problem}")]
pub(super) struct MalformedItem {
    table: String,
    key: String,
    attribute: String,
    problem: String,
}

impl From<MalformedItem> for PortError {
    fn from(error: MalformedItem) -> PortError {
        PortError::Refused {
            service: DYNAMODB,
            message: error.to_string(),
        }
    }
}

/// An item that is being read: attributes are taken out of it one by one.
pub(super) struct StoredItem<'a> {
    table: &'a str,
    key: Cow<'a, str>,
    item: Item<'a>,
}

impl<'a> StoredItem<'a> {
    /// An item of `table`; its partition key, a text, is taken and named in every error.
    pub(super) fn new(
        table: &'a str,
        key_attribute: &'static str,
        mut item: Item<'a>,
    ) -> Result<Self, MalformedItem> {
        match item.take(key_attribute) {
            Some(Value::S(key)) => Ok(StoredItem { table, key, item }),
            Some(_) | None => Err(MalformedItem {
                table: table.to_owned(),
                key: String::new(),
                attribute: key_attribute.to_owned(),
                problem: "is missing or not a text".to_owned(),
            }),
        }
    }

    /// The partition key.
    pub(super) fn key(&self) -> &str {
        &self.key
    }

    /// A map within this item; its errors name the same key.
    pub(super) fn nested(&self, item: Item<'a>) -> StoredItem<'a> {
        StoredItem {
            table: self.table,
            key: self.key.clone(),
            item,
        }
    }

    /// An error about one of its attributes.
    pub(super) fn malformed(&self, attribute: &str, problem: impl Display) -> MalformedItem {
        MalformedItem {
            table: self.table.to_owned(),
            key: self.key.to_string(),
            attribute: attribute.to_owned(),
            problem: problem.to_string(),
        }
    }

    /// Whether it has an attribute (not yet taken).
    pub(super) fn has(&self, attribute: &str) -> bool {
        self.item.has(attribute)
    }

    /// Takes an attribute that must be there.
    pub(super) fn required<T>(
        &self,
        attribute: &str,
        value: Option<T>,
    ) -> Result<T, MalformedItem> {
        value.ok_or_else(|| self.malformed(attribute, "is missing"))
    }

    /// A text, or what is made of one.
    pub(super) fn text<T>(&mut self, attribute: &str) -> Result<Option<T>, MalformedItem>
    where
        T: for<'t> TryFrom<&'t str, Error: Display>,
    {
        match self.item.take(attribute) {
            None => Ok(None),
            Some(Value::S(text)) => T::try_from(&text)
                .map(Some)
                .map_err(|error| self.malformed(attribute, error)),
            Some(_) => Err(self.malformed(attribute, "is not a text")),
        }
    }

    /// A text as it is.
    pub(super) fn string(
        &mut self,
        attribute: &str,
    ) -> Result<Option<Cow<'a, str>>, MalformedItem> {
        match self.item.take(attribute) {
            None => Ok(None),
            Some(Value::S(text)) => Ok(Some(text)),
            Some(_) => Err(self.malformed(attribute, "is not a text")),
        }
    }

    /// A text, which may be compressed, or a map that says where it is.
    pub(super) fn body(
        &mut self,
        attribute: &str,
    ) -> Result<Option<StoredBody<'a>>, MalformedItem> {
        match self.item.take(attribute) {
            None => Ok(None),
            Some(Value::S(text)) => Ok(Some(StoredBody::Here(text.into()))),
            Some(Value::B(Bytes(bytes))) => match decompress(&bytes) {
                Ok(text) => Ok(Some(StoredBody::Here(text.into()))),
                Err(error) => Err(self.malformed(attribute, error)),
            },
            Some(Value::M(fields)) => Ok(Some(StoredBody::Elsewhere(fields))),
            Some(_) => Err(self.malformed(attribute, "is not a text, nor bytes, nor a map")),
        }
    }

    /// A text that is read by [`FromStr`].
    pub(super) fn parsed<T>(&mut self, attribute: &str) -> Result<Option<T>, MalformedItem>
    where
        T: FromStr<Err: Display>,
    {
        match self.string(attribute)? {
            None => Ok(None),
            Some(text) => text
                .parse()
                .map(Some)
                .map_err(|error| self.malformed(attribute, error)),
        }
    }

    /// A number within what `T` holds.
    pub(super) fn number<T: FromStr>(
        &mut self,
        attribute: &str,
    ) -> Result<Option<T>, MalformedItem> {
        match self.item.take(attribute) {
            None => Ok(None),
            Some(Value::N(number)) => match number.parse() {
                Ok(number) => Ok(Some(number)),
                Err(_) => Err(self.malformed(
                    attribute,
                    format_args!("is `{number}`, which is out of range"),
                )),
            },
            Some(_) => Err(self.malformed(attribute, "is not a number")),
        }
    }

    /// A point in time, in epoch milliseconds.
    pub(super) fn time_ms(&mut self, attribute: &str) -> Result<Option<Timestamp>, MalformedItem> {
        Ok(self.number(attribute)?.map(Timestamp::from_ms))
    }

    /// A point in time, in epoch seconds.
    pub(super) fn time_secs(
        &mut self,
        attribute: &str,
    ) -> Result<Option<Timestamp>, MalformedItem> {
        Ok(self
            .number::<u64>(attribute)?
            .map(|secs| Timestamp::from_ms(secs.saturating_mul(1_000))))
    }

    /// Bytes.
    pub(super) fn bytes(&mut self, attribute: &str) -> Result<Option<Vec<u8>>, MalformedItem> {
        match self.item.take(attribute) {
            None => Ok(None),
            Some(Value::B(Bytes(bytes))) => Ok(Some(bytes)),
            Some(_) => Err(self.malformed(attribute, "is not binary")),
        }
    }

    /// A map; empty when the attribute is absent.
    pub(super) fn map(&mut self, attribute: &str) -> Result<Item<'a>, MalformedItem> {
        match self.item.take(attribute) {
            None => Ok(Item::default()),
            Some(Value::M(map)) => Ok(map),
            Some(_) => Err(self.malformed(attribute, "is not a map")),
        }
    }

    /// A list of maps; empty when the attribute is absent.
    pub(super) fn maps(&mut self, attribute: &str) -> Result<Vec<Item<'a>>, MalformedItem> {
        let values = match self.item.take(attribute) {
            None => return Ok(Vec::new()),
            Some(Value::L(values)) => values,
            Some(_) => return Err(self.malformed(attribute, "is not a list")),
        };
        let map = |value| match value {
            Value::M(map) => Ok(map),
            _ => Err(self.malformed(attribute, "is not a list of maps")),
        };
        values.into_iter().map(map).collect()
    }
}
