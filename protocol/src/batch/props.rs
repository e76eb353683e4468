//! Properties of a batch record, for any order of its writers, and with writes that arrive several times.

use std::time::Duration;

use proptest::prelude::*;

use super::tests::{at, with_seats};
use super::*;
use crate::chain::Link;
use crate::ids::{LeaseOwner, Seq};
use crate::invariants::{notices_stay_until_they_are_sent, record_is_sound};
use crate::seqs::SeqSet;
use crate::slot::{ClaimCounts, Slot};
use crate::time::Timestamp;

/// One thing that a writer or the network does.
#[derive(Clone, Debug)]
enum Step {
    /// An aggregator reserves seats and makes claims in some of them. It may die before it fills the slot.
    Reserve { seats: u8, claimed: u8, fills: bool },
    /// An aggregator seals the batch.
    Seal,
    /// A redelivery meets a claim, and the aggregator writes a witness.
    Witness { seq: u8 },
    /// A processor tries to take the lease.
    Lease {
        secs: u8,
        operator: Option<OperatorDecision>,
    },
    /// A processor that has or had the lease takes its next step, according to the record as it last read it. If its
    /// write is lost, the processor gives up, and the write may still arrive.
    Work {
        processor: u8,
        choice: u8,
        lost: bool,
    },
    /// The notices in the record were sent.
    NoticesSent,
    /// An earlier write arrives again.
    Again { write: u8 },
    /// Time passes.
    Pass { secs: u8 },
}

fn operators() -> impl Strategy<Value = Option<OperatorDecision>> {
    prop::sample::select(vec![
        None,
        Some(OperatorDecision::Retry),
        Some(OperatorDecision::Quarantine),
    ])
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        3 => (1..4_u8, 0..4_u8, prop::bool::weighted(0.8))
            .prop_map(|(seats, claimed, fills)| Step::Reserve { seats, claimed, fills }),
        1 => Just(Step::Seal),
        1 => any::<u8>().prop_map(|seq| Step::Witness { seq }),
        3 => (1..20_u8, operators()).prop_map(|(secs, operator)| Step::Lease { secs, operator }),
        10 => (any::<u8>(), any::<u8>(), prop::bool::weighted(0.1))
            .prop_map(|(processor, choice, lost)| Step::Work { processor, choice, lost }),
        4 => any::<u8>().prop_map(|write| Step::Again { write }),
        1 => Just(Step::NoticesSent),
        1 => (1..20_u8).prop_map(|secs| Step::Pass { secs }),
    ];
    prop::collection::vec(step, 1..80)
}

/// A processor, with the record as it last read it.
struct Processor {
    owner: LeaseOwner,
    record: BatchRecord,
    works: bool,
}

/// A record, its writers, and every write that was sent.
struct World {
    now: Timestamp,
    record: BatchRecord,
    sent: Vec<BatchWrite>,
    /// The slots that are filled.
    slots: Vec<Option<Slot>>,
    /// All claims in the lock table, counted or not.
    claims: SeqSet,
    processors: Vec<Processor>,
}

impl World {
    fn new() -> World {
        World {
            now: at(0),
            record: with_seats(0),
            sent: Vec::new(),
            slots: Vec::new(),
            claims: SeqSet::new(),
            processors: Vec::new(),
        }
    }

    /// Applies a write. Checks that the record is sound after it, and that a second arrival of the write is recognised.
    fn arrive(&mut self, write: &BatchWrite) -> Result<bool, TestCaseError> {
        let Some(next) = apply(&self.record, write) else {
            return Ok(already_applied(&self.record, write));
        };
        prop_assert_eq!(record_is_sound(&next), Ok(()), "after {:?}", write);
        prop_assert!(
            self.record.completed_at.is_none() || matches!(write, BatchWrite::NoticesSent { .. }),
            "{write:?} changed a complete record"
        );
        let kept = notices_stay_until_they_are_sent(&self.record, write, &next);
        prop_assert_eq!(kept, Ok(()));
        match apply(&next, write) {
            // Reserved anew, it only leaves an empty slot.
            _ if matches!(write, BatchWrite::Reserve(_)) => {}
            None => prop_assert!(already_applied(&next, write), "{write:?} is not recognised"),
            // `AcceptSink` writes the same fingerprint again, and there may have been no notice to remove.
            Some(again) => {
                let repeatable = matches!(
                    write,
                    BatchWrite::AcceptSink { .. } | BatchWrite::NoticesSent { count: 0, .. }
                );
                prop_assert!(repeatable, "{write:?} applied twice");
                prop_assert_eq!(again, next.clone());
            }
        }
        prop_assert!(
            self.record.members().is_subset(&next.members()),
            "{write:?} forgot what was delivered"
        );
        self.record = next;
        Ok(true)
    }

