//! The sink, and the consumer that answers about what it has.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;

use async_trait::async_trait;
use protocol::ids::{BatchId, Seq};
use protocol::seqs::SeqSet;
use protocol::time::Timestamp;
use shared::locked::locked;
use shared::memory::Fakes;
use sinks::{AnswerName, AnswerPlace, Part, Receipt, Sink, SinkError};

use super::faulty::Faults;

/// The events of a batch by their seats.
type Events = BTreeMap<Seq, String>;

/// What the sink has.
pub(super) struct Deliveries {
    /// Every so many events, the form rejects one; 0 is never.
    rejects_every: u32,
    parts: Mutex<BTreeMap<(BatchId, usize), (Events, SeqSet)>>,
}

impl Deliveries {
    pub(super) fn new(rejects_every: u32) -> Deliveries {
        Deliveries {
            rejects_every,
            parts: Mutex::default(),
        }
    }

    pub(super) fn batches(&self) -> BTreeSet<BatchId> {
        locked(&self.parts)
            .keys()
            .map(|(batch, _)| *batch)
            .collect()
    }

    /// Returns all events of a batch, with those that the form rejected.
    pub(super) fn all(&self, batch: BatchId) -> Events {
        let parts = locked(&self.parts);
        let of_batch = parts.iter().filter(|((one, _), _)| *one == batch);
        of_batch
            .flat_map(|(_, (events, _))| events.clone())
            .collect()
    }

    /// Returns the events of a batch that the form rejected.
    pub(super) fn rejected(&self, batch: BatchId) -> SeqSet {
        let parts = locked(&self.parts);
        let of_batch = parts.iter().filter(|((one, _), _)| *one == batch);
        of_batch
            .flat_map(|(_, (_, rejected))| Vec::from_iter(rejected.iter()))
            .collect()
    }

    /// Returns the events of a batch that the sink has.
    pub(super) fn taken(&self, batch: BatchId) -> Events {
        let rejected = self.rejected(batch);
        let mut taken = self.all(batch);
        taken.retain(|seq, _| !rejected.contains(*seq));
        taken
    }

    /// Returns the events of all batches.
    pub(super) fn events(&self) -> BTreeSet<String> {
        let parts = locked(&self.parts);
        parts
            .values()
            .flat_map(|(events, _)| events.values().cloned())
            .collect()
    }

    pub(super) fn forget(&self) {
        locked(&self.parts).clear();
    }
}

#[async_trait]
impl Sink for Deliveries {
    fn fingerprint(&self) -> String {
        "simulated".to_owned()
    }

    async fn deliver(&self, part: &Part) -> Result<Receipt, SinkError> {
        let is_rejected = |seq: &Seq| self.rejects_every > 0 && seq % (self.rejects_every + 1) == 1;
        let rejected: SeqSet = part
            .items
            .iter()
            .map(|item| item.seq)
            .filter(is_rejected)
            .collect();
        let events = part
            .items
            .iter()
            .map(|item| (item.seq, item.event_id.to_string()));
        let delivered = (events.collect(), rejected.clone());
        locked(&self.parts).insert((part.batch_id, part.part_index), delivered);
        Ok(Receipt {
            rejected,
            ..Receipt::new("simulated")
        })
    }
}

/// An answer: its name, its lines, and what it says.
struct Written {
    name: String,
    text: String,
    said: Vec<((BatchId, Seq), bool)>,
}

/// Answers about everything that the sink has, in whatever way: partly, twice, and with contradictions.
#[derive(Default)]
pub(super) struct Consumer {
    unpublished: Mutex<Vec<Written>>,
    published: Mutex<Vec<Written>>,
}

impl Consumer {
    /// Writes answers, of which some can be read at once.
    pub(super) fn answer_about(&self, deliveries: &Deliveries, fakes: &Fakes, faults: &Faults) {
        for number in 0..faults.draw(0..5) {
            let mut answer = Written {
                name: format!("a{number}.csv"),
                text: "part,record,event,result\n".to_owned(),
                said: Vec::new(),
            };
            for batch in deliveries.batches() {
                let parts = fakes
                    .batch_store
                    .get(batch)
                    .map_or(0, |record| record.parts.len());
                for part in 0..parts {
                    answer.about_part(deliveries, (batch, part), faults);
                }
            }
            locked(&self.unpublished).push(answer);
        }
        self.publish_next();
    }

    pub(super) fn publish_next(&self) {
        let next = locked(&self.unpublished).pop();
        locked(&self.published).extend(next);
    }

    pub(super) fn publish_all(&self) {
        let rest = std::mem::take(&mut *locked(&self.unpublished));
        locked(&self.published).extend(rest);
    }

    /// Returns what answers say about a seat: whether it was accepted.
    pub(super) fn said(&self, batch: BatchId, seq: Seq) -> BTreeSet<bool> {
        let published = locked(&self.published);
        let all = published.iter().flat_map(|answer| &answer.said);
        let of_seat = all.filter(|(seat, _)| *seat == (batch, seq));
        of_seat.map(|(_, accepted)| *accepted).collect()
    }
}

impl Written {
    fn about_part(
        &mut self,
        deliveries: &Deliveries,
        (batch, part): (BatchId, usize),
        faults: &Faults,
    ) {
        let (events, rejected) = locked(&deliveries.parts)[&(batch, part)].clone();
        let taken = events.iter().filter(|(seq, _)| !rejected.contains(**seq));
        let mut rest = Vec::new();
        for (record, (seq, event)) in (1..).zip(taken) {
            let by_record = faults.draw(0..2) == 0;
            let name = match by_record {
                true => format!("{record},"),
                false => format!(",{event}"),
            };
            let result = match faults.draw(0..4) {
                0 => "rejected",
                1 => "accepted",
                _ => {
                    rest.push(*seq);
                    continue;
                }
            };
            self.text += &format!("{batch}/{part},{name},{result}\n");
            self.said.push(((batch, *seq), result == "accepted"));
        }
        if faults.draw(0..3) == 0 {
            self.text += &format!("{batch}/{part},,,accepted\n");
            let rest = rest.into_iter().map(|seq| ((batch, seq), true));
            self.said.extend(rest);
        }
    }
}

#[async_trait]
impl AnswerPlace for Consumer {
    async fn list(&self, _: Timestamp) -> Result<Vec<AnswerName>, SinkError> {
        let published = locked(&self.published);
        let name = |answer: &Written| AnswerName {
            name: answer.name.clone(),
            tag: "1".to_owned(),
        };
        Ok(published.iter().map(name).collect())
    }

    async fn read(&self, name: &str) -> Result<Option<Vec<u8>>, SinkError> {
        let published = locked(&self.published);
        let answer = published.iter().find(|answer| answer.name == name);
        Ok(answer.map(|answer| answer.text.clone().into_bytes()))
    }
}
