//! What is left of a burst that ended early, so that a later run can continue it.

use serde::{Deserialize, Serialize};

/// How far a burst got: every message below `next` is acknowledged, unless it is listed here.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SendState {
    /// The first message that was never sent.
    pub next: u64,
    /// Earlier messages that are not in the queue.
    pub unsent: Vec<u64>,
    /// Earlier messages whose reply was lost: they may be in the queue.
    pub unsure: Vec<u64>,
    /// The total length of the acknowledged bodies.
    pub bytes: u64,
    /// The number of requests that were retries.
    pub retries: u64,
    /// The number of messages that were sent again after a lost reply and may be in the queue twice.
    pub resent_unsure: u64,
}

/// A message that is not acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Left {
    pub message: u64,
    /// Whether a reply was lost, so that the message may be in the queue.
    pub unsure: bool,
}

impl SendState {
    /// Returns the number of acknowledged messages.
    pub fn acknowledged(&self) -> u64 {
        self.next
            .saturating_sub((self.unsent.len() + self.unsure.len()) as u64)
    }

    /// Returns whether the state may be one of a burst of `messages` messages.
    pub(super) fn fits(&self, messages: u64) -> bool {
        let mut left: Vec<u64> = self.left().iter().map(|left| left.message).collect();
        left.dedup();
        self.next <= messages
            && left.len() == self.unsent.len() + self.unsure.len()
            && left.last().is_none_or(|last| *last < self.next)
    }

    /// Returns the messages that are not acknowledged, in order.
    pub(super) fn left(&self) -> Vec<Left> {
        let unsent = self.unsent.iter().map(|message| (message, false));
        let unsure = self.unsure.iter().map(|message| (message, true));
        let all = unsent.chain(unsure);
        let mut left: Vec<Left> = all
            .map(|(&message, unsure)| Left { message, unsure })
            .collect();
        left.sort();
        left
    }

    /// Replaces the messages that are not acknowledged.
    pub(super) fn set_left(&mut self, mut left: Vec<Left>) {
        left.sort();
        let of = |unsure| left.iter().filter(move |left| left.unsure == unsure);
        self.unsent = of(false).map(|left| left.message).collect();
        self.unsure = of(true).map(|left| left.message).collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_listed_below_next_is_acknowledged() {
        let mut state = SendState {
            next: 30,
            ..SendState::default()
        };
        let left = |message, unsure| Left { message, unsure };
        state.set_left(vec![left(29, false), left(4, true), left(7, false)]);
        assert_eq!((&*state.unsent, &*state.unsure), (&[7, 29][..], &[4][..]));
        assert_eq!(state.acknowledged(), 27);
        let in_order = [left(4, true), left(7, false), left(29, false)];
        assert_eq!(state.left(), in_order);
    }

    #[test]
    fn a_state_of_another_burst_does_not_fit() {
        let state = |next, unsent: &[u64], unsure: &[u64]| SendState {
            next,
            unsent: unsent.to_vec(),
            unsure: unsure.to_vec(),
            ..SendState::default()
        };
        assert!(state(10, &[3, 9], &[4]).fits(10));
        // More messages than the burst has, a message that was never sent, and one twice.
        assert!(!state(11, &[], &[]).fits(10));
        assert!(!state(5, &[5], &[]).fits(10));
        assert!(!state(5, &[3], &[3]).fits(10));
    }
}
