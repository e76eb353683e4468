//! Checks that the update expressions of the batch table have the effect of `protocol::batch::apply`: random writes to
//! the table in memory (which calls `apply`) and to DynamoDB get the same replies and leave the same records.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use protocol::batch::{
    BatchLimits, BatchRecord, BatchWrite, Due, Failure, Lease, Listing, Notice, OperatorDecision,
    OperatorNote, PartRecord, PartState, Rejects, Reservation, Resolution, Status, apply,
    with_note,
};
use protocol::bodies::Bodies;
use protocol::chain::Link;
use protocol::ids::{LeaseOwner, Seq};
use protocol::invariants::record_is_sound;
use protocol::seqs::SeqSet;
use protocol::slot::ClaimCounts;
use protocol::time::Timestamp;
use shared::memory::{MemoryBatchStore, SeededEntropy};
use shared::ports::{BatchReply, BatchStore, Entropy, Overdue};
use tests::runs_all_cases;

use crate::dynamo;
use crate::events::{batch, ms, record};
use crate::lists::listed;

/// Where the bodies of a seed's batch are.
const BODIES: [&str; 4] = ["items", "log:table", "items", "log:s3://bucket/prefix/"];
const WRITES_PER_SEED: usize = 60;
const SEQS: u32 = 12;
const OWNERS: [&str; 3] = ["processor/1", "processor/2", "processor/3"];

/// Draws writes of which about half are applied.
struct Draw(SeededEntropy);

impl Draw {
    fn below(&self, end: u64) -> u64 {
        (self.0.jitter() * end as f64) as u64
    }

