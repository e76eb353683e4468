//! What holds of every meeting of a message with an item, and of the whole life of an event id.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::ids::{BatchId, BatchShard};
use crate::limits::PAST_DELIVERIES_MAX;

const NOW: u64 = 1_000_000;
const WINDOW: Duration = Duration::from_millis(100);

/// As [`super::classify`], with the rules of this file.
fn classify(
    candidate: &Candidate,
    own: Option<Seat>,
    item: &LockItem,
    rule: DuplicateRule,
    now: Timestamp,
) -> Verdict {
    super::classify(candidate, own, item, &rules_of(rule), now)
}

/// As [`super::settle_live`], with the rules of this file.
fn settle_live(
    candidate: &Candidate,
    item: &LockItem,
    meeting: Meeting,
    fate: &BatchFate,
    rule: DuplicateRule,
    now: Timestamp,
) -> Verdict {
    super::settle_live(candidate, item, meeting, fate, &rules_of(rule), now)
}

fn rules_of(on_duplicate: DuplicateRule) -> ClaimRules {
    ClaimRules {
        on_duplicate,
        dedup_window: WINDOW,
        past_deliveries_max: PAST_DELIVERIES_MAX,
    }
}

/// Times around now, so that what ends now is often among them.
fn time() -> impl Strategy<Value = Timestamp> {
    (NOW - 5..NOW + 5).prop_map(Timestamp::from_ms)
}

fn message_id(number: u8) -> SqsMessageId {
    format!("m{number}").parse().unwrap()
}

fn candidate(message: u8, body: u8) -> Candidate {
    let body = format!("body {body}");
    Candidate {
        event_id: "event".parse().unwrap(),
        sqs_message_id: message_id(message),
        body_hash: BodyHash::of(body.as_bytes()),
        body: body.into(),
        compressed: None,
        source: "arn:q".parse().unwrap(),
        sent_at: Timestamp::from_ms(NOW),
        attributes: None,
    }
}

fn candidates() -> impl Strategy<Value = Candidate> {
    (0..4_u8, 0..2_u8).prop_map(|(message, body)| candidate(message, body))
}

fn rules() -> impl Strategy<Value = DuplicateRule> {
    prop_oneof![Just(DuplicateRule::Drop), Just(DuplicateRule::Requeue)]
}

fn seats() -> impl Strategy<Value = Seat> {
    (0..2_u128, 0..3_u32).prop_map(|(batch, seq)| Seat {
        batch: BatchId::new(uuid::Uuid::from_u128(batch)),
        seq,
        shards: 2,
    })
}

fn states() -> impl Strategy<Value = LockState> {
    prop_oneof![
        seats().prop_map(|seat| LockState::Live {
            shard: seat.shard(),
            seq: seat.seq,
        }),
        time().prop_map(|expires_at| LockState::Tombstone { expires_at }),
    ]
}

/// Past deliveries, sometimes as many as an item may have. None is of the message that made the item: while it is
/// remembered it claims nothing, and a claim takes along only what is still remembered.
fn items() -> impl Strategy<Value = LockItem> {
    let past = prop::collection::btree_map(0..4_u8, time(), 0..3);
    let more = prop_oneof![4 => Just(0), 1 => PAST_DELIVERIES_MAX - 2..=PAST_DELIVERIES_MAX];
    let set_aside = prop::bool::weighted(0.2);
    (candidates(), past, more, states(), set_aside).prop_map(|(maker, past, more, state, aside)| {
        let past = past.into_iter().map(|(id, until)| (message_id(id), until));
        let others = (100..).map(|id| (message_id(id), Timestamp::from_ms(NOW + 1)));
        let mut past: PastDeliveries = others.take(more).chain(past).collect();
        past.remove(&maker.sqs_message_id);
        while past.len() > PAST_DELIVERIES_MAX {
            past.pop_first();
        }
        LockItem {
            sqs_message_id: maker.sqs_message_id,
            body_hash: maker.body_hash,
            past,
            state,
            // Only tombstones say so; of a live claim its batch does.
            set_aside: aside && matches!(state, LockState::Tombstone { .. }),
        }
    })
}

