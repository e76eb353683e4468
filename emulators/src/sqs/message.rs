//! Messages: as received, as sent, and what may be sent.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::error::{AttributeFault, SqsError};
use super::{limits, md5};

/// A message as one receive delivers it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Identity of the message, the same at every delivery and in a dead-letter queue.
    pub message_id: String,
    /// Identity of this delivery, to delete the message or to change its visibility.
    pub receipt_handle: String,
    /// Body.
    pub body: Arc<str>,
    /// MD5 of the body, lowercase hexadecimal.
    pub md5_of_body: String,
    /// Attributes the sender gave.
    pub message_attributes: Arc<BTreeMap<String, MessageAttribute>>,
    /// MD5 of the attributes, if there are any.
    pub md5_of_message_attributes: Option<String>,
    /// Deliveries from this queue so far, this one included.
    pub receive_count: u32,
    /// When the message was sent, epoch ms; unchanged in a dead-letter queue.
    pub sent_ms: u64,
    /// When the message was first received from this queue, epoch ms.
    pub first_receive_ms: u64,
    /// Who sent it: always the one account.
    pub sender_id: String,
    /// Tenant for fair queues. It is carried, and changes nothing here.
    pub message_group_id: Option<String>,
}

/// An attribute of a message: a data type and the value that goes with it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MessageAttribute {
    /// `String`, `Number` or `Binary`, with an optional label after a period.
    pub data_type: String,
    /// Value of a `String` or a `Number`.
    pub string_value: Option<String>,
    /// Value of a `Binary`.
    pub binary_value: Option<Vec<u8>>,
}

impl MessageAttribute {
    /// An attribute of type `String`.
    pub fn string(value: impl Into<String>) -> Self {
        Self {
            data_type: "String".to_owned(),
            string_value: Some(value.into()),
            binary_value: None,
        }
    }

    /// An attribute of type `Number`, in decimal notation.
    pub fn number(value: impl Into<String>) -> Self {
        Self {
            data_type: "Number".to_owned(),
            string_value: Some(value.into()),
            binary_value: None,
        }
    }

    /// An attribute of type `Binary`.
    pub fn binary(value: impl Into<Vec<u8>>) -> Self {
        Self {
            data_type: "Binary".to_owned(),
            string_value: None,
            binary_value: Some(value.into()),
        }
    }

    /// The type without its label.
    fn base_type(&self) -> &str {
        self.data_type
            .split_once('.')
            .map_or(&*self.data_type, |(base, _label)| base)
    }

    /// Whether the value is the binary one.
    pub(super) fn is_binary(&self) -> bool {
        self.base_type() == "Binary"
    }

    /// The value, whatever its type; empty if it is missing.
    pub(super) fn value_bytes(&self) -> &[u8] {
        if self.is_binary() {
            self.binary_value.as_deref().unwrap_or_default()
        } else {
            self.string_value.as_deref().unwrap_or_default().as_bytes()
        }
    }

    fn check(&self, name: &str) -> Result<(), AttributeFault> {
        check_name(name)?;
        let typed = matches!(self.base_type(), "String" | "Number" | "Binary");
        if !typed || self.data_type.chars().count() > limits::ATTRIBUTE_NAME_CHARS_MAX {
            return Err(AttributeFault::DataType);
        }
        let other_value_given = if self.is_binary() {
            self.string_value.is_some()
        } else {
            self.binary_value.is_some()
        };
        if self.value_bytes().is_empty() || other_value_given {
            return Err(AttributeFault::Value);
        }
        if let Some(text) = &self.string_value {
            if first_disallowed(text).is_some() {
                return Err(AttributeFault::Characters);
            }
            // `inf` and `nan` parse as numbers in Rust, not in SQS.
            let digits_only = text
                .bytes()
                .all(|byte| matches!(byte, b'0'..=b'9' | b'+' | b'-' | b'.' | b'e' | b'E'));
            if self.base_type() == "Number" && !(digits_only && text.parse::<f64>().is_ok()) {
                return Err(AttributeFault::Number);
            }
        }
        Ok(())
    }
}

