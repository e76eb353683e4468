//! Claims that this environment made in an open batch, so that their duplicates and redeliveries cost no write: DynamoDB charges a
//! conditional write that fails like one that succeeds.

use std::collections::HashMap;

use protocol::claim::{Candidate, ExistingClaim};
use protocol::ids::BodyHash;

/// A hash of 16 bytes, which takes less memory than an id.
type Digest = BodyHash;

/// Claims in a batch whose slots are filled, so that the batch cannot complete without them.
#[derive(Debug, Default)]
pub(crate) struct RememberedClaims(HashMap<Digest, Known>);

#[derive(Debug)]
struct Known {
    message: Digest,
    body: BodyHash,
}

impl RememberedClaims {
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Remembers that `candidate` claimed its event.
    pub(crate) fn add(&mut self, candidate: &Candidate) {
        let event = Digest::of(candidate.event_id.as_str().as_bytes());
        let known = Known {
            message: Digest::of(candidate.sqs_message_id.as_str().as_bytes()),
            body: candidate.body_hash,
        };
        self.0.insert(event, known);
    }

    /// Returns how `candidate` relates to a remembered claim; `None` if only the lock table can tell. The caller must know that the batch
    /// is open.
    pub(crate) fn existing(&self, candidate: &Candidate) -> Option<ExistingClaim> {
        if self.0.is_empty() {
            return None;
        }
        let event = Digest::of(candidate.event_id.as_str().as_bytes());
        let known = self.0.get(&event)?;
        if known.message == Digest::of(candidate.sqs_message_id.as_str().as_bytes()) {
            Some(ExistingClaim::Redelivered)
        } else if known.body == candidate.body_hash {
            Some(ExistingClaim::Duplicate)
        } else {
            // The item in the table decides about a conflict, and about later messages of the same event.
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use protocol::time::Timestamp;

    use super::*;

    fn candidate(message: &str, event: &str, body: &str) -> Candidate {
        Candidate {
            event_id: event.parse().unwrap(),
            sqs_message_id: message.parse().unwrap(),
            body_hash: BodyHash::of(body.as_bytes()),
            body: body.into(),
            compressed: None,
            source: "arn:q".parse().unwrap(),
            sent_at: Timestamp::EPOCH,
            attributes: None,
            quota: None,
        }
    }

    #[test]
    fn a_redelivery_and_a_duplicate_of_a_remembered_claim_are_known_and_a_conflict_is_not() {
        let mut claims = RememberedClaims::default();
        assert_eq!(claims.existing(&candidate("m1", "e1", "a")), None);
        claims.add(&candidate("m1", "e1", "a"));
        assert_eq!(claims.len(), 1);
        for (message, event, body, existing) in [
            ("m1", "e1", "a", Some(ExistingClaim::Redelivered)),
            ("m2", "e1", "a", Some(ExistingClaim::Duplicate)),
            ("m2", "e1", "b", None),
            ("m1", "e2", "a", None),
        ] {
            let candidate = candidate(message, event, body);
            assert_eq!(claims.existing(&candidate), existing, "{candidate:?}");
        }
    }
}