fn fates() -> impl Strategy<Value = BatchFate> {
    let delivered = prop::collection::vec(0..3_u32, 0..3);
    let set_aside = prop::collection::vec(0..3_u32, 0..2);
    let completed_at = (NOW - 110..NOW - 90).prop_map(Timestamp::from_ms);
    prop_oneof![
        Just(BatchFate::Alive),
        Just(BatchFate::Unknown),
        (delivered, set_aside, completed_at).prop_map(|(delivered, set_aside, completed_at)| {
            BatchFate::Ended {
                delivered: delivered.into_iter().chain(set_aside.clone()).collect(),
                set_aside: set_aside.into_iter().collect(),
                completed_at,
            }
        }),
    ]
}

/// One meeting, with everything that decides it.
#[derive(Clone, Debug)]
struct Case {
    candidate: Candidate,
    own: Option<Seat>,
    item: LockItem,
    fate: BatchFate,
    rule: DuplicateRule,
}

fn cases() -> impl Strategy<Value = Case> {
    let own = prop::option::of(seats());
    (candidates(), own, items(), fates(), rules()).prop_map(|(candidate, own, item, fate, rule)| {
        Case {
            candidate,
            own,
            item,
            fate,
            rule,
        }
    })
}

impl Case {
    fn now(&self) -> Timestamp {
        Timestamp::from_ms(NOW)
    }

    /// The verdict, the batch having been asked where that is needed.
    fn verdict(&self) -> Verdict {
        let Case {
            candidate,
            item,
            fate,
            rule,
            ..
        } = self;
        match classify(candidate, self.own, item, *rule, self.now()) {
            Verdict::Live(meeting) => {
                settle_live(candidate, item, meeting, fate, *rule, self.now())
            }
            verdict @ (Verdict::Done(_) | Verdict::Replace { .. }) => verdict,
        }
    }

    fn same_message(&self) -> bool {
        self.candidate.sqs_message_id == self.item.sqs_message_id
    }

    /// Whether the item is live and its batch will deliver it.
    fn held(&self) -> bool {
        matches!(self.item.state, LockState::Live { .. }) && self.fate == BatchFate::Alive
    }

    /// The end of the dedup window of the item's own delivery, if there was one.
    fn delivered_until(&self) -> Option<Timestamp> {
        match (&self.item.state, &self.fate) {
            (LockState::Tombstone { expires_at }, _) => {
                (!self.item.set_aside).then_some(*expires_at)
            }
            (
                LockState::Live { seq, .. },
                BatchFate::Ended {
                    delivered,
                    set_aside,
                    completed_at,
                },
            ) => (delivered.contains(*seq) && !set_aside.contains(*seq))
                .then_some(*completed_at + WINDOW),
            (LockState::Live { .. }, BatchFate::Alive | BatchFate::Unknown) => None,
        }
    }

    /// Whether the candidate's own message was delivered, as far as the item knows.
    fn own_delivery_is_known(&self) -> bool {
        let past = self.item.past.get(&self.candidate.sqs_message_id);
        past.is_some_and(|until| *until > self.now())
            || (self.same_message() && self.delivered_until().is_some())
    }

    /// Whether the candidate is the message whose event an operator sent to the quarantine.
    fn is_set_aside(&self) -> bool {
        self.set_aside_until().is_some() && self.same_message()
    }

    /// Until when the message of the item is remembered as set aside, if an operator sent it to the quarantine.
    fn set_aside_until(&self) -> Option<Timestamp> {
        match (&self.item.state, &self.fate) {
            (LockState::Tombstone { expires_at }, _) => self.item.set_aside.then_some(*expires_at),
            (
                LockState::Live { seq, .. },
                BatchFate::Ended {
                    set_aside,
                    completed_at,
                    ..
                },
            ) => set_aside.contains(*seq).then_some(*completed_at + WINDOW),
            (LockState::Live { .. }, BatchFate::Alive | BatchFate::Unknown) => None,
        }
    }