    /// Sends a write, which arrives now and may arrive again later.
    fn send(&mut self, write: BatchWrite) -> Result<bool, TestCaseError> {
        let applied = self.arrive(&write)?;
        self.sent.push(write);
        Ok(applied)
    }

    fn take(&mut self, step: &Step) -> Result<(), TestCaseError> {
        match step {
            Step::Reserve {
                seats,
                claimed,
                fills,
            } => self.reserve(*seats, (*claimed).min(*seats), *fills)?,
            Step::Seal => {
                let seal = BatchWrite::Seal {
                    at: self.now,
                    due_at: None,
                    idle_since: None,
                };
                self.send(seal)?;
            }
            Step::Witness { seq } => {
                // The witnessed claim may be uncounted, because its aggregator may have died.
                let seq = Seq::from(seq % 16);
                self.claims.insert(seq);
                let mut witnessed = self.record.witnessed.clone();
                witnessed.insert(seq);
                let witnesses = self.record.witnesses;
                self.send(BatchWrite::Witness {
                    witnessed,
                    witnesses,
                })?;
            }
            Step::NoticesSent => {
                let notices = &self.record.notices;
                self.send(BatchWrite::NoticesSent {
                    status: self.record.status,
                    count: notices.len(),
                    last: notices.last().map_or(0, |notice| notice.number),
                    due_at: self.now,
                })?;
            }
            Step::Lease { secs, operator } => self.lease(*secs, *operator)?,
            Step::Work {
                processor,
                choice,
                lost,
            } => {
                if !self.processors.is_empty() {
                    let index = usize::from(*processor) % self.processors.len();
                    self.work(index, *choice, *lost)?;
                }
            }
            Step::Again { write } => {
                if !self.sent.is_empty() {
                    let write = self.sent[usize::from(*write) % self.sent.len()].clone();
                    self.arrive(&write)?;
                }
            }
            Step::Pass { secs } => self.now = self.now + Duration::from_secs((*secs).into()),
        }
        Ok(())
    }

    fn reserve(&mut self, seats: u8, claimed: u8, fills: bool) -> Result<(), TestCaseError> {
        let seats = u64::from(seats);
        let write = BatchWrite::Reserve(Reservation {
            seats,
            bytes: seats,
            at: self.now,
            until: self.now,
            limits: BatchLimits {
                items_max: 100,
                bytes_max: 100,
            },
        });
        if !self.send(write)? {
            return Ok(());
        }
        let reserved = self.record.reserved(seats);
        let first = reserved.expect("seats are reserved").first_seq;
        self.claims.extend(first..first + Seq::from(claimed));
        let counts = ClaimCounts {
            confirmed: claimed.into(),
            settled: (first..first + seats as Seq).collect(),
            witnessed: self.claims.iter().take(usize::from(claimed)).collect(),
        };
        self.slots.push(fills.then_some(Slot::Claims(counts)));
        Ok(())
    }

    fn lease(&mut self, secs: u8, operator: Option<OperatorDecision>) -> Result<(), TestCaseError> {
        let owner: LeaseOwner = format!("p{}", self.processors.len()).parse().unwrap();
        let lease = Lease {
            owner: owner.clone(),
            until: self.now + Duration::from_secs(secs.into()),
        };
        let take = BatchWrite::Lease {
            lease,
            at: self.now,
            operator,
        };
        if self.send(take)? {
            self.processors.push(Processor {
                owner,
                record: self.record.clone(),
                works: true,
            });
        }
        Ok(())
    }

    /// Lets a processor take the step that `batch-processor` would take; a refused write ends the processor.
    fn work(&mut self, index: usize, choice: u8, lost: bool) -> Result<(), TestCaseError> {
        if !self.processors[index].works {
            return Ok(());
        }
        let Some(write) = self.next_write(&self.processors[index], choice) else {
            // The index lags: the processor reads the record again.
            let processor = &mut self.processors[index];
            processor.works = self.record.leased_by(&processor.owner);
            processor.record = self.record.clone();
            return Ok(());
        };
        if lost {
            self.sent.push(write);
            let processor = &mut self.processors[index];
            processor.works = false;
            let give_up = give_up(processor.owner.clone(), self.now, None);
            self.send(give_up)?;
            return Ok(());
        }
        let ends = matches!(write, BatchWrite::GiveUp { .. } | BatchWrite::Fail { .. });
        let completes = matches!(write, BatchWrite::Complete { .. });
        let applied = self.send(write)?;
        let owns = self.record.leased_by(&self.processors[index].owner);
        let processor = &mut self.processors[index];
        processor.works = !ends && owns && (applied || completes);
        processor.record = self.record.clone();
        Ok(())
    }

