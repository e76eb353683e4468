//! The message attributes of a message in the quarantine: its producer's, beside those of the service.
//!
//! A message of SQS has ten attributes at most, and two of one name are impossible. So up to seven of the producer's are attributes of
//! the message in the quarantine, as they were. If there are more, or if one has a name of the service's, the ones without room
//! go into one attribute together, `moreAttributes`, as JSON. [`of_producer`] undoes that. The message group is none of the ten.

use protocol::limits::{SQS_ATTRIBUTES_MAX, SQS_MESSAGE_BYTES_MAX};
use protocol::quota::Quota;

use crate::message_attributes::{
    AttributeMap, MESSAGE_GROUP_ID, MessageAttribute, MessageAttributes,
};
use crate::ports::Quarantined;
use crate::sqs_text::sqs_text;
use crate::zone::rfc3339;

/// Why the message is in the quarantine.
pub const REASON: &str = "reason";
/// The event id, if the message has one.
pub const EVENT_ID: &str = "eventId";
/// The queue that the message came from.
pub const SOURCE: &str = "source";
/// Attributes of the producer that have no place of their own, as JSON.
pub const MORE: &str = "moreAttributes";
/// The names of the attributes that the service sets.
const OF_SERVICE: [&str; 4] = [REASON, EVENT_ID, SOURCE, MORE];
/// How many attributes of the producer have a place of their own, if all of them do.
const OWN_PLACES: usize = SQS_ATTRIBUTES_MAX - (OF_SERVICE.len() - 1);

/// The reason of a message whose event id another message has with another body.
pub const CONFLICT: &str =
    "event id: conflict: another message has the same event id and another body";

/// What the reason of a message says whose event is beyond its quota.
const BEYOND_QUOTA: &str = "`QUOTA` exceeded: more than ";

/// Returns whether a message with this reason is beyond its quota.
pub fn is_beyond_quota(reason: &str) -> bool {
    reason.contains(BEYOND_QUOTA)
}

/// Returns the reason of a message whose event is beyond its quota.
pub fn beyond_quota(quota: &Quota) -> String {
    format!(
        "{BEYOND_QUOTA}{} events for this key from {} to {}",
        quota.max,
        rfc3339(quota.begins),
        rfc3339(quota.ends)
    )
}

/// Longest `reason`, in bytes; a longer one is cut.
pub const REASON_BYTES_MAX: usize = 1_024;
/// Longest `eventId` and `source`, in bytes: the length limit of these ids, so they are cut only if the message is
/// large.
const ID_BYTES_MAX: usize = 2_048;

/// The attributes with which a message goes to the quarantine.
#[derive(Debug, Default)]
pub struct Packed {
    pub attributes: AttributeMap,
    /// The bytes of the message, as SQS counts them.
    pub bytes: usize,
    /// The attributes of the producer that are missing, because the message has no space for them.
    pub left_out: Vec<String>,
}

impl Packed {
    /// Returns how many more bytes the message takes.
    fn room(&self) -> usize {
        SQS_MESSAGE_BYTES_MAX.saturating_sub(self.bytes)
    }

    /// Adds an attribute; returns whether there was space for it.
    fn add(&mut self, name: &str, attribute: MessageAttribute) -> bool {
        let bytes = attribute.message_bytes(name);
        let fits = bytes <= self.room();
        if fits {
            self.bytes += bytes;
            self.attributes.insert(name.to_owned(), attribute);
        }
        fits
    }

    /// Adds as much of a text as there is space for. SQS refuses empty values.
    fn add_cut(&mut self, name: &str, text: &str, bytes_max: usize) {
        let around = MessageAttribute::string("").message_bytes(name);
        let room = self.room().saturating_sub(around).min(bytes_max);
        let text = sqs_text(text);
        let text = &text[..text.floor_char_boundary(room)];
        if !text.is_empty() {
            self.add(name, MessageAttribute::string(text));
        }
    }
}

