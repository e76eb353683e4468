//! Messages as they are received and sent, and the rules for sending one.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::characters::first_disallowed;
use super::error::SqsError;
use super::message_attribute::{MessageAttribute, TRACE_HEADER};
use super::{limits, md5};

/// One delivery of a message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Message {
    /// Id of the message, the same at every delivery and in a dead-letter queue.
    pub message_id: String,
    /// Handle of this delivery, with which the message is deleted or its visibility changed.
    pub receipt_handle: String,
    /// The body.
    pub body: Arc<str>,
    /// MD5 of the body, in lowercase hexadecimal.
    pub md5_of_body: String,
    /// Attributes that the sender set, by name.
    pub message_attributes: Arc<BTreeMap<String, MessageAttribute>>,
    /// MD5 of the attributes; `None` if there are none.
    pub md5_of_message_attributes: Option<String>,
    /// Number of deliveries so far, this one included, and those from the queue of which this one is the dead-letter queue.
    pub receive_count: u32,
    /// Time when the message was sent, epoch ms. A move to a dead-letter queue does not change it.
    pub sent_ms: u64,
    /// Time of the first delivery, epoch ms. A move to a dead-letter queue does not change it.
    pub first_receive_ms: u64,
    /// Account of the sender, always `000000000000`.
    pub sender_id: String,
    /// Message group id, which names the tenant for fair queues. It has no effect on deliveries here.
    pub message_group_id: Option<String>,
    /// X-Ray trace header of the sender (`AWSTraceHeader`), if it sent one.
    pub trace_header: Option<String>,
    /// ARN of the queue that this message was moved from, in a dead-letter queue.
    pub dead_letter_source_arn: Option<String>,
}

impl Message {
    /// Returns the system attributes by their names in the protocol.
    pub(crate) fn system_attributes(&self) -> BTreeMap<&'static str, String> {
        let first_receive_ms = self.first_receive_ms.to_string();
        let mut attributes = BTreeMap::from([
            ("SenderId", self.sender_id.clone()),
            ("SentTimestamp", self.sent_ms.to_string()),
            ("ApproximateReceiveCount", self.receive_count.to_string()),
            ("ApproximateFirstReceiveTimestamp", first_receive_ms),
        ]);
        let optional = [
            ("MessageGroupId", &self.message_group_id),
            (TRACE_HEADER, &self.trace_header),
            ("DeadLetterQueueSourceArn", &self.dead_letter_source_arn),
        ];
        let given = optional.into_iter();
        attributes.extend(given.filter_map(|(name, value)| Some((name, value.clone()?))));
        attributes
    }
}

/// A message to send, not yet checked.
#[derive(Clone, Debug, Default)]
pub(super) struct Outgoing {
    pub(super) body: String,
    pub(super) attributes: BTreeMap<String, MessageAttribute>,
    /// Delay in milliseconds; `None` means the delay of the queue.
    pub(super) delay_ms: Option<u64>,
    pub(super) group_id: Option<String>,
    /// X-Ray trace header, checked already. It does not count towards the limits.
    pub(super) trace_header: Option<String>,
}

/// The part of a message that is the same at every delivery.
#[derive(Clone, Debug)]
pub(super) struct Content {
    pub(super) message_id: String,
    pub(super) body: Arc<str>,
    pub(super) md5_of_body: String,
    pub(super) attributes: Arc<BTreeMap<String, MessageAttribute>>,
    pub(super) md5_of_attributes: Option<String>,
    pub(super) group_id: Option<String>,
    pub(super) trace_header: Option<String>,
    /// Size that counts towards the limits.
    pub(super) bytes: usize,
}

impl Outgoing {
    /// Returns the size that counts towards the limits: that of the body, and of the names, types and values of attributes.
    pub(super) fn bytes(&self) -> usize {
        let attribute = |(name, attribute): (&String, &MessageAttribute)| {
            name.len() + attribute.data_type.len() + attribute.value_bytes().len()
        };
        self.body.len() + self.attributes.iter().map(attribute).sum::<usize>()
    }