    fn chance(&self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// Draws a time around the end of the window and of leases, in steps of half the clock skew.
    fn time(&self) -> Timestamp {
        ms(self.below(24) * 1_000)
    }

    /// Draws a time like [`Self::time`], or one millisecond earlier or later.
    fn edge(&self) -> Timestamp {
        Timestamp::from_ms(self.time().as_ms() + self.below(3) - 1)
    }

    fn seqs(&self) -> SeqSet {
        let percent = self.below(101);
        (0..SEQS).filter(|_| self.chance(percent)).collect()
    }

    fn owner(&self, record: &BatchRecord) -> LeaseOwner {
        match &record.lease {
            Some(lease) if self.chance(75) => lease.owner.clone(),
            _ => OWNERS[self.below(3) as usize].parse().unwrap(),
        }
    }

    /// Draws `value`, or one more or less.
    fn near(&self, value: u64) -> u64 {
        if self.chance(80) {
            value
        } else {
            (value + 1).saturating_sub(self.below(3))
        }
    }

    fn count(&self, owner: LeaseOwner, record: &BatchRecord) -> BatchWrite {
        let settled = self.seqs();
        BatchWrite::Count {
            owner,
            counts: ClaimCounts {
                confirmed: self.below(settled.len() + 1),
                settled,
                witnessed: record.witnessed.union(&self.seqs()),
            },
            uncertain: self.below(3),
            witnesses: self.near(record.witnesses),
        }
    }

    /// Draws a part, mostly of seqs that are in no part yet.
    fn part(&self, record: &BatchRecord) -> PartRecord {
        let taken = record.members();
        let all = self.chance(50);
        let members: SeqSet = (0..SEQS)
            .filter(|seq: &Seq| !taken.contains(*seq) && (all || self.chance(40)))
            .collect();
        let sink = self.chance(50).then(|| format!("sink {}", self.below(2)));
        PartRecord::frozen(members, [self.below(256) as u8; 32], sink)
    }

    /// Draws seqs to be set aside, in addition to those that are: seqs in no part yet, or the frozen part's members.
    fn set_aside(&self, record: &BatchRecord) -> (Option<usize>, SeqSet) {
        let frozen = record.parts.iter().enumerate().next_back();
        let frozen = frozen.filter(|(_, part)| part.state == PartState::Frozen);
        let mut all = record.set_aside.clone();
        match frozen {
            Some((index, part)) if self.chance(80) => {
                all.extend_from(&part.members);
                (Some(index), all)
            }
            _ => {
                all.extend_from(&self.part(record).members);
                (self.chance(10).then_some(0), all)
            }
        }
    }

    fn write(&self, record: &BatchRecord) -> BatchWrite {
        let owner = self.owner(record);
        let parts = record.parts.len() as u64;
        let is_open = record.status == Some(Status::Open);
        if record.reservations.is_some() && is_open && self.chance(40) {
            return self.reserve(record);
        }
        match self.below(29) {
            0 | 1 => self.count(owner, record),
            2 => self.witness(record),
            3..=5 => self.lease(owner),
            6 | 7 => BatchWrite::Freeze {
                owner,
                index: self.near(parts) as usize,
                part: self.part(record),
            },
            8 | 9 => self.delivered(owner, record),
            21 | 22 => BatchWrite::Number {
                owner,
                index: self.near(parts.saturating_sub(1)) as usize,
                number: self.below(3),
                link: self.chance(50).then(|| Link::after(None, self.edge())),
            },
            14 => BatchWrite::AcceptSink {
                owner,
                index: self.near(parts.saturating_sub(1)) as usize,
                sink: format!("sink {}", self.below(2)),
            },
            15 | 16 => {
                let (part, set_aside) = self.set_aside(record);
                BatchWrite::SetAside {
                    owner,
                    part,
                    set_aside,
                    set_asides: self.near(record.set_asides),
                }
            }
            17 => BatchWrite::TicketResent {
                was_due_at: match self.chance(80) {
                    true => record.due_at,
                    false => self.edge(),
                },
                due_at: self.edge(),
            },
            10 => BatchWrite::GiveUp {
                owner,
                due: Due {
                    at: self.edge(),
                    verify_at: self.chance(50).then(|| self.edge()),
                    turn_at: self.chance(50).then(|| self.edge()),
                },
                failure: self.chance(50).then(|| Failure {
                    at: self.edge(),
                    text: format!("failure {}", self.below(9)),
                }),
            },
            23 => self.reserve(record),
            24 => BatchWrite::Seal {
                at: self.time(),
                due_at: self.chance(50).then(|| self.time()),
                idle_since: self.chance(50).then(|| self.edge()),
            },
            25 => self.resolve(owner),
            26 => BatchWrite::Reported { owner },
            18 => self.note(record),
            27 | 28 => self.answered(record),
            19 | 20 => self.notices_sent(record),
            11 => BatchWrite::Fail {
                owner,
                error: format!("error {}", self.below(9)),
                notice: self.chance(50).then(|| self.notice(record, false)),
            },
            _ => self.complete(owner, record),
        }
    }

    /// Draws a reservation that just fits, or just does not.
    fn reserve(&self, record: &BatchRecord) -> BatchWrite {
        let reservations = record.reservations.clone().unwrap_or_default();
        let (seats, bytes) = (1 + self.below(3), self.below(100));
        BatchWrite::Reserve(Reservation {
            seats,
            bytes,
            at: self.edge(),
            until: self.edge(),
            limits: BatchLimits {
                items_max: self.near(reservations.reserved + seats),
                bytes_max: self.near(reservations.reserved_bytes + bytes),
            },
        })
    }

    fn resolve(&self, owner: LeaseOwner) -> BatchWrite {
        BatchWrite::Resolve {
            owner,
            winners: self.seqs(),
            resolution: Resolution {
                duplicates: self.seqs(),
                conflicts: self.seqs(),
                beyond_quota: self.seqs(),
                is_reported: self.chance(20),
            },
        }
    }

    fn note(&self, record: &BatchRecord) -> BatchWrite {
        let note = OperatorNote::new(
            self.edge(),
            "me",
            "retry",
            &format!("why {}", self.below(9)),
        );
        BatchWrite::Note {
            status: match self.chance(80) {
                true => record.status,
                false => Some(Status::Error),
            },
            attempts: self.near(record.attempts),
            notes_count: self.near(record.notes_count),
            notes: with_note(&record.notes, note),
        }
    }

    fn notice(&self, record: &BatchRecord, complete: bool) -> Notice {
        let notice = match complete {
            true => Notice::of_completion(record, self.edge()),
            false => Notice::of_error(record, &format!("error {}", self.below(9)), self.edge()),
        };
        // Few numbers, so that the last one is sometimes another of the same number.
        Notice {
            number: self.below(3),
            ..notice
        }
    }

    fn notices_sent(&self, record: &BatchRecord) -> BatchWrite {
        let last = record.notices.last().map_or(0, |notice| notice.number);
        BatchWrite::NoticesSent {
            status: match self.chance(90) {
                true => record.status,
                false => Some(Status::Error),
            },
            count: self.near(record.notices.len() as u64) as usize,
            last: match record.notices.is_empty() {
                true => 0,
                false => self.near(last),
            },
            due_at: self.edge(),
        }
    }

    fn witness(&self, record: &BatchRecord) -> BatchWrite {
        let mut witnessed = record.witnessed.clone();
        witnessed.extend_from(&self.seqs());
        BatchWrite::Witness {
            witnessed,
            witnesses: self.near(record.witnesses),
        }
    }

    fn lease(&self, owner: LeaseOwner) -> BatchWrite {
        BatchWrite::Lease {
            lease: Lease {
                owner,
                until: self.edge(),
            },
            at: self.edge(),
            operator: match self.below(5) {
                0 => Some(OperatorDecision::Retry),
                1 => Some(OperatorDecision::Quarantine),
                2 => Some(OperatorDecision::AcceptSink),
                _ => None,
            },
        }
    }

    fn delivered(&self, owner: LeaseOwner, record: &BatchRecord) -> BatchWrite {
        let index = self.near((record.parts.len() as u64).saturating_sub(1)) as usize;
        BatchWrite::Delivered {
            owner,
            index,
            receipt: format!("receipt {}", self.below(9)),
            delivered: self.chance(50).then(|| {
                let mut delivered = record.delivered.clone();
                if let Some(part) = record.parts.get(index) {
                    delivered.extend_from(&part.members);
                }
                delivered
            }),
            at: self.edge(),
            rejects: self.chance(50).then(|| self.rejects(record, index)),
        }
    }

    /// Draws events of delivered parts that an answer rejects.
    fn answered(&self, record: &BatchRecord) -> BatchWrite {
        let delivered = record.members().difference(&record.quarantined());
        let rejected: SeqSet = delivered.iter().filter(|_| self.chance(30)).collect();
        BatchWrite::Answered {
            set_aside: record.set_aside.union(&rejected),
            set_asides: self.near(record.set_asides),
        }
    }

    /// Draws rejected records of a part.
    fn rejects(&self, record: &BatchRecord, index: usize) -> Rejects {
        let members = record.parts.get(index).map(|part| &part.members);
        let members = members.into_iter().flat_map(SeqSet::iter);
        let rejected: SeqSet = members.filter(|_| self.chance(30)).collect();
        let mut set_aside = record.set_aside.clone();
        set_aside.extend_from(&rejected);
        Rejects {
            count: rejected.len() + self.below(2),
            set_aside,
            set_asides: self.near(record.set_asides),
        }
    }

    fn complete(&self, owner: LeaseOwner, record: &BatchRecord) -> BatchWrite {
        // Whole seconds, because the table stores `expiresAt` in seconds.
        let at = self.time();
        BatchWrite::Complete {
            owner,
            counts_version: self.near(record.counts_version),
            witnesses: self.near(record.witnesses),
            parts: self.near(record.parts.len() as u64) as usize,
            at,
            expires_at: record.kept_until(at),
            notice: self.chance(50).then(|| self.notice(record, true)),
        }
    }

    /// Draws a write that leaves a sound record if it applies. A sender of any other write would have a bug.
    fn sound_write(&self, record: &BatchRecord) -> BatchWrite {
        loop {
            let write = self.write(record);
            if matches!(&write, BatchWrite::Freeze { part, .. } if part.members.is_empty()) {
                continue;
            }
            if apply(record, &write).is_none_or(|next| record_is_sound(&next).is_ok()) {
                return write;
            }
        }
    }
}

fn kind(write: &BatchWrite) -> &'static str {
    match write {
        BatchWrite::Count { .. } => "count",
        BatchWrite::Seal { .. } => "seal",
        BatchWrite::Witness { .. } => "witness",
        BatchWrite::Lease { .. } => "lease",
        BatchWrite::Freeze { .. } => "freeze",
        BatchWrite::AcceptSink { .. } => "accept sink",
        BatchWrite::Number { .. } => "number",
        BatchWrite::Delivered { .. } => "delivered",
        BatchWrite::SetAside { .. } => "set aside",
        BatchWrite::TicketResent { .. } => "ticket resent",
        BatchWrite::GiveUp { .. } => "give up",
        BatchWrite::Fail { .. } => "fail",
        BatchWrite::Complete { .. } => "complete",
        BatchWrite::Note { .. } => "note",
        BatchWrite::Answered { .. } => "answered",
        BatchWrite::NoticesSent { .. } => "notices sent",
        BatchWrite::Reserve(_) => "reserve",
        BatchWrite::Resolve { .. } => "resolve",
        BatchWrite::Reported { .. } => "reported",
    }
}