/// Returns the attributes with which a message goes to the quarantine. Those of the producer come first: if the body is close to the
/// size limit of a message, the service's are cut or left out, so that every message that arrived fits.
pub fn packed(message: &Quarantined) -> Packed {
    let mut packed = Packed {
        bytes: message.body.len(),
        ..Packed::default()
    };
    add_of_producer(&mut packed, message.attributes.as_ref());
    let reason = match message.reason.as_str() {
        "" => "unknown",
        reason => reason,
    };
    let missing = packed.left_out.iter().map(|name| format!("`{name}`"));
    let missing = Vec::from_iter(missing).join(", ");
    if missing.is_empty() {
        packed.add_cut(REASON, reason, REASON_BYTES_MAX);
    } else {
        // In front, because the end of a long reason is cut off.
        let reason = format!("message attributes left out for lack of space: {missing}; {reason}");
        packed.add_cut(REASON, &reason, REASON_BYTES_MAX);
    }
    if let Some(id) = &message.event_id {
        packed.add_cut(EVENT_ID, id.as_str(), ID_BYTES_MAX);
    }
    packed.add_cut(SOURCE, message.source.as_str(), ID_BYTES_MAX);
    packed
}

fn add_of_producer(packed: &mut Packed, attributes: Option<&MessageAttributes>) {
    let Some(attributes) = attributes else { return };
    let mut attributes = attributes.to_map();
    let group = attributes.remove(MESSAGE_GROUP_ID);
    let (clashing, mut own): (Vec<_>, Vec<_>) = attributes
        .into_iter()
        .partition(|(name, _)| OF_SERVICE.contains(&name.as_str()));
    let mut more = AttributeMap::from_iter(clashing);
    if !more.is_empty() || own.len() > OWN_PLACES {
        // One place is that of `moreAttributes`.
        more.extend(own.drain((OWN_PLACES - 1).min(own.len())..));
    }
    for (name, attribute) in own {
        if !packed.add(&name, attribute) {
            packed.left_out.push(name);
        }
    }
    let names = Vec::from_iter(more.keys().cloned());
    if let Some(json) = MessageAttributes::of(more)
        && !packed.add(MORE, MessageAttribute::string(&**json.as_text()))
    {
        packed.left_out.extend(names);
    }
    if let Some(group) = group {
        // Whether SQS counts it is not documented, so the service's attributes leave space for it.
        packed.bytes += group.message_bytes(MESSAGE_GROUP_ID);
        let name = MESSAGE_GROUP_ID.to_owned();
        packed.attributes.insert(name, group);
    }
}

