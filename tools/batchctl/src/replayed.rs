//! The delivered parts of a batch, with their seats.

use protocol::batch::{BatchRecord, PartState};
use protocol::ids::Seq;
use protocol::seqs::SeqSet;

#[derive(Clone, Debug, PartialEq)]
pub struct DeliveredPart {
    pub part_index: usize,
    pub members: SeqSet,
    /// The content hash with which it was delivered. The reader of the events compares it.
    pub hash: [u8; 32],
}

/// Returns the delivered parts of a batch, in order. Those with many members share one set in the record; they were frozen one
/// after the other, each with the next seats, so their counts say where one ends. If events came late, that may be wrong, and the
/// content hash shows it.
pub fn delivered_parts(record: &BatchRecord) -> Vec<DeliveredPart> {
    let shared: Vec<Seq> = record.delivered.iter().collect();
    let mut next = 0;
    let parts = record.parts.iter().enumerate();
    let delivered = parts.filter(|(_, part)| matches!(part.state, PartState::Delivered { .. }));
    delivered
        .map(|(part_index, part)| {
            let members = match part.members.is_empty() {
                false => part.members.clone(),
                true => {
                    let from = next;
                    next = (from + part.count as usize).min(shared.len());
                    shared[from..next].iter().copied().collect()
                }
            };
            DeliveredPart {
                part_index,
                members,
                hash: part.hash,
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use protocol::batch::PartRecord;
    use protocol::bodies::{Bodies, ObjectPlace};
    use protocol::time::Timestamp;

    use super::*;

    fn part(count: u64, members: std::ops::Range<u32>, delivered: bool) -> PartRecord {
        let mut part = PartRecord::frozen(members.collect(), [count as u8; 32], None);
        part.count = count;
        if delivered {
            part.state = PartState::Delivered {
                receipt: "r".to_owned(),
                at: None,
            };
        }
        part
    }

    #[test]
    fn parts_that_share_a_set_have_its_next_seats() {
        let id = "0190163d-8694-739b-aea5-966c26f8ad91".parse().unwrap();
        let at = Timestamp::from_ms(5);
        let record = BatchRecord::open(id, "arn:q".parse().unwrap(), None, 1, at, at);
        let mut record =
            record.with_bodies(Bodies::Log(ObjectPlace::Table), Duration::from_secs(60));
        record.delivered = (0..10).filter(|seq| *seq != 4).collect();
        record.parts = vec![
            part(5, 0..0, true),
            part(2, 20..22, true),
            part(4, 0..0, true),
            part(1, 30..31, false),
        ];
        let parts = delivered_parts(&record);
        let seats = |part: &DeliveredPart| (part.part_index, part.members.iter().collect());
        let seats: Vec<(usize, Vec<u32>)> = parts.iter().map(seats).collect();
        assert_eq!(
            seats,
            [
                (0, vec![0, 1, 2, 3, 5]),
                (1, vec![20, 21]),
                (2, vec![6, 7, 8, 9])
            ]
        );
    }
}