    /// The messages that a claim which takes the item's place must remember, whether or not there is room for all.
    fn to_remember(&self) -> PastDeliveries {
        let mut known = self.item.past.clone();
        let own = self.delivered_until().or(self.set_aside_until());
        known.extend(own.map(|until| (self.item.sqs_message_id.clone(), until)));
        known.retain(|_, until| *until > self.now());
        known
    }

    /// Whether the item is what the candidate itself just wrote.
    fn own_claim(&self) -> bool {
        let seat = self.own.map(|seat| LockState::Live {
            shard: seat.shard(),
            seq: seat.seq,
        });
        self.same_message() && seat == Some(self.item.state)
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn an_own_claim_is_recognised_and_nothing_else_is_taken_for_one(case in cases()) {
        let claimed = case.verdict() == Verdict::Done(Outcome::Claimed);
        prop_assert_eq!(claimed, case.own_claim());
    }

    #[test]
    fn success_is_answered_only_for_what_is_held_or_was_delivered(case in cases()) {
        let Verdict::Done(outcome) = case.verdict() else {
            return Ok(());
        };
        if outcome.answer(case.rule) != Answer::Success || case.own_claim() {
            return Ok(());
        }
        let in_window = case.delivered_until().is_some_and(|until| until > case.now());
        let redelivered = case.own_delivery_is_known() || (case.same_message() && case.held());
        let duplicate = case.rule == DuplicateRule::Drop
            && case.candidate.body_hash == case.item.body_hash
            && (case.held() || in_window);
        prop_assert!(redelivered || duplicate || case.is_set_aside(), "{outcome:?}");
    }

    #[test]
    fn a_message_in_the_quarantine_is_not_claimed_again_and_others_may_claim_its_event(case in cases()) {
        let past = case.item.past.get(&case.candidate.sqs_message_id);
        let known = past.is_some_and(|until| *until > case.now()) || case.own_claim();
        if case.is_set_aside() && !known {
            prop_assert_eq!(case.verdict(), Verdict::Done(Outcome::RedeliveredLate));
        }
    }

    #[test]
    fn a_message_that_was_delivered_is_never_claimed_again(case in cases()) {
        if case.own_delivery_is_known() && !case.own_claim() {
            let past = case.item.past.get(&case.candidate.sqs_message_id);
            let own = case.delivered_until().filter(|_| case.same_message());
            let in_window = past.copied().into_iter().chain(own).any(|until| until > case.now());
            let outcome = match in_window {
                true => Outcome::Redelivered,
                false => Outcome::RedeliveredLate,
            };
            prop_assert_eq!(case.verdict(), Verdict::Done(outcome));
        }
    }

    #[test]
    fn a_claim_that_will_be_delivered_is_never_replaced(case in cases()) {
        if case.held() {
            prop_assert!(matches!(case.verdict(), Verdict::Done(_)));
        }
    }

    #[test]
    fn what_is_free_is_claimed_by_whoever_comes(case in cases()) {
        let over = case.delivered_until().is_none_or(|until| until <= case.now());
        let known = case.own_delivery_is_known() || case.is_set_aside();
        if over && !case.held() && !known && !case.own_claim() {
            // Where there is no room to remember who was set aside, it comes back once there is.
            let verdict = case.verdict();
            match case.to_remember().len() > PAST_DELIVERIES_MAX {
                true => prop_assert_eq!(verdict, Verdict::Done(Outcome::Failed)),
                false => prop_assert!(matches!(verdict, Verdict::Replace { .. }), "{verdict:?}"),
            }
        }
    }

    #[test]
    fn a_replacing_claim_remembers_every_delivery_that_is_in_its_window_and_no_other(case in cases()) {
        let Verdict::Replace { past } = case.verdict() else {
            return Ok(());
        };
        prop_assert_eq!(&past, &case.to_remember());
        prop_assert!(past.len() <= PAST_DELIVERIES_MAX);
        prop_assert!(!past.contains_key(&case.candidate.sqs_message_id));
    }

    #[test]
    fn other_content_under_the_same_id_is_never_dropped(case in cases()) {
        if case.same_message()
            || case.own_delivery_is_known()
            || case.candidate.body_hash == case.item.body_hash
        {
            return Ok(());
        }
        if let Verdict::Done(outcome) = case.verdict() {
            prop_assert_ne!(outcome.answer(case.rule), Answer::Success);
        }
    }

    #[test]
    fn a_follower_is_dropped_only_with_the_same_content_as_who_holds_the_event(
        case in cases(), follower in candidates(), fails in prop::bool::weighted(0.1),
    ) {
        // The leader's outcome is what its meeting came to; a replacing write succeeded or failed.
        let leader = &case.candidate;
        let (outcome, winner) = match case.verdict() {
            _ if fails => (Outcome::Failed, None),
            Verdict::Done(outcome) => (outcome, Some(&case.item)),
            Verdict::Replace { .. } | Verdict::Live(_) => (Outcome::Claimed, None),
        };
        let followed = classify_follower(&follower, leader, outcome, winner);
        if follower.sqs_message_id == leader.sqs_message_id {
            prop_assert_eq!(followed, outcome);
        } else if followed.answer(case.rule) == Answer::Success {
            prop_assert_eq!(followed, Outcome::Duplicate);
            let holder = match outcome {
                Outcome::Claimed | Outcome::Redelivered => leader.body_hash,
                _ => case.item.body_hash,
            };
            prop_assert_eq!(follower.body_hash, holder);
            prop_assert_ne!(outcome, Outcome::Failed);
            // What the leader repeats must still be remembered.
            prop_assert_ne!(outcome, Outcome::RedeliveredLate);
        }
    }
}

/// What happens to an event id.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// A message with it is delivered to the aggregator.
    Arrive { message: u8, body: u8 },
    /// The live claim's batch completes, with the claim delivered or without it.
    End { delivered: bool },
    /// The live claim is released, having been delivered.
    Release,
    /// Time passes.
    Pass { ms: u64 },
    /// The table forgets a tombstone whose time has come.
    Forget,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (0..4_u8, prop_oneof![4 => Just(0), 1 => Just(1)])
            .prop_map(|(message, body)| Step::Arrive { message, body }),
        1 => any::<bool>().prop_map(|delivered| Step::End { delivered }),
        2 => Just(Step::Release),
        1 => (1..80_u64).prop_map(|ms| Step::Pass { ms }),
        1 => Just(Step::Forget),
    ];
    prop::collection::vec(step, 1..60)
}