/// Returns whether the write was applied, and the record.
fn outcome(reply: BatchReply) -> (bool, BatchRecord) {
    match reply {
        BatchReply::Applied(record) => (true, *record),
        BatchReply::Refused(Some(record)) => (false, *record),
        BatchReply::Refused(None) => panic!("the record is there"),
    }
}

/// Returns the batches in each list of the sweep.
async fn lists(store: &dyn BatchStore) -> Vec<Vec<Overdue>> {
    let mut lists = Vec::new();
    let statuses = Status::ALL.map(Listing::Status);
    for listing in statuses.into_iter().chain([Listing::Notices]) {
        lists.push(listed(store, listing, Timestamp::FAR_FUTURE).await);
    }
    lists
}

#[tokio::test]
async fn every_write_has_the_same_effect_on_dynamodb_as_in_the_protocol() {
    let (memory, dynamo) = (MemoryBatchStore::new(), dynamo::batch_store().await);
    let mut seen: BTreeMap<(&str, &str, bool), usize> = BTreeMap::new();
    let seeds = if runs_all_cases() { 400 } else { 240 };
    for seed in 0..seeds {
        let draw = Draw(SeededEntropy::new(seed));
        let id = batch(u128::from(seed));
        let bodies: Bodies = BODIES[seed as usize % BODIES.len()].parse().unwrap();
        let window = Duration::from_secs(draw.below(1_000_000));
        let layout = match bodies.is_log() {
            true => "log",
            false => "items",
        };
        let mut now = match seed % 4 {
            // A version before 0.3 opened it.
            2 => record(id),
            _ => record(id).with_bodies(bodies, window),
        };
        memory.create(&now).await.unwrap();
        dynamo.create(&now).await.unwrap();
        for step in 0..WRITES_PER_SEED {
            let write = draw.sound_write(&now);
            let expected = outcome(memory.write(id, &write).await.unwrap());
            let found = outcome(dynamo.write(id, &write).await.unwrap());
            assert_eq!(
                found, expected,
                "seed {seed}, step {step}: {write:?} on {now:?}"
            );
            *seen.entry((layout, kind(&write), expected.0)).or_default() += 1;
            now = expected.1;
            if step % 7 == 0 {
                let (found, expected) = (lists(&dynamo).await, lists(&memory).await);
                assert_eq!(found, expected, "after {write:?}");
            }
        }
        assert_eq!(dynamo.read(id).await.unwrap(), Some(now), "seed {seed}");
    }
    // Each of nineteen kinds, applied and refused, in two layouts; but no batch of claims is resolved, and none of the log counted.
    assert_eq!(seen.len(), 2 * (2 * 19 - 1), "{seen:?}");
    assert!(seen.values().all(|count| *count >= 3), "{seen:?}");
}

#[tokio::test]
async fn a_write_without_a_record_is_refused_and_creates_no_record() {
    let (memory, dynamo) = (MemoryBatchStore::new(), dynamo::batch_store().await);
    let id = batch(1);
    let mut seen = BTreeSet::new();
    for (seed, bodies) in (0..).zip(BODIES) {
        let draw = Draw(SeededEntropy::new(seed));
        let absent = record(id).with_bodies(bodies.parse().unwrap(), Duration::ZERO);
        for _ in 0..200 {
            let write = draw.sound_write(&absent);
            for store in [&memory as &dyn BatchStore, &dynamo] {
                let reply = store.write(id, &write).await.unwrap();
                let is_refused = matches!(reply, BatchReply::Refused(None));
                assert!(is_refused, "{write:?}: {reply:?}");
            }
            seen.insert(kind(&write));
        }
        assert_eq!(dynamo.read(id).await.unwrap(), None);
        assert_eq!(memory.read(id).await.unwrap(), None);
    }
    assert_eq!(seen.len(), 19, "{seen:?}");
}