/// A message to send, not yet judged.
#[derive(Clone, Debug, Default)]
pub(super) struct Outgoing {
    pub(super) body: String,
    pub(super) attributes: BTreeMap<String, MessageAttribute>,
    /// In milliseconds; none means the queue's.
    pub(super) delay_ms: Option<u64>,
    pub(super) group_id: Option<String>,
}

/// What never changes about a message, shared by its deliveries.
#[derive(Clone, Debug)]
pub(super) struct Content {
    pub(super) message_id: String,
    pub(super) body: Arc<str>,
    pub(super) md5_of_body: String,
    pub(super) attributes: Arc<BTreeMap<String, MessageAttribute>>,
    pub(super) md5_of_attributes: Option<String>,
    pub(super) group_id: Option<String>,
    /// Size that counts against the limits.
    pub(super) bytes: usize,
}

impl Outgoing {
    /// Size that counts against the limits: the body, and the names, types and values of the attributes.
    pub(super) fn bytes(&self) -> usize {
        let attribute = |(name, attribute): (&String, &MessageAttribute)| {
            name.len() + attribute.data_type.len() + attribute.value_bytes().len()
        };
        self.body.len() + self.attributes.iter().map(attribute).sum::<usize>()
    }

    /// Judges all that does not depend on the queue, and computes the digests.
    pub(super) fn into_content(self, message_id: String) -> Result<Content, SqsError> {
        if self.body.is_empty() {
            return Err(SqsError::MissingParameter {
                parameter: "MessageBody",
            });
        }
        if let Some((at_byte, character)) = first_disallowed(&self.body) {
            return Err(SqsError::InvalidMessageContents {
                character: character.into(),
                at_byte,
            });
        }
        if self.attributes.len() > limits::ATTRIBUTES_MAX {
            return Err(SqsError::TooManyMessageAttributes {
                count: self.attributes.len(),
            });
        }
        for (name, attribute) in &self.attributes {
            let fault = |fault| SqsError::InvalidMessageAttribute {
                name: name.clone(),
                fault,
            };
            attribute.check(name).map_err(fault)?;
        }
        check_group_id(self.group_id.as_deref())?;
        Ok(Content {
            message_id,
            bytes: self.bytes(),
            md5_of_body: md5::of_body(&self.body),
            md5_of_attributes: md5::of_attributes(&self.attributes),
            body: self.body.into(),
            attributes: Arc::new(self.attributes),
            group_id: self.group_id,
        })
    }
}

fn check_name(name: &str) -> Result<(), AttributeFault> {
    let allowed = name
        .bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'));
    let sized = (1..=limits::ATTRIBUTE_NAME_CHARS_MAX).contains(&name.len());
    let periods_fit = !name.starts_with('.') && !name.ends_with('.') && !name.contains("..");
    if !(allowed && sized && periods_fit) {
        return Err(AttributeFault::Name);
    }
    let lowered = name.to_ascii_lowercase();
    if lowered.starts_with("aws.") || lowered.starts_with("amazon.") {
        return Err(AttributeFault::NameReserved);
    }
    Ok(())
}

fn check_group_id(group_id: Option<&str>) -> Result<(), SqsError> {
    let Some(id) = group_id else { return Ok(()) };
    let graphic = id.bytes().all(|byte| byte.is_ascii_graphic());
    if graphic && (1..=limits::GROUP_ID_CHARS_MAX).contains(&id.len()) {
        return Ok(());
    }
    Err(SqsError::InvalidParameterValue {
        parameter: "MessageGroupId",
        value: id.to_owned(),
        allowed: "1 to 128 ASCII letters, digits and punctuation",
    })
}

