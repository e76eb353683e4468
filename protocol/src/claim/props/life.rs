//! Properties of the whole life of an event id.

use std::collections::BTreeMap;

use super::*;

/// One thing that happens to an event id.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// The aggregator receives a message with the event id.
    Arrive { message: u8, body: u8 },
    /// The batch of the live claim completes, and has delivered the claim or not.
    End { delivered: bool },
    /// The live claim is released, after its delivery.
    Release,
    /// Time passes.
    Pass { ms: u64 },
    /// The TTL of the table removes an expired tombstone.
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

/// The lock item of one event id, and the deliveries so far.
struct Life {
    rule: DuplicateRule,
    now: Timestamp,
    item: Option<LockItem>,
    resolution: SeatResolution,
    next_seq: Seq,
    /// The last delivery of each message: the end of its dedup window, and its body hash.
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
        let decision = match classify(candidate, None, &item, &rules_of(self.rule), self.now) {
            Decision::Live(existing) => {
                let (resolution, rules) = (self.resolution, rules_of(self.rule));
                decide_live(candidate, &item, existing, resolution, &rules, self.now)
            }
            decision @ (Decision::Done(_) | Decision::Replace { .. }) => decision,
        };
        match decision {
            Decision::Replace { past, .. } => self.claim(candidate, past),
            Decision::Live(_) => Err(TestCaseError::fail("a live claim was not settled")),
            Decision::Done(outcome) if outcome.response(self.rule) == Response::Success => {
                self.must_be_safe_to_drop(candidate, &item)
            }
            Decision::Done(_) => Ok(()),
        }
    }

    /// Claims the event, and checks that the message was not delivered within its dedup window.
    fn claim(&mut self, candidate: &Candidate, past: PastDeliveries) -> Result<(), TestCaseError> {
        let until = self.delivered.get(&candidate.sqs_message_id);
        prop_assert!(
            until.is_none_or(|(until, _)| *until <= self.now),
            "{:?} would be delivered again",
            candidate.sqs_message_id
        );
        let seat = seat(self.next_seq.into(), self.next_seq);
        self.item = Some(LockItem {
            past,
            ..live(candidate, seat)
        });
        self.next_seq += 1;
        self.resolution = SeatResolution::Alive;
        Ok(())
    }

    /// Checks that the event of an acknowledged message was or will be delivered, by this or another message with the
    /// same content.
    fn must_be_safe_to_drop(
        &self,
        candidate: &Candidate,
        item: &LockItem,
    ) -> Result<(), TestCaseError> {
        let live = matches!(item.state, LockState::Live { .. });
        let held = live && self.resolution == SeatResolution::Alive;
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

    fn live(&self) -> Option<LockItem> {
        let item = self.item.clone()?;
        matches!(item.state, LockState::Live { .. }).then_some(item)
    }

    fn end(&mut self, delivers: bool) {
        let Some(item) = self.live() else {
            return;
        };
        if self.resolution != SeatResolution::Alive {
            return;
        }
        self.resolution = SeatResolution::Orphan;
        if delivers {
            let until = self.now + WINDOW;
            self.delivered
                .insert(item.sqs_message_id, (until, item.body_hash));
            self.resolution = SeatResolution::Delivered { until };
        }
    }

    fn release(&mut self) {
        let Some(item) = self.live() else {
            return;
        };
        if self.resolution == SeatResolution::Orphan {
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
            resolution: SeatResolution::Orphan,
            next_seq: 0,
            delivered: BTreeMap::new(),
        };
        for step in steps {
            life.take(step)?;
        }
    }
}
