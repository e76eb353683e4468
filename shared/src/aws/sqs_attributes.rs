//! Message attributes in the types of the SDK.

use std::collections::HashMap;

use aws_sdk_sqs::primitives::Blob;
use aws_sdk_sqs::types::MessageAttributeValue;

use crate::message_attributes::{AttributeMap, MessageAttribute};

/// Returns attributes as the SDK sends them.
pub fn to_sqs(attributes: AttributeMap) -> HashMap<String, MessageAttributeValue> {
    let value = |attribute: MessageAttribute| {
        MessageAttributeValue::builder()
            .data_type(attribute.data_type)
            .set_string_value(attribute.string_value)
            .set_binary_value(attribute.binary_value.map(Blob::new))
            .build()
            .expect("the type is set above")
    };
    let attributes = attributes.into_iter();
    attributes.map(|(name, one)| (name, value(one))).collect()
}

/// Returns attributes that the SDK received.
pub fn from_sqs(attributes: HashMap<String, MessageAttributeValue>) -> AttributeMap {
    let attribute = |value: MessageAttributeValue| MessageAttribute {
        data_type: value.data_type,
        string_value: value.string_value,
        binary_value: value.binary_value.map(Blob::into_inner),
    };
    let attributes = attributes.into_iter();
    attributes
        .map(|(name, one)| (name, attribute(one)))
        .collect()
}
