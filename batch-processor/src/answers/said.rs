//! What the lines of an answer say about the events of a part.

use std::collections::BTreeMap;

use protocol::answer::Said;
use protocol::ids::Seq;
use protocol::seqs::SeqSet;
use shared::ports::StoredEvent;
use sinks::{AnswerLine, Named};

/// What an answer says about a part.
#[derive(Debug, Default, PartialEq)]
pub(super) struct SaidOfPart {
    pub(super) said: Said,
    /// Why events were rejected, where the answer says so.
    pub(super) reasons: BTreeMap<Seq, String>,
    /// Why lines say nothing.
    pub(super) problems: Vec<String>,
}

/// Returns what `lines` say about the events of a part, which are in the order of its records. A line about one event comes before one about
/// the rest, and before what the answer says about events that it does not list. If a line cannot be understood, nothing is said about the
/// rest: the line may have named one of them.
pub(super) fn said_of_part(
    lines: &[AnswerLine],
    events: &[StoredEvent],
    accepts_unlisted: bool,
    has_unread_lines: bool,
) -> SaidOfPart {
    let mut of_part = SaidOfPart::default();
    let by_id: BTreeMap<&str, Seq> = events
        .iter()
        .map(|event| (event.event_id.as_str(), event.seq))
        .collect();
    let mut rest = accepts_unlisted.then_some((true, None));
    for line in lines {
        let problem = match (line.records, &line.named) {
            (Some(records), _) if records != events.len() as u64 => Some(format!(
                "`records`: got {records}, expected the {} that were delivered",
                events.len()
            )),
            (_, Named::Rest) => {
                rest = Some((line.accepted, line.reason.clone()));
                None
            }
            (_, Named::Record(record)) => match events.get(*record as usize - 1) {
                Some(event) => {
                    of_part.say(event.seq, line.accepted, line.reason.clone());
                    None
                }
                None => Some(format!(
                    "`record`: got {record}, expected at most {}",
                    events.len()
                )),
            },
            (_, Named::Event(id)) => match by_id.get(id.as_str()) {
                Some(seq) => {
                    of_part.say(*seq, line.accepted, line.reason.clone());
                    None
                }
                None => Some(format!("`event`: got `{id}`, which is not in the part")),
            },
        };
        if let Some(problem) = problem {
            let number = line.number;
            of_part.problems.push(format!("line {number}: {problem}"));
        }
    }
    if let Some((accepted, reason)) = rest
        && of_part.problems.is_empty()
        && !has_unread_lines
    {
        let listed = of_part.said.accepted.union(&of_part.said.rejected);
        let unlisted = events.iter().map(|event| event.seq);
        for seq in unlisted.filter(|seq| !listed.contains(*seq)) {
            of_part.say(seq, accepted, reason.clone());
        }
    }
    of_part
}

impl SaidOfPart {
    fn say(&mut self, seq: Seq, accepted: bool, reason: Option<String>) {
        let said = match accepted {
            true => &mut self.said.accepted,
            false => &mut self.said.rejected,
        };
        said.insert(seq);
        if let (false, Some(reason)) = (accepted, reason) {
            self.reasons.insert(seq, reason);
        }
    }

    /// Returns whether nothing is said.
    pub(super) fn is_empty(&self) -> bool {
        self.said.accepted.is_empty() && self.said.rejected.is_empty()
    }
}

/// Returns the seats of events.
pub(super) fn seats_of(events: &[StoredEvent]) -> SeqSet {
    events.iter().map(|event| event.seq).collect()
}

#[cfg(test)]
mod tests {
    use protocol::ids::{BatchShard, BodyHash};
    use protocol::time::Timestamp;

    use super::*;

    fn events(seqs: impl IntoIterator<Item = Seq>) -> Vec<StoredEvent> {
        let batch = "0190163d-8694-739b-aea5-966c26f8ad91".parse().unwrap();
        let event = |seq| StoredEvent {
            event_id: format!("e{seq}").parse().unwrap(),
            sqs_message_id: format!("m{seq}").parse().unwrap(),
            body_hash: BodyHash::of(b""),
            shard: BatchShard { batch, shard: 0 },
            seq,
            body: "".into(),
            overflow: None,
            source: "arn:q".parse().unwrap(),
            sent_at: Timestamp::EPOCH,
            attributes: None,
            quota: None,
        };
        seqs.into_iter().map(event).collect()
    }

    fn line(number: usize, named: Named, accepted: bool) -> AnswerLine {
        AnswerLine {
            number,
            named,
            accepted,
            reason: (!accepted).then(|| format!("why {number}")),
            records: None,
        }
    }

    fn said(lines: &[AnswerLine], unlisted: bool, unread: bool) -> SaidOfPart {
        said_of_part(lines, &events([2, 5, 7]), unlisted, unread)
    }

    #[test]
    fn records_are_counted_from_one_and_the_rest_is_what_no_line_names() {
        let lines = [
            line(1, Named::Rest, true),
            line(2, Named::Record(2), false),
            line(3, Named::Event("e7".parse().unwrap()), false),
        ];
        let of_part = said(&lines, false, false);
        assert_eq!(of_part.said.accepted, SeqSet::from_iter([2]));
        assert_eq!(of_part.said.rejected, SeqSet::from_iter([5, 7]));
        assert_eq!(of_part.reasons[&5], "why 2");
        assert_eq!(of_part.problems, [""; 0]);
    }

    #[test]
    fn a_line_about_no_event_of_the_part_keeps_the_rest_from_being_accepted() {
        for (wrong, words) in [
            (
                line(2, Named::Record(4), false),
                "line 2: `record`: got 4, expected at most 3",
            ),
            (
                line(2, Named::Event("x".parse().unwrap()), false),
                "line 2: `event`: got `x`",
            ),
            (
                AnswerLine {
                    records: Some(9),
                    ..line(2, Named::Rest, true)
                },
                "line 2: `records`: got 9, expected the 3 that were delivered",
            ),
        ] {
            let of_part = said(&[line(1, Named::Record(1), true), wrong], true, false);
            assert_eq!(of_part.said.accepted, SeqSet::from_iter([2]));
            assert!(of_part.said.rejected.is_empty());
            assert!(
                of_part.problems[0].starts_with(words),
                "{:?}",
                of_part.problems
            );
        }
        let with_unread = said(&[line(1, Named::Record(1), false)], true, true);
        assert!(with_unread.said.accepted.is_empty());
        let unlisted = said(&[line(1, Named::Record(1), false)], true, false);
        assert_eq!(unlisted.said.accepted, SeqSet::from_iter([5, 7]));
    }
}