/// The lock table's item of one event id, and what was promised about it.
struct Life {
    rule: DuplicateRule,
    now: Timestamp,
    item: Option<LockItem>,
    fate: BatchFate,
    next_seq: Seq,
    /// The last delivery of each message: the end of its window, and its content.
    delivered: BTreeMap<SqsMessageId, (Timestamp, BodyHash)>,
}

impl Life {
    fn take(&mut self, step: Step) -> Result<(), TestCaseError> {
        match step {
            Step::Arrive { message, body } => self.arrive(&candidate(message, body))?,
            Step::End { delivered } => self.end(delivered),
            Step::Release => self.release(),
            Step::Pass { ms } => self.now = self.now + Duration::from_millis(ms),
            Step::Forget => {
                let over = self.item.as_ref().is_some_and(|item| match item.state {
                    LockState::Live { .. } => false,
                    LockState::Tombstone { expires_at } => expires_at <= self.now,
                });
                if over {
                    self.item = None;
                }
            }
        }
        Ok(())
    }

    fn arrive(&mut self, candidate: &Candidate) -> Result<(), TestCaseError> {
        let Some(item) = self.item.clone() else {
            return self.claim(candidate, PastDeliveries::new());
        };
        let verdict = match classify(candidate, None, &item, self.rule, self.now) {
            Verdict::Live(meeting) => {
                let (fate, rule) = (&self.fate, self.rule);
                settle_live(candidate, &item, meeting, fate, rule, self.now)
            }
            verdict @ (Verdict::Done(_) | Verdict::Replace { .. }) => verdict,
        };
        match verdict {
            Verdict::Replace { past } => self.claim(candidate, past),
            Verdict::Live(_) => Err(TestCaseError::fail("a live claim was not settled")),
            Verdict::Done(outcome) if outcome.answer(self.rule) == Answer::Success => {
                self.must_be_safe_to_drop(candidate, &item)
            }
            Verdict::Done(_) => Ok(()),
        }
    }

