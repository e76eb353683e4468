//! What is claimed: an event, its seat, and where its body goes.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use crate::ids::{BodyHash, EventId, Seat, SourceArn, SqsMessageId};
use crate::limits::{
    CLAIM_OVERHEAD_BYTES, DYNAMODB_ITEM_BYTES_MAX, OVERFLOW_BYTES, WRITE_UNIT_BYTES,
};
use crate::time::Timestamp;

/// An event that wants to be claimed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// What makes it the same event.
    pub event_id: EventId,
    /// The message that carries it.
    pub sqs_message_id: SqsMessageId,
    /// Content hash of the body.
    pub body_hash: BodyHash,
    /// The body.
    pub body: Arc<str>,
    /// The body as it is stored, where that saves a write unit.
    pub compressed: Option<Arc<[u8]>>,
    /// Where it came from.
    pub source: SourceArn,
    /// When it was sent, by SQS's clock.
    pub sent_at: Timestamp,
    /// The SQS message attributes as JSON text, if there are any.
    pub attributes: Option<Arc<str>>,
}

impl Candidate {
    /// The same, with its body as `compress` makes it if that saves a write unit.
    pub fn compressed(mut self, compress: impl FnOnce(&str) -> Option<Vec<u8>>) -> Candidate {
        let before = self.item_bytes();
        if before > WRITE_UNIT_BYTES {
            self.compressed = compress(&self.body).map(Into::into);
            let units = |bytes: usize| bytes.div_ceil(WRITE_UNIT_BYTES);
            if units(self.item_bytes()) == units(before) {
                self.compressed = None;
            }
        }
        self
    }

    /// Bytes of the lock item this candidate becomes, without past deliveries; never less than DynamoDB counts.
    pub fn item_bytes(&self) -> usize {
        let body = self.compressed.as_ref().map(|bytes| bytes.len());
        self.item_bytes_but_body() + body.unwrap_or(self.body.len())
    }

    fn item_bytes_but_body(&self) -> usize {
        CLAIM_OVERHEAD_BYTES
            + self.event_id.as_str().len()
            + self.sqs_message_id.as_str().len()
            + self.source.as_str().len()
            + self.attributes.as_ref().map_or(0, |text| text.len())
    }

    /// Where its body goes in this seat, if it does not fit the item.
    pub fn overflow(&self, bucket: &Arc<str>, seat: Seat) -> Option<Overflow> {
        (self.item_bytes() > DYNAMODB_ITEM_BYTES_MAX).then(|| Overflow {
            bucket: bucket.clone(),
            key: format!("{}/{}", seat.batch, seat.seq),
            bytes: self.body.len() as u64,
        })
    }
}

/// Messages that carried this event before and were delivered: message id to the end of its dedup window.
pub type PastDeliveries = BTreeMap<SqsMessageId, Timestamp>;

/// A candidate with the seat it claims.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The event.
    pub candidate: Candidate,
    /// Its place in a batch.
    pub seat: Seat,
    /// Where its body is, if it does not fit the item.
    pub overflow: Option<Overflow>,
    /// Deliveries of the same event that are still remembered; only `requeue` makes any.
    pub past: PastDeliveries,
}

/// Where the body of one claim is, which does not fit its item: an object in S3.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Overflow {
    /// The bucket.
    pub bucket: Arc<str>,
    /// The object: `<batchId>/<seq>`, which no other claim ever has.
    pub key: String,
    /// Length of the body.
    pub bytes: u64,
}

impl fmt::Display for Overflow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "s3://{}/{}", self.bucket, self.key)
    }
}

impl Claim {
    /// Bytes of its lock item, without past deliveries; never less than DynamoDB counts.
    pub fn item_bytes(&self) -> usize {
        match &self.overflow {
            None => self.candidate.item_bytes(),
            Some(Overflow { bucket, key, .. }) => {
                self.candidate.item_bytes_but_body() + OVERFLOW_BYTES + bucket.len() + key.len()
            }
        }
    }
}
