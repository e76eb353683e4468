//! Messages: as received, as sent, and what may be sent.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::characters::first_disallowed;
use super::error::SqsError;
use super::message_attribute::MessageAttribute;
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

#[cfg(test)]
mod tests {
    use super::super::error::AttributeFault;
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
