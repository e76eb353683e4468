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
    let shown_attribute = |name: &str| {
        names
            .iter()
            .any(|pattern| attribute_name_matches(pattern, name))
    };
    let chosen = || {
        message
            .message_attributes
            .iter()
            .filter(|(name, _)| shown_attribute(name))
    };
    let all_chosen = chosen().count() == message.message_attributes.len();
    wire::ReceivedMessage {
        attributes: shown.select(&message),
        // The digest covers the returned attributes, because SDKs compute theirs from these.
        md5_of_message_attributes: if all_chosen {
            message.md5_of_message_attributes.clone()
        } else {
            md5::of_attributes(chosen())
        },
        message_attributes: chosen()
            .map(|(name, attribute)| (name.clone(), wire::Attribute::from_domain(attribute)))
            .collect(),
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
        let mut attributes = BTreeMap::from([
            ("SenderId", message.sender_id.clone()),
            ("SentTimestamp", message.sent_ms.to_string()),
            ("ApproximateReceiveCount", message.receive_count.to_string()),
            (
                "ApproximateFirstReceiveTimestamp",
                message.first_receive_ms.to_string(),
            ),
        ]);
        let optional = [
            ("MessageGroupId", &message.message_group_id),
            (TRACE_HEADER, &message.trace_header),
            ("DeadLetterQueueSourceArn", &message.dead_letter_source_arn),
        ];
        attributes.extend(
            optional
                .into_iter()
                .filter_map(|(name, value)| Some((name, value.clone()?))),
        );
        attributes.retain(|name, _| {
            self.0
                .iter()
                .any(|requested| requested == "All" || requested == name)
        });
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
        let error = SystemAttributes::requested(vec!["All".to_owned(), "Colour".to_owned()]).err();
        assert_eq!(
            error,
            Some(SqsError::InvalidAttributeName {
                name: "Colour".to_owned()
            })
        );
    }
}
