//! Checks one line of a part by itself: what it carries, and what is wrong with it.
//!
//! Several threads check lines. Whether an event was delivered before is decided afterwards, in the order of the lines.

use super::line::{self, Corruption, Envelope, Format};
use crate::mix::{fnv1a, mix};
use crate::workload::{Content, Workload};

/// The place of a file among the delivered ones.
#[derive(Clone, Debug)]
pub(super) struct Place {
    /// The name of the directory.
    pub batch_id: String,
    pub part: u64,
    /// Whether the file is a reject list.
    pub rejected: bool,
}

/// What a line carries.
#[derive(Debug)]
pub(super) enum Finding {
    /// Nothing that could be recognised.
    Corrupt(Box<Corruption>),
    /// An event with an id that is not of the workload.
    Foreign(Box<str>),
    /// An event of the workload.
    Event(EventLine),
}

/// A line with an event of the workload.
#[derive(Debug)]
pub(super) struct EventLine {
    pub number: u64,
    /// The body that the line has, or resembles most.
    pub content: Content,
    /// A hash of the SQS message id, if the line has one.
    pub message_hash: Option<u64>,
    /// Whether the event id of the envelope ends in the id of the body.
    pub event_id_is_body_id: bool,
    pub problem: Option<Box<Problem>>,
}

/// What is wrong with a line with an event, or may be.
#[derive(Debug, Default)]
pub(super) struct Problem {
    pub envelope: Option<Corruption>,
    pub body: Option<Corruption>,
    /// The event id, if it ends neither in the id of the body nor in the SQS message id.
    pub event_id: Option<OtherEventId>,
}

#[derive(Debug)]
pub(super) struct OtherEventId {
    pub text: String,
    /// Whether it ends in an id of this workload.
    pub is_of_workload: bool,
}

/// Checks the lines of one file.
pub(super) struct Checker<'a> {
    workload: &'a Workload,
    place: &'a Place,
    format: Option<Format>,
    seq_last: Option<u64>,
    planned: Vec<u8>,
}

impl<'a> Checker<'a> {
    pub fn new(workload: &'a Workload, place: &'a Place) -> Self {
        Self {
            workload,
            place,
            format: place.rejected.then_some(Format::Envelope),
            seq_last: None,
            planned: Vec::new(),
        }
    }

    /// Checks the next line, without its line break.
    pub fn line(&mut self, text: &[u8]) -> Finding {
        self.format = self.format.or_else(|| Format::of(text));
        match self.format {
            Some(Format::Envelope) => self.envelope(text),
            Some(Format::Body) => match std::str::from_utf8(text) {
                Ok(body) => self.body(body, None, None),
                Err(_) => corrupt(Corruption::NoId),
            },
            None => corrupt(Corruption::Unrecognised),
        }
    }

    fn envelope(&mut self, text: &[u8]) -> Finding {
        let envelope: Envelope<'_> = match serde_json::from_slice(text) {
            Ok(envelope) => envelope,
            Err(error) => return corrupt(Corruption::Envelope(error.to_string())),
        };
        let seq = envelope.seq;
        let last = self.seq_last;
        self.seq_last = Some(last.map_or(seq, |last| last.max(seq)));
        let corruption = if envelope.batch_id != self.place.batch_id {
            Some(Corruption::Batch(envelope.batch_id.clone().into_owned()))
        } else if envelope.part != self.place.part {
            Some(Corruption::Part(envelope.part))
        } else if self.place.rejected && envelope.reason.is_none() {
            Some(Corruption::NoReason)
        } else {
            last.filter(|last| *last >= seq)
                .map(|last| Corruption::Seq { last, seq })
        };
        self.body(&envelope.body, Some(&envelope), corruption)
    }

    fn body(
        &mut self,
        body: &str,
        envelope: Option<&Envelope<'_>>,
        corruption: Option<Corruption>,
    ) -> Finding {
        let Some(id) = line::id_of(body) else {
            return corrupt(Corruption::NoId);
        };
        let Some(number) = self.workload.number_of(&id) else {
            return Finding::Foreign(id.into());
        };
        let (content, difference) = self.difference(number, body.as_bytes());
        let ends_in = |end: &str| envelope.is_some_and(|each| each.event_id.ends_with(end));
        let event_id_is_body_id = ends_in(&id);
        let other = envelope.filter(|each| !event_id_is_body_id && !ends_in(&each.sqs_message_id));
        let event_id = other.map(|envelope| OtherEventId {
            text: envelope.event_id.clone().into_owned(),
            is_of_workload: self.workload.body.id_ending(&envelope.event_id).is_some(),
        });
        let message_id = envelope.map(|envelope| envelope.sqs_message_id.as_bytes());
        let problem = Problem {
            envelope: corruption,
            body: difference.map(Corruption::Body),
            event_id,
        };
        let sound =
            problem.envelope.is_none() && problem.body.is_none() && problem.event_id.is_none();
        Finding::Event(EventLine {
            number,
            content,
            // Mixed so that its upper bits depend on every character.
            message_hash: message_id.map(|id| mix(fnv1a(id))),
            event_id_is_body_id,
            problem: (!sound).then(|| Box::new(problem)),
        })
    }

    /// Compares a body with the planned ones; returns the one that it resembles most, and the first differing byte.
    fn difference(&mut self, number: u64, body: &[u8]) -> (Content, Option<usize>) {
        let mut to = |content| {
            self.workload
                .body
                .render(number, content, &mut self.planned);
            line::difference(body, &self.planned)
        };
        let Some(original) = to(Content::Original) else {
            return (Content::Original, None);
        };
        if !self.workload.has_changed() {
            return (Content::Original, Some(original));
        }
        match to(Content::Changed) {
            Some(changed) if changed <= original => (Content::Original, Some(original)),
            changed => (Content::Changed, changed),
        }
    }
}

fn corrupt(why: Corruption) -> Finding {
    Finding::Corrupt(Box::new(why))
}