    /// Returns the write that a processor sends next, in the order of `batch-processor`; `None` while the index lags.
    fn next_write(&self, processor: &Processor, choice: u8) -> Option<BatchWrite> {
        let (owner, read) = (processor.owner.clone(), &processor.record);
        let visible: SeqSet = self.claims.iter().take(usize::from(choice / 4)).collect();
        let new = visible.difference(&read.members());
        Some(match (choice % 8, read.frozen_part()) {
            (0, _) => give_up(owner, self.now, (choice > 127).then_some(self.now)),
            (1, _) => BatchWrite::Fail {
                owner,
                error: "no".to_owned(),
                notice: (choice > 127 && read.takes_notice())
                    .then(|| Notice::of_error(read, "no", self.now)),
            },
            _ if !read.is_resolved() => {
                let mut counts = ClaimCounts::of(&self.slots);
                counts.witnessed.extend_from(&read.witnessed);
                BatchWrite::Count {
                    owner,
                    uncertain: read.uncertain_beside(&counts),
                    counts,
                    witnesses: read.witnesses,
                }
            }
            (2, Some((index, _))) if choice > 127 => BatchWrite::Number {
                owner,
                index,
                number: 7,
                link: (choice > 191).then(|| Link::after(None, self.now)),
            },
            (2, Some((index, _))) => BatchWrite::AcceptSink {
                owner,
                index,
                sink: "another".to_owned(),
            },
            (_, Some((index, part))) if read.quarantine.is_some() => {
                set_aside(read, owner, Some(index), &part.members)
            }
            _ if read.quarantine.is_some() && !new.is_empty() => set_aside(read, owner, None, &new),
            (_, Some((index, part))) => BatchWrite::Delivered {
                owner,
                index,
                receipt: "r".to_owned(),
                // The record must mean the same with the shared set and without.
                delivered: (choice > 127).then(|| read.delivered.union(&part.members)),
                at: Timestamp::EPOCH,
                rejects: read.rejects_with(index, &(0..u32::from(choice % 8)).collect()),
            },
            _ if !new.is_empty() && lag(read, &new).is_none() => BatchWrite::Freeze {
                owner,
                index: read.parts.len(),
                part: PartRecord::frozen(new, [7; 32], None),
            },
            _ if lag(read, &SeqSet::new()).is_none() => BatchWrite::Complete {
                owner,
                counts_version: read.counts_version,
                witnesses: read.witnesses,
                parts: read.parts.len(),
                at: self.now,
                expires_at: Timestamp::EPOCH,
                notice: (choice > 127).then(|| Notice::of_completion(read, self.now)),
            },
            _ => return None,
        })
    }
}

fn give_up(owner: LeaseOwner, due_at: Timestamp, verify_at: Option<Timestamp>) -> BatchWrite {
    BatchWrite::GiveUp {
        owner,
        due: Due {
            verify_at,
            ..Due::at(due_at)
        },
        failure: None,
    }
}

/// Returns the write that sets aside a frozen part, or claims that are in no part.
fn set_aside(
    read: &BatchRecord,
    owner: LeaseOwner,
    part: Option<usize>,
    seqs: &SeqSet,
) -> BatchWrite {
    BatchWrite::SetAside {
        owner,
        part,
        set_aside: read.set_aside.union(seqs),
        set_asides: read.set_asides,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn a_record_stays_sound_under_any_writes(steps in steps()) {
        let mut world = World::new();
        for step in &steps {
            world.take(step)?;
        }
    }

    #[test]
    fn a_complete_batch_refuses_every_write(steps in steps()) {
        let mut world = World::new();
        for step in &steps {
            world.take(step)?;
        }
        if world.record.completed_at.is_some() {
            let others = world.sent.iter().filter(|write| !matches!(write, BatchWrite::NoticesSent { .. }));
            for write in others {
                prop_assert_eq!(apply(&world.record, write), None);
            }
            prop_assert_eq!(may_lease(&world.record, world.now, Some(OperatorDecision::Retry)), LeaseDecision::Complete);
        }
    }

    #[test]
    fn a_look_lags_exactly_if_a_counted_or_witnessed_claim_is_not_found(
        settled in prop::collection::btree_set(0..20_u32, 0..20),
        claimed in prop::collection::btree_set(0..20_u32, 0..20),
        witnessed in prop::collection::btree_set(0..20_u32, 0..4),
        new in prop::collection::btree_set(0..20_u32, 0..20),
    ) {
        // A look finds only claims that exist, and the claims among the settled seats are counted.
        let mut record = World::new().record;
        record.confirmed = settled.intersection(&claimed).count() as u64;
        record.settled = settled.iter().copied().collect();
        record.witnessed = witnessed.intersection(&claimed).copied().collect();
        let new = new.intersection(&claimed).copied().collect::<SeqSet>();
        let missing = claimed.iter().any(|seq| {
            (settled.contains(seq) || witnessed.contains(seq)) && !new.contains(*seq)
        });
        prop_assert_eq!(lag(&record, &new).is_some(), missing);
    }
}
