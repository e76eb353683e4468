//! How large a part is, how many parts a batch may have, and to which sink a frozen part may go.

use protocol::batch::{BatchRecord, WAITS_FOR_APPROVAL, approved, unapproved};
use protocol::limits::{FINGERPRINT_BYTES_MAX, PARTS_FOR_STRAGGLERS};
use protocol::text::cut;

use crate::reading::ReadLimits;

/// The limits of parts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PartRules {
    /// Bytes of a part, approximately. A part is larger where the batch would need more parts than it may have.
    pub(crate) bytes_max: u64,
    /// Parts of a batch.
    pub(crate) count_max: usize,
    /// Events of a batch that somebody must approve if it has more.
    pub(crate) approve_above: Option<u64>,
}

impl PartRules {
    /// Returns the limits for reading events that need no part: leftovers, and events to set aside.
    pub(crate) fn without_part(&self) -> ReadLimits {
        self.limits(1)
    }

    /// Returns the limits of the next part, when `left` events are in no part yet.
    pub(crate) fn next_part(&self, record: &BatchRecord, left: usize) -> ReadLimits {
        let available = self.count_max - PARTS_FOR_STRAGGLERS;
        let parts = record.parts.len();
        self.limits(left.div_ceil(available.saturating_sub(parts).max(1)))
    }

    /// Returns whether an operator must decide before anything of a batch goes to the sink, as far as its record says.
    pub(crate) fn withholds(&self, record: &BatchRecord) -> bool {
        match record.frozen_part() {
            Some((_, part)) => part.waits_for_approval(),
            None => self.is_large(record, 0),
        }
    }

    fn is_large(&self, record: &BatchRecord, events: u64) -> bool {
        // What is uncertain may be events; those that come late were not counted.
        let all = (record.confirmed + record.uncertain).max(events);
        // Once, with the first part: a ticket that comes twice must not approve a later part that nobody has looked at.
        record.parts.is_empty() && self.approve_above.is_some_and(|above| all > above)
    }

    /// Returns the fingerprint with which the next part of a batch is frozen, of so many events, for the `present` sink.
    pub(crate) fn fingerprint(&self, record: &BatchRecord, events: u64, present: String) -> String {
        match self.is_large(record, events) {
            true => withheld_for(&present),
            false => present,
        }
    }

    fn limits(&self, items_min: usize) -> ReadLimits {
        ReadLimits {
            bytes_max: self.bytes_max,
            items_min,
        }
    }

    /// Returns an error for the operator if the batch may have no part `index`.
    pub(crate) fn too_many(&self, index: usize) -> Option<String> {
        let count_max = self.count_max;
        (index >= count_max).then(|| {
            format!(
                "parts: too many: got a further part after {index}, expected at most {count_max}: new claims kept \
                 becoming visible; set the batch aside"
            )
        })
    }
}

/// Returns the fingerprint of a part for a sink that nobody has approved.
fn withheld_for(sink: &str) -> String {
    cut(&unapproved(sink), FINGERPRINT_BYTES_MAX)
}

/// Returns the fingerprint of a frozen part that an operator has accepted. What was approved is the part for the sink that it was frozen
/// for; the `present` one may be another.
pub(crate) fn accepted(record: &BatchRecord, index: usize, present: String) -> String {
    let frozen = record
        .parts
        .get(index)
        .and_then(|part| part.sink.as_deref());
    let is_same = frozen == Some(&*withheld_for(&present));
    match frozen.and_then(approved).filter(|_| !is_same) {
        Some(sink) => sink.to_owned(),
        None => present,
    }
}

/// Returns an error for the operator if part `index` may not go to the sink `present`: nobody has approved it, or it was frozen with
/// another fingerprint.
pub(crate) fn withheld(record: &BatchRecord, index: usize, present: &str) -> Option<String> {
    let part = record.parts.get(index)?;
    if part.waits_for_approval() {
        let count = part.count;
        return Some(format!(
            "part {index}: {WAITS_FOR_APPROVAL}: the batch has more events than `APPROVE_ABOVE`, and this part {count}; look at it with \
             `batchctl preview`, then approve the batch with `batchctl approve`, or set it aside"
        ));
    }
    let frozen = part.sink.as_deref()?;
    (frozen != present).then(|| {
        format!(
            "part {index}: frozen for another sink: got the sink `{present}`, expected `{frozen}`; restore the former \
             sink, or accept the new one by a ticket with `\"accept\":\"new-sink\"`, or set the batch aside"
        )
    })
}

