//! The attributes of received messages: a receive names those it wants, of the sender's and of the system's.

use std::collections::BTreeMap;

use super::error::SqsError;
use super::message::Message;
use super::message_attribute::TRACE_HEADER;
use super::{md5, wire};

/// Returns a message with the requested attributes only.
pub(super) fn received(
    message: Message,
    shown: &SystemAttributes,
    names: &[String],
) -> wire::ReceivedMessage {
    let is_shown = |name: &str| names.iter().any(|one| attribute_name_matches(one, name));
    let chosen = || {
        let attributes = message.message_attributes.iter();
        attributes.filter(|(name, _)| is_shown(name))
    };
    let are_all = chosen().count() == message.message_attributes.len();
    let attribute =
        |(name, attribute): (&String, _)| (name.clone(), wire::Attribute::from_domain(attribute));
    wire::ReceivedMessage {
        attributes: shown.select(&message),
        // The digest covers the returned attributes, because SDKs compute theirs from these.
        md5_of_message_attributes: if are_all {
            message.md5_of_message_attributes.clone()
        } else {
            md5::of_attributes(chosen())
        },
        message_attributes: chosen().map(attribute).collect(),
        message_id: message.message_id,
        receipt_handle: message.receipt_handle,
        md5_of_body: message.md5_of_body,
        body: message.body,
    }
}

/// Returns whether a pattern selects an attribute name. A pattern is `All`, `*`, `.*`, a name, or a prefix followed by `.*`.
fn attribute_name_matches(pattern: &str, name: &str) -> bool {
    match pattern.strip_suffix(".*") {
        Some(prefix) => name.starts_with(prefix),
        None => matches!(pattern, "All" | "*") || pattern == name,
    }
}

/// The system attributes that a receive requests.
pub(super) struct SystemAttributes(Vec<String>);

impl SystemAttributes {
    /// Checks the names.
    ///
    /// # Errors
    /// `InvalidAttributeName` for one that SQS does not have.
    pub(super) fn requested(names: Vec<String>) -> Result<Self, SqsError> {
        const KNOWN: [&str; 10] = [
            "All",
            "SenderId",
            "SentTimestamp",
            "ApproximateReceiveCount",
            "ApproximateFirstReceiveTimestamp",
            "MessageGroupId",
            TRACE_HEADER,
            "DeadLetterQueueSourceArn",
            // SQS knows these; messages here never have them.
            "SequenceNumber",
            "MessageDeduplicationId",
        ];
        match names.iter().find(|name| !KNOWN.contains(&name.as_str())) {
            Some(unknown) => Err(SqsError::InvalidAttributeName {
                name: unknown.clone(),
            }),
            None => Ok(Self(names)),
        }
    }

    /// Returns the requested system attributes of a message.
    fn select(&self, message: &Message) -> BTreeMap<&'static str, String> {
        if self.0.is_empty() {
            return BTreeMap::new();
        }
        let mut attributes = message.system_attributes();
        attributes.retain(|name, _| self.0.iter().any(|one| one == "All" || one == name));
        attributes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attribute_names_match_by_name_by_prefix_and_all() {
        for pattern in ["All", "*", ".*", "foo.bar", "foo.*"] {
            assert!(attribute_name_matches(pattern, "foo.bar"), "{pattern}");
        }
        for pattern in ["all", "foo", "bar.*", "f*"] {
            assert!(!attribute_name_matches(pattern, "foo.bar"), "{pattern}");
        }
    }

    #[test]
    fn unknown_system_attributes_are_refused_by_name() {
        let name = "Colour".to_owned();
        let refused = SystemAttributes::requested(vec!["All".to_owned(), name.clone()]);
        let expected = SqsError::InvalidAttributeName { name };
        assert_eq!(refused.err(), Some(expected));
    }
}
