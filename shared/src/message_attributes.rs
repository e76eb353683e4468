//! The message attributes that a producer set, as they are stored and delivered.
//!
//! They are one JSON text in the form that events of Lambda have: `{"name":{"dataType":"String","stringValue":"text"}}`. An
//! event without attributes has no such text.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize, Serializer};
use serde_json::value::RawValue;

/// The name under which the `MessageGroupId` of a message is among its attributes, if it has one. SQS takes no attribute of a
/// producer whose name begins with `AWS.`. Source:
/// <https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-message-metadata.html>.
pub const MESSAGE_GROUP_ID: &str = "AWS.MessageGroupId";

/// Attributes by name.
pub type AttributeMap = BTreeMap<String, MessageAttribute>;

/// The type and the value of an attribute.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", from = "Stored")]
pub struct MessageAttribute {
    /// `String`, `Number` or `Binary`, perhaps with a label after a period.
    pub data_type: String,
    /// The value, unless it is binary.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub string_value: Option<String>,
    /// A binary value; Base64 in JSON.
    #[serde(
        skip_serializing_if = "Option::is_none",
        serialize_with = "base64_text::serialize"
    )]
    pub binary_value: Option<Vec<u8>>,
}

/// An attribute as JSON. A direct invocation may leave the type out.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Stored {
    data_type: Option<String>,
    string_value: Option<String>,
    #[serde(default, deserialize_with = "base64_text::deserialize")]
    binary_value: Option<Vec<u8>>,
}

impl From<Stored> for MessageAttribute {
    fn from(stored: Stored) -> MessageAttribute {
        MessageAttribute::new(stored.data_type, stored.string_value, stored.binary_value)
    }
}

impl MessageAttribute {
    /// Returns an attribute. Without a type, the value says which one it has.
    pub fn new(
        data_type: Option<String>,
        string_value: Option<String>,
        binary_value: Option<Vec<u8>>,
    ) -> MessageAttribute {
        let by_value = || match binary_value {
            Some(_) => "Binary".to_owned(),
            None => "String".to_owned(),
        };
        MessageAttribute {
            data_type: data_type.unwrap_or_else(by_value),
            string_value,
            binary_value,
        }
    }

    /// Returns an attribute of the type `String`.
    pub fn string(text: impl Into<String>) -> MessageAttribute {
        MessageAttribute::new(None, Some(text.into()), None)
    }

    /// Returns the value as a text: a binary one in Base64.
    pub fn text(&self) -> Cow<'_, str> {
        match (&self.string_value, &self.binary_value) {
            (Some(text), _) => Cow::Borrowed(text),
            (None, Some(bytes)) => Cow::Owned(base64_text::encoded(bytes)),
            (None, None) => Cow::Borrowed(""),
        }
    }

    /// Returns whether there is a value. SQS takes no attribute without one.
    fn has_value(&self) -> bool {
        let text = self.string_value.as_ref();
        let binary = self.binary_value.as_ref();
        text.is_some_and(|text| !text.is_empty()) || binary.is_some_and(|bytes| !bytes.is_empty())
    }

    /// Returns how many bytes of a message the attribute takes, as SQS counts them.
    pub fn message_bytes(&self, name: &str) -> usize {
        let text = self.string_value.as_ref().map_or(0, String::len);
        let binary = self.binary_value.as_ref().map_or(0, Vec::len);
        name.len() + self.data_type.len() + text + binary
    }
}

/// The attributes of one event as JSON; at least one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MessageAttributes(Arc<str>);

impl MessageAttributes {
    /// Returns the attributes that have a value; `None` if there are none.
    pub fn of(mut all: AttributeMap) -> Option<MessageAttributes> {
        all.retain(|_, attribute| attribute.has_value());
        let text = || serde_json::to_string(&all).expect("texts can be written as JSON");
        (!all.is_empty()).then(|| MessageAttributes(text().into()))
    }

