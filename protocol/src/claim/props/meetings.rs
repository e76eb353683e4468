//! Properties of every decision on a message that meets an item.

use super::*;

/// A message, the item that it meets, and everything else that decides the decision.
#[derive(Clone, Debug)]
struct Case {
    candidate: Candidate,
    own: Option<Seat>,
    item: LockItem,
    resolution: SeatResolution,
    rule: DuplicateRule,
}

fn cases() -> impl Strategy<Value = Case> {
    let own = prop::option::of(seats());
    (candidates(), own, items(), resolutions(), rules()).prop_map(
        |(candidate, own, item, resolution, rule)| Case {
            candidate,
            own,
            item,
            resolution,
            rule,
        },
    )
}

impl Case {
    fn now(&self) -> Timestamp {
        Timestamp::from_ms(NOW)
    }

    /// Returns the decision, with the resolution of the batch if it is needed.
    fn decision(&self) -> Decision {
        let (candidate, item, now) = (&self.candidate, &self.item, self.now());
        let rules = rules_of(self.rule);
        match classify(candidate, self.own, item, &rules, now) {
            Decision::Live(existing) => {
                decide_live(candidate, item, existing, self.resolution, &rules, now)
            }
            decision @ (Decision::Done(_) | Decision::Replace { .. }) => decision,
        }
    }

    fn same_message(&self) -> bool {
        self.candidate.sqs_message_id == self.item.sqs_message_id
    }

    fn claimed(&self) -> bool {
        self.item.state.claimed_seat().is_some()
    }

    /// Returns whether the item is a claim and its batch will deliver it.
    fn held(&self) -> bool {
        self.claimed() && self.resolution == SeatResolution::Alive
    }

    /// Returns the end of the dedup window of the item's own delivery, if there was one.
    fn delivered_until(&self) -> Option<Timestamp> {
        match (self.item.state, self.resolution) {
            (LockState::Tombstone { expires_at }, _) => {
                (!self.item.set_aside).then_some(expires_at)
            }
            (_, SeatResolution::Delivered { until }) => Some(until),
            _ => None,
        }
    }

    /// Returns whether the item shows that the candidate's message was delivered.
    fn own_delivery_is_known(&self) -> bool {
        let past = self.item.past.get(&self.candidate.sqs_message_id);
        past.is_some_and(|until| *until > self.now())
            || (self.same_message() && self.delivered_until().is_some())
    }

    /// Returns whether the candidate is the message whose event an operator sent to the quarantine.
    fn is_set_aside(&self) -> bool {
        self.set_aside_until().is_some() && self.same_message()
    }

    /// Returns until when the message of the item is remembered as set aside, if an operator sent it to the quarantine.
    fn set_aside_until(&self) -> Option<Timestamp> {
        match (self.item.state, self.resolution) {
            (LockState::Tombstone { expires_at }, _) => self.item.set_aside.then_some(expires_at),
            (_, SeatResolution::SetAside { until }) => Some(until),
            _ => None,
        }
    }

    /// Returns the messages that a claim which replaces the item must remember, even if there are too many.
    fn to_remember(&self) -> PastDeliveries {
        let mut known = self.item.past.clone();
        let own = self.delivered_until().or(self.set_aside_until());
        known.extend(own.map(|until| (self.item.sqs_message_id.clone(), until)));
        known.retain(|_, until| *until > self.now());
        known
    }