#[cfg(test)]
mod tests {
    use protocol::batch::PartRecord;
    use protocol::limits::PARTS_MAX;
    use protocol::time::Timestamp;

    use super::*;

    const RULES: PartRules = PartRules {
        bytes_max: 1_000,
        count_max: PARTS_MAX,
        approve_above: Some(10),
    };

    fn record_with_parts(count: usize, sink: &str) -> BatchRecord {
        let id = "0190163d-8694-739b-aea5-966c26f8ad91".parse().unwrap();
        let (source, at) = ("arn:q".parse().unwrap(), Timestamp::EPOCH);
        let mut record = BatchRecord::open(id, source, None, 1, at, at);
        let part =
            |seq| PartRecord::frozen([seq].into_iter().collect(), [0; 32], Some(sink.to_owned()));
        record.parts = (0..count as u32).map(part).collect();
        record
    }

    #[test]
    fn parts_grow_as_fewer_are_left() {
        let items_min = |parts, left| {
            let record = record_with_parts(parts, "s");
            RULES.next_part(&record, left).items_min
        };
        assert_eq!(items_min(0, 90), 1);
        assert_eq!(items_min(0, 900), 10);
        assert_eq!(items_min(80, 900), 90);
        // The parts that are left are for stragglers, so this one takes everything.
        assert_eq!(items_min(95, 900), 900);
    }

    #[test]
    fn a_part_too_many_is_refused_with_what_is_allowed() {
        assert_eq!(RULES.too_many(PARTS_MAX - 1), None);
        let error = RULES.too_many(PARTS_MAX).unwrap();
        assert!(error.contains("expected at most 100"), "{error}");
    }

    #[test]
    fn the_first_part_of_a_large_batch_is_withheld_until_the_batch_is_approved() {
        let mut record = record_with_parts(0, "");
        let sink = "file:///a".to_owned();
        record.confirmed = 10;
        assert_eq!(RULES.fingerprint(&record, 10, sink.clone()), sink);
        // More came than was counted.
        let frozen = RULES.fingerprint(&record, 11, sink.clone());
        assert_ne!(frozen, sink);
        record.confirmed = 9;
        record.uncertain = 2;
        assert_eq!(RULES.fingerprint(&record, 1, sink.clone()), frozen);
        let long = RULES.fingerprint(&record, 1, "x".repeat(FINGERPRINT_BYTES_MAX));
        assert_eq!(long.len(), FINGERPRINT_BYTES_MAX);
        let record = record_with_parts(1, &frozen);
        assert_eq!(accepted(&record, 0, sink.clone()), sink);
        // Nobody has looked at the part for another sink.
        let other = accepted(&record, 0, "file:///b".to_owned());
        assert_eq!(other, sink);
        assert_eq!(
            accepted(&record_with_parts(1, &long), 0, "x".repeat(256)),
            "x".repeat(256)
        );
        let error = withheld(&record, 0, &sink).unwrap();
        assert!(error.contains("waits for approval"), "{error}");
        assert_eq!(withheld(&record_with_parts(1, &sink), 0, &sink), None);
        let none = PartRules {
            approve_above: None,
            ..RULES
        };
        let mut other = record_with_parts(0, "");
        assert_eq!(none.fingerprint(&other, 99, sink.clone()), sink);
        other.parts = record.parts;
        assert_eq!(
            RULES.fingerprint(&other, 99, sink.clone()),
            sink,
            "approved"
        );
    }

    #[test]
    fn a_part_goes_only_to_the_sink_that_it_was_frozen_for() {
        let record = record_with_parts(1, "file:///a");
        assert_eq!(withheld(&record, 0, "file:///a"), None);
        let error = withheld(&record, 0, "file:///b").unwrap();
        let words = "got the sink `file:///b`, expected `file:///a`";
        assert!(error.contains(words), "{error}");
    }
}