/// Returns the attributes that the producer of a message in the quarantine had set.
pub fn of_producer(attributes: &AttributeMap) -> AttributeMap {
    let more = attributes.get(MORE);
    let more = more.and_then(|one| one.string_value.as_ref());
    let more = more.and_then(|json| serde_json::from_str::<AttributeMap>(json).ok());
    let own = attributes.iter();
    let own = own.filter(|(name, _)| !OF_SERVICE.contains(&name.as_str()));
    let own = own.map(|(name, attribute)| (name.clone(), attribute.clone()));
    more.unwrap_or_default().into_iter().chain(own).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a message for the quarantine.
    fn message(body_bytes: usize, reason: &str, attributes: &AttributeMap) -> Quarantined {
        Quarantined {
            sqs_message_id: "m".parse().unwrap(),
            event_id: Some("e".repeat(100).parse().unwrap()),
            source: "arn:aws:sqs:eu-west-1:1:q".parse().unwrap(),
            reason: reason.to_owned(),
            body: "x".repeat(body_bytes).into(),
            attributes: MessageAttributes::of(attributes.clone()),
        }
    }

    fn bare(body_bytes: usize, reason: &str) -> Packed {
        packed(&message(body_bytes, reason, &AttributeMap::new()))
    }

    fn names(packed: &Packed) -> Vec<&str> {
        packed.attributes.keys().map(String::as_str).collect()
    }

    fn text<'p>(packed: &'p Packed, name: &str) -> &'p str {
        let attribute = &packed.attributes[name];
        attribute.string_value.as_deref().unwrap()
    }

    /// Returns attributes with these names, each with the same value.
    fn set(names: &[&str], value: &str) -> AttributeMap {
        let attribute = |name: &&str| ((*name).to_owned(), MessageAttribute::string(value));
        names.iter().map(attribute).collect()
    }

    #[test]
    fn a_body_close_to_the_limit_is_kept_and_the_services_attributes_are_cut() {
        let uncut = bare(SQS_MESSAGE_BYTES_MAX - 1_000, "bad");
        assert_eq!(names(&uncut), [EVENT_ID, REASON, SOURCE]);
        let cut = bare(SQS_MESSAGE_BYTES_MAX - 40, "bad");
        assert_eq!(names(&cut), [EVENT_ID, REASON]);
        assert_eq!(cut.bytes, SQS_MESSAGE_BYTES_MAX);
        let nothing = bare(SQS_MESSAGE_BYTES_MAX, "bad");
        assert_eq!(names(&nothing), [""; 0]);
        assert_eq!(nothing.bytes, SQS_MESSAGE_BYTES_MAX);
    }

    #[test]
    fn a_value_is_cut_between_characters_and_has_no_characters_that_sqs_refuses() {
        let reason = format!("\u{1}{}", "ä".repeat(REASON_BYTES_MAX));
        let packed = bare(1, &reason);
        let value = text(&packed, REASON);
        assert!(
            value.starts_with('\u{fffd}')
                && value.ends_with('ä')
                && value.len() <= REASON_BYTES_MAX
        );
        assert_eq!(text(&bare(1, ""), REASON), "unknown");
    }

    #[test]
    fn attributes_of_the_producer_are_as_they_were_and_beyond_seven_together() {
        let seven = set(&["a", "b", "c", "d", "e", "f", "g"], "v");
        let packed_seven = packed(&message(1, "bad", &seven));
        assert_eq!(packed_seven.attributes.len(), 10);
        assert_eq!(packed_seven.attributes["g"], seven["g"]);
        assert_eq!(of_producer(&packed_seven.attributes), seven);

        let ten = set(&["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"], "v");
        let packed_ten = packed(&message(1, "bad", &ten));
        assert_eq!(packed_ten.attributes.len(), 10);
        assert!(packed_ten.left_out.is_empty(), "{packed_ten:?}");
        let more: AttributeMap = serde_json::from_str(text(&packed_ten, MORE)).unwrap();
        assert_eq!(more.keys().collect::<Vec<_>>(), ["g", "h", "i", "j"]);
        assert_eq!(of_producer(&packed_ten.attributes), ten);
    }

    #[test]
    fn a_message_group_takes_no_place_of_an_attribute_and_is_never_left_out() {
        let ten = set(&["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"], "v");
        let with_group = || {
            let group = set(&[MESSAGE_GROUP_ID], "tenant");
            group.into_iter().chain(ten.clone()).collect()
        };
        let packed_ten = packed(&message(1, "bad", &with_group()));
        assert_eq!(packed_ten.attributes.len(), 10 + 1);
        assert_eq!(text(&packed_ten, MESSAGE_GROUP_ID), "tenant");
        assert_eq!(of_producer(&packed_ten.attributes), with_group());
        let full = packed(&message(SQS_MESSAGE_BYTES_MAX, "bad", &with_group()));
        assert_eq!(names(&full), [MESSAGE_GROUP_ID]);
    }

    #[test]
    fn an_attribute_with_a_name_of_the_services_is_kept_beside_it() {
        let producers = set(&["a", REASON, EVENT_ID, SOURCE, MORE], "of the producer");
        let packed = packed(&message(1, "bad", &producers));
        assert_eq!(names(&packed), ["a", EVENT_ID, MORE, REASON, SOURCE]);
        assert_eq!(text(&packed, REASON), "bad");
        assert_eq!(of_producer(&packed.attributes), producers);
    }

    #[test]
    fn every_message_that_arrived_fits_and_says_which_attributes_it_lacks() {
        let names = ["a", "b", "c", "d", "e", "f", "g", "h"];
        let eight = set(&names, &"v".repeat(100));
        let of_producer_bytes: usize = eight
            .iter()
            .map(|(name, attribute)| attribute.message_bytes(name))
            .sum();
        let body_bytes = SQS_MESSAGE_BYTES_MAX - of_producer_bytes;
        let full = packed(&message(body_bytes, "bad", &eight));
        assert_eq!(full.left_out, ["g", "h"]);
        assert!(full.bytes <= SQS_MESSAGE_BYTES_MAX);
        let said = "message attributes left out for lack of space: `g`, `h`; bad";
        assert_eq!(text(&full, REASON), said);
        // Seven need no other form, so they fit as they arrived.
        let seven = set(&names[..7], &"v".repeat(100));
        let full = packed(&message(body_bytes + of_producer_bytes / 8, "bad", &seven));
        assert!(full.left_out.is_empty(), "{:?}", full.left_out);
        assert_eq!(of_producer(&full.attributes), seven);
    }

    #[test]
    fn what_former_versions_sent_has_no_attributes_of_the_producer() {
        let former = set(&[REASON, EVENT_ID, SOURCE], "v");
        assert_eq!(of_producer(&former), AttributeMap::new());
        // Somebody edited it by hand.
        let odd = set(&[MORE, "a"], "no JSON");
        assert_eq!(of_producer(&odd), set(&["a"], "no JSON"));
    }
}