    /// Reads attributes as they are stored; `None` if there are none. Fields that SQS does not use, which versions up to 0.2.0 wrote,
    /// are left out.
    ///
    /// # Errors
    /// The text is not the JSON of attributes. The error may quote it.
    pub fn read(text: &str) -> Result<Option<MessageAttributes>, serde_json::Error> {
        serde_json::from_str(text).map(MessageAttributes::of)
    }

    /// Returns the JSON. The same attributes have the same text every time.
    pub fn as_text(&self) -> &Arc<str> {
        &self.0
    }

    /// Returns the attributes by name.
    pub fn to_map(&self) -> AttributeMap {
        serde_json::from_str(&self.0).expect("the text was written from such a map")
    }
}

impl Serialize for MessageAttributes {
    /// Writes the object itself, not a text with JSON in it.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let json: &RawValue = serde_json::from_str(&self.0).expect("the text is JSON");
        json.serialize(serializer)
    }
}

mod base64_text {
    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(super) fn encoded(bytes: &[u8]) -> String {
        STANDARD.encode(bytes)
    }

    pub(super) fn serialize<S: Serializer>(
        bytes: &Option<Vec<u8>>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        bytes.as_deref().map(encoded).serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Vec<u8>>, D::Error> {
        let text: Option<String> = Option::deserialize(deserializer)?;
        let bytes = text.map(|text| STANDARD.decode(text));
        bytes.transpose().map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_of_every_type_read_back_as_they_were_written() {
        let binary = MessageAttribute {
            data_type: "Binary.jpg".to_owned(),
            string_value: None,
            binary_value: Some(vec![0, 159, 146, 150]),
        };
        let number = MessageAttribute {
            data_type: "Number".to_owned(),
            ..MessageAttribute::string("1.50")
        };
        let all = AttributeMap::from([
            ("text".to_owned(), MessageAttribute::string("a \"b\" é")),
            ("number".to_owned(), number),
            ("binary".to_owned(), binary),
        ]);
        let stored = MessageAttributes::of(all.clone()).unwrap();
        let json = concat!(
            r#"{"binary":{"dataType":"Binary.jpg","binaryValue":"AJ+Slg=="},"#,
            r#""number":{"dataType":"Number","stringValue":"1.50"},"#,
            r#""text":{"dataType":"String","stringValue":"a \"b\" é"}}"#
        );
        assert_eq!(&**stored.as_text(), json);
        assert_eq!(serde_json::to_string(&stored).unwrap(), json);
        assert_eq!(MessageAttributes::read(json).unwrap(), Some(stored.clone()));
        assert_eq!(stored.to_map(), all);
        let texts: Vec<_> = all.values().map(MessageAttribute::text).collect();
        assert_eq!(texts, ["AJ+Slg==", "1.50", "a \"b\" é"]);
        let bytes = all["binary"].message_bytes("binary");
        assert_eq!(bytes, "binary".len() + "Binary.jpg".len() + 4);
    }

    #[test]
    fn what_version_0_2_0_stored_reads_as_the_same_attributes() {
        let former = r#"{"n":{"stringValue":"v","binaryValue":null,"stringListValues":[],"binaryListValues":[],"dataType":"String"}}"#;
        let read = MessageAttributes::read(former).unwrap().unwrap();
        let all = AttributeMap::from([("n".to_owned(), MessageAttribute::string("v"))]);
        assert_eq!(Some(read), MessageAttributes::of(all));
        for none in [
            "{}",
            r#"{"n":{}}"#,
            r#"{"n":{"dataType":null,"stringValue":""}}"#,
        ] {
            assert_eq!(MessageAttributes::read(none).unwrap(), None, "{none}");
        }
        for wrong in [
            "",
            "[]",
            r#"{"n":"v"}"#,
            r#"{"n":{"dataType":"Binary","binaryValue":"?"}}"#,
        ] {
            assert!(MessageAttributes::read(wrong).is_err(), "{wrong}");
        }
    }
}