    /// No message is claimed within the window of its own delivery.
    fn claim(&mut self, candidate: &Candidate, past: PastDeliveries) -> Result<(), TestCaseError> {
        let until = self.delivered.get(&candidate.sqs_message_id);
        prop_assert!(
            until.is_none_or(|(until, _)| *until <= self.now),
            "{:?} would be delivered again",
            candidate.sqs_message_id
        );
        self.item = Some(LockItem {
            sqs_message_id: candidate.sqs_message_id.clone(),
            body_hash: candidate.body_hash,
            past,
            state: LockState::Live {
                shard: BatchShard {
                    batch: BatchId::new(uuid::Uuid::from_u128(u128::from(self.next_seq))),
                    shard: 0,
                },
                seq: self.next_seq,
            },
            set_aside: false,
        });
        self.next_seq += 1;
        self.fate = BatchFate::Alive;
        Ok(())
    }

    /// What is acknowledged was delivered, or will be; itself, or the same content.
    fn must_be_safe_to_drop(
        &self,
        candidate: &Candidate,
        item: &LockItem,
    ) -> Result<(), TestCaseError> {
        let live = matches!(item.state, LockState::Live { .. });
        let held = live && self.fate == BatchFate::Alive;
        let same = |id: &SqsMessageId, hash: BodyHash| {
            *id == candidate.sqs_message_id
                || (self.rule == DuplicateRule::Drop && hash == candidate.body_hash)
        };
        let safe = (held && same(&item.sqs_message_id, item.body_hash))
            || self.delivered.iter().any(|(id, (until, hash))| {
                *id == candidate.sqs_message_id || (*until > self.now && same(id, *hash))
            });
        prop_assert!(safe, "{:?} is dropped and lost", candidate.sqs_message_id);
        Ok(())
    }

    fn live(&self) -> Option<(LockItem, Seq)> {
        let item = self.item.clone()?;
        match item.state {
            LockState::Live { seq, .. } => Some((item, seq)),
            LockState::Tombstone { .. } => None,
        }
    }

    fn end(&mut self, with_it: bool) {
        let Some((item, seq)) = self.live() else {
            return;
        };
        if self.fate != BatchFate::Alive {
            return;
        }
        if with_it {
            let until = self.now + WINDOW;
            self.delivered
                .insert(item.sqs_message_id, (until, item.body_hash));
        }
        self.fate = BatchFate::Ended {
            delivered: with_it.then_some(seq).into_iter().collect(),
            set_aside: SeqSet::new(),
            completed_at: self.now,
        };
    }

    fn release(&mut self) {
        let Some((item, seq)) = self.live() else {
            return;
        };
        if matches!(&self.fate, BatchFate::Ended { delivered, .. } if !delivered.contains(seq)) {
            return;
        }
        let expires_at = self.now + WINDOW;
        self.delivered
            .insert(item.sqs_message_id.clone(), (expires_at, item.body_hash));
        self.item = Some(LockItem {
            state: LockState::Tombstone { expires_at },
            ..item
        });
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn over_the_life_of_an_event_id_nothing_is_lost_and_nothing_delivered_twice(
        rule in rules(), steps in steps(),
    ) {
        let mut life = Life {
            rule,
            now: Timestamp::from_ms(NOW),
            item: None,
            fate: BatchFate::Unknown,
            next_seq: 0,
            delivered: BTreeMap::new(),
        };
        for step in steps {
            life.take(step)?;
        }
    }
}