/// The first character outside the set that XML 1.0 allows, with its place in bytes.
///
/// Source: <https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_SendMessage.html>
fn first_disallowed(text: &str) -> Option<(usize, char)> {
    // Almost every body passes this scan of bytes, which has no branches, so that the compiler can take many at once;
    // only a suspect one is decoded. 0xEF leads U+FFFE and U+FFFF.
    let suspect = |byte: u8| {
        ((byte < 0x20) & (byte != b'\t') & (byte != b'\n') & (byte != b'\r')) | (byte == 0xEF)
    };
    if !text.bytes().fold(false, |any, byte| any | suspect(byte)) {
        return None;
    }
    let disallowed = |c: char| match c {
        '\t' | '\n' | '\r' => false,
        '\0'..='\u{1F}' | '\u{FFFE}' | '\u{FFFF}' => true,
        _ => false,
    };
    text.char_indices().find(|&(_, c)| disallowed(c))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(body: &str, attributes: &[(&str, MessageAttribute)]) -> Result<Content, SqsError> {
        let attributes = attributes
            .iter()
            .map(|(name, a)| ((*name).to_owned(), a.clone()))
            .collect();
        Outgoing {
            body: body.to_owned(),
            attributes,
            ..Outgoing::default()
        }
        .into_content("id".to_owned())
    }

    fn fault(name: &str, attribute: MessageAttribute) -> Option<AttributeFault> {
        match judged("body", &[(name, attribute)]) {
            Err(SqsError::InvalidMessageAttribute { fault, .. }) => Some(fault),
            Err(other) => panic!("{other}"),
            Ok(_) => None,
        }
    }

    #[test]
    fn empty_body_is_refused() {
        assert_eq!(
            judged("", &[]).unwrap_err(),
            SqsError::MissingParameter {
                parameter: "MessageBody"
            }
        );
    }

    #[test]
    fn characters_outside_the_xml_set_are_refused_with_their_place() {
        for (body, character, at_byte) in
            [("a\0", 0, 1), ("é\u{1F}", 0x1F, 2), ("\u{FFFF}", 0xFFFF, 0)]
        {
            let error = judged(body, &[]).unwrap_err();
            assert_eq!(
                error,
                SqsError::InvalidMessageContents { character, at_byte },
                "{body:?}"
            );
        }
        for body in [
            "\t\n\r ",
            "\u{7F}\u{D7FF}\u{E000}\u{FFFD}\u{10000}\u{10FFFF}",
        ] {
            assert!(judged(body, &[]).is_ok(), "{body:?}");
        }
    }

    #[test]
    fn names_types_and_values_of_attributes_count_as_size() {
        let content = judged("1234", &[("name", MessageAttribute::string("ab"))]).unwrap();
        assert_eq!(
            content.bytes,
            4 + "name".len() + "String".len() + "ab".len()
        );
    }

    #[test]
    fn attributes_are_judged_by_name_type_and_value() {
        let custom = |data_type: &str, text: &str| MessageAttribute {
            data_type: data_type.to_owned(),
            ..MessageAttribute::string(text)
        };
        assert_eq!(fault("a.b-c_D1", custom("Number.int", "-1.5e3")), None);
        assert_eq!(
            fault("é", MessageAttribute::string("x")),
            Some(AttributeFault::Name)
        );
        assert_eq!(
            fault("a..b", MessageAttribute::string("x")),
            Some(AttributeFault::Name)
        );
        assert_eq!(
            fault(&"n".repeat(257), MessageAttribute::string("x")),
            Some(AttributeFault::Name)
        );
        assert_eq!(
            fault("AWS.trace", MessageAttribute::string("x")),
            Some(AttributeFault::NameReserved)
        );
        assert_eq!(
            fault("a", custom("Text", "x")),
            Some(AttributeFault::DataType)
        );
        assert_eq!(
            fault("a", MessageAttribute::string("")),
            Some(AttributeFault::Value)
        );
        assert_eq!(
            fault("a", custom("Binary", "x")),
            Some(AttributeFault::Value)
        );
        assert_eq!(
            fault("a", MessageAttribute::string("\u{1}")),
            Some(AttributeFault::Characters)
        );
        assert_eq!(
            fault("a", MessageAttribute::number("nan")),
            Some(AttributeFault::Number)
        );
    }

    #[test]
    fn eleven_attributes_are_refused() {
        let names: Vec<String> = (0..11).map(|n| format!("a{n}")).collect();
        let attributes: Vec<_> = names
            .iter()
            .map(|name| (&**name, MessageAttribute::string("x")))
            .collect();
        assert_eq!(
            judged("b", &attributes).unwrap_err(),
            SqsError::TooManyMessageAttributes { count: 11 }
        );
        assert!(judged("b", &attributes[..10]).is_ok());
    }
}
