//! Message attributes and message groups in the types of the SDK.

use std::collections::HashMap;

use aws_sdk_sqs::primitives::Blob;
use aws_sdk_sqs::types::{Message, MessageAttributeValue, MessageSystemAttributeName};
use shared::message_attributes::{AttributeMap, MESSAGE_GROUP_ID, MessageAttribute};

/// Attributes as the SDK sends them.
#[derive(Debug)]
pub struct SqsAttributes {
    pub message_attributes: Option<HashMap<String, MessageAttributeValue>>,
    /// Standard queues take it too: they share themselves fairly between groups.
    pub message_group_id: Option<String>,
}

/// Returns attributes as the SDK sends them.
pub fn to_sqs(mut attributes: AttributeMap) -> SqsAttributes {
    let group = attributes.remove(MESSAGE_GROUP_ID);
    let value = |attribute: MessageAttribute| {
        MessageAttributeValue::builder()
            .data_type(attribute.data_type)
            .set_string_value(attribute.string_value)
            .set_binary_value(attribute.binary_value.map(Blob::new))
            .build()
            .expect("the type is set above")
    };
    let attributes = attributes.into_iter();
    let attributes: HashMap<_, _> = attributes.map(|(name, one)| (name, value(one))).collect();
    SqsAttributes {
        message_attributes: Some(attributes).filter(|all| !all.is_empty()),
        message_group_id: group.and_then(|group| group.string_value),
    }
}

/// Returns the attributes of a message that was received with all of them and with its `MessageGroupId`.
pub fn from_sqs(message: &Message) -> AttributeMap {
    let attribute = |value: &MessageAttributeValue| MessageAttribute {
        data_type: value.data_type.clone(),
        string_value: value.string_value.clone(),
        binary_value: value.binary_value.clone().map(Blob::into_inner),
    };
    let group = message
        .attributes()
        .and_then(|all| all.get(&MessageSystemAttributeName::MessageGroupId))
        .map(|id| (MESSAGE_GROUP_ID.to_owned(), MessageAttribute::string(id)));
    let attributes = message.message_attributes().into_iter().flatten();
    attributes
        .map(|(name, one)| (name.clone(), attribute(one)))
        .chain(group)
        .collect()
}