    /// Checks the rules that do not depend on the queue, and computes the digests.
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
            let problem = |problem| SqsError::InvalidMessageAttribute {
                name: name.clone(),
                problem,
            };
            attribute.check(name).map_err(problem)?;
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
            trace_header: self.trace_header,
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
    use super::super::error::AttributeProblem;
    use super::*;

    fn checked(body: &str, attributes: &[(&str, MessageAttribute)]) -> Result<Content, SqsError> {
        let attributes = attributes.iter();
        let outgoing = Outgoing {
            body: body.to_owned(),
            attributes: attributes
                .map(|(name, a)| ((*name).to_owned(), a.clone()))
                .collect(),
            ..Outgoing::default()
        };
        outgoing.into_content("id".to_owned())
    }

    fn problem(name: &str, attribute: MessageAttribute) -> Option<AttributeProblem> {
        match checked("body", &[(name, attribute)]) {
            Err(SqsError::InvalidMessageAttribute { problem, .. }) => Some(problem),
            Err(other) => panic!("{other}"),
            Ok(_) => None,
        }
    }

    #[test]
    fn characters_outside_the_xml_set_are_refused_with_their_position() {
        for (body, character, at_byte) in
            [("a\0", 0, 1), ("é\u{1F}", 0x1F, 2), ("\u{FFFF}", 0xFFFF, 0)]
        {
            let expected = SqsError::InvalidMessageContents { character, at_byte };
            assert_eq!(checked(body, &[]).unwrap_err(), expected, "{body:?}");
        }
        for body in [
            "\t\n\r ",
            "\u{7F}\u{D7FF}\u{E000}\u{FFFD}\u{10000}\u{10FFFF}",
        ] {
            assert!(checked(body, &[]).is_ok(), "{body:?}");
        }
    }

    #[test]
    fn names_types_and_values_of_attributes_count_as_size() {
        let content = checked("1234", &[("name", MessageAttribute::string("ab"))]).unwrap();
        let of_attribute = "name".len() + "String".len() + "ab".len();
        assert_eq!(content.bytes, 4 + of_attribute);
    }

    #[test]
    fn attributes_are_checked_by_name_type_and_value() {
        use AttributeProblem::{Characters, DataType, Name, NameReserved, Number, Value};

        let custom = |data_type: &str, text: &str| MessageAttribute {
            data_type: data_type.to_owned(),
            ..MessageAttribute::string(text)
        };
        let string = MessageAttribute::string;
        let long = "n".repeat(257);
        let cases = [
            ("a.b-c_D1", custom("Number.int", "-1.5e3"), None),
            ("é", string("x"), Some(Name)),
            ("a..b", string("x"), Some(Name)),
            (long.as_str(), string("x"), Some(Name)),
            ("AWS.trace", string("x"), Some(NameReserved)),
            ("a", custom("Text", "x"), Some(DataType)),
            ("a", string(""), Some(Value)),
            ("a", custom("Binary", "x"), Some(Value)),
            ("a", string("\u{1}"), Some(Characters)),
            ("a", MessageAttribute::number("nan"), Some(Number)),
        ];
        for (name, attribute, expected) in cases {
            assert_eq!(problem(name, attribute), expected, "{name}");
        }
    }

    #[test]
    fn eleven_attributes_are_refused() {
        let names: Vec<String> = (0..11).map(|n| format!("a{n}")).collect();
        let attribute = |name| (name, MessageAttribute::string("x"));
        let attributes = Vec::from_iter(names.iter().map(String::as_str).map(attribute));
        let too_many = SqsError::TooManyMessageAttributes { count: 11 };
        assert_eq!(checked("b", &attributes).unwrap_err(), too_many);
        assert!(checked("b", &attributes[..10]).is_ok());
    }
}