    /// Returns whether an earlier attempt of the candidate wrote the item.
    fn own_claim(&self) -> bool {
        let is_own = |seat| self.item.state.is_claim_of(seat);
        self.same_message() && self.own.is_some_and(is_own)
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn only_an_own_claim_is_recognised_as_own(case in cases()) {
        let claimed = case.decision() == Decision::Done(Outcome::Claimed);
        prop_assert_eq!(claimed, case.own_claim());
    }

    #[test]
    fn a_message_is_acknowledged_only_if_its_event_is_held_or_was_delivered(case in cases()) {
        let Decision::Done(outcome) = case.decision() else {
            return Ok(());
        };
        if outcome.response(case.rule) != Response::Success || case.own_claim() {
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
            prop_assert_eq!(case.decision(), Decision::Done(Outcome::RedeliveredLate));
        }
    }

    #[test]
    fn a_message_that_was_delivered_is_never_claimed_again(case in cases()) {
        if case.own_delivery_is_known() && !case.own_claim() {
            let past = case.item.past.get(&case.candidate.sqs_message_id);
            let own = case.delivered_until().filter(|_| case.same_message());
            let in_window = |until: Timestamp| until > case.now();
            // A past delivery may have gone to the quarantine, so it is no reason to drop another message.
            let outcome = match past.copied().is_none_or(|until| !in_window(until)) {
                true if own.is_some_and(in_window) => Outcome::Redelivered,
                _ => Outcome::RedeliveredLate,
            };
            prop_assert_eq!(case.decision(), Decision::Done(outcome));
        }
    }

    #[test]
    fn a_claim_that_will_be_delivered_is_never_replaced(case in cases()) {
        if case.held() {
            prop_assert!(matches!(case.decision(), Decision::Done(_)));
        }
    }

    #[test]
    fn a_free_event_is_claimed_by_the_next_message(case in cases()) {
        let over = case.delivered_until().is_none_or(|until| until <= case.now());
        let known = case.own_delivery_is_known() || case.is_set_aside();
        let unclear = case.claimed() && case.resolution == SeatResolution::Unknown;
        if over && !case.held() && !unclear && !known && !case.own_claim() {
            // If the item cannot remember one more message, the candidate fails and is redelivered.
            let decision = case.decision();
            match case.to_remember().len() > PAST_DELIVERIES_MAX {
                true => prop_assert_eq!(decision, Decision::Done(Outcome::Failed)),
                false => prop_assert!(matches!(decision, Decision::Replace { .. }), "{decision:?}"),
            }
        }
    }

    #[test]
    fn a_replacing_claim_remembers_exactly_the_deliveries_within_their_window(case in cases()) {
        let Decision::Replace { past, .. } = case.decision() else {
            return Ok(());
        };
        prop_assert_eq!(&past, &case.to_remember());
        prop_assert!(past.len() <= PAST_DELIVERIES_MAX);
        prop_assert!(!past.contains_key(&case.candidate.sqs_message_id));
    }

    #[test]
    fn other_content_under_the_same_id_is_never_dropped(case in cases()) {
        let is_same = case.candidate.body_hash == case.item.body_hash;
        let is_known = is_same || case.same_message() || case.own_delivery_is_known();
        if !is_known && let Decision::Done(outcome) = case.decision() {
            prop_assert_ne!(outcome.response(case.rule), Response::Success);
        }
    }

    #[test]
    fn a_repeat_is_dropped_only_with_the_content_of_the_message_that_holds_the_event(
        case in cases(), repeat in candidates(), fails in prop::bool::weighted(0.1),
    ) {
        // The write of a first that replaces an item may succeed or fail.
        let first = &case.candidate;
        let (outcome, winner) = match case.decision() {
            _ if fails => (Outcome::Failed, None),
            Decision::Done(outcome) => (outcome, Some(&case.item)),
            Decision::Replace { .. } | Decision::Live(_) => (Outcome::Claimed, None),
        };
        let of_repeat = classify_repeat(&repeat, first, outcome, winner);
        if repeat.sqs_message_id == first.sqs_message_id {
            prop_assert_eq!(of_repeat, outcome);
        } else if of_repeat.response(case.rule) == Response::Success {
            prop_assert_eq!(of_repeat, Outcome::Duplicate);
            let holder = match outcome {
                Outcome::Claimed | Outcome::Redelivered => first.body_hash,
                _ => case.item.body_hash,
            };
            prop_assert_eq!(repeat.body_hash, holder);
            prop_assert_ne!(outcome, Outcome::Failed);
            // The delivery of the first message must still be within its window.
            prop_assert_ne!(outcome, Outcome::RedeliveredLate);
        }
    }
}
