//! Candidates and claims: an event, its seat, and where its body is stored.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use crate::ids::{BodyHash, EventId, Seat, SourceArn, SqsMessageId};
use crate::limits::{
    CLAIM_OVERHEAD_BYTES, DYNAMODB_ITEM_BYTES_MAX, OVERFLOW_BYTES, WRITE_UNIT_BYTES,
};
use crate::quota::Quota;
use crate::time::Timestamp;

/// An event before it is claimed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    pub event_id: EventId,
    pub sqs_message_id: SqsMessageId,
    pub body_hash: BodyHash,
    pub body: Arc<str>,
    /// The compressed body, if compression saves a write unit.
    pub compressed: Option<Arc<[u8]>>,
    pub source: SourceArn,
    /// When the message was sent, by the clock of SQS.
    pub sent_at: Timestamp,
    /// The SQS message attributes as JSON text, if there are any.
    pub attributes: Option<Arc<str>>,
    /// The quota that the event counts in, if `QUOTA` is set.
    pub quota: Option<Quota>,
}

impl Candidate {
    /// Returns the candidate with its body compressed by `compress`, if that saves a write unit.
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

    /// Returns the bytes of the body and of the message attributes, which is what the limits of batches count.
    pub fn content_bytes(&self) -> usize {
        self.body.len() + self.attributes_bytes()
    }

    fn attributes_bytes(&self) -> usize {
        self.attributes.as_ref().map_or(0, |text| text.len())
    }

    /// Returns the size in bytes of this candidate's lock item without past deliveries; never less than DynamoDB
    /// counts.
    pub fn item_bytes(&self) -> usize {
        let body = self.compressed.as_ref().map(|bytes| bytes.len());
        self.item_bytes_but_body() + body.unwrap_or(self.body.len())
    }

    fn item_bytes_but_body(&self) -> usize {
        CLAIM_OVERHEAD_BYTES
            + self.event_id.as_str().len()
            + self.sqs_message_id.as_str().len()
            + self.source.as_str().len()
            + self.attributes_bytes()
    }

    /// Returns the S3 object for the body of this candidate in `seat`, if the body does not fit the lock item.
    pub fn overflow(&self, bucket: &Arc<str>, seat: Seat) -> Option<Overflow> {
        (self.item_bytes() > DYNAMODB_ITEM_BYTES_MAX).then(|| Overflow {
            bucket: bucket.clone(),
            key: format!("{}/{}", seat.batch, seat.seq),
            bytes: self.body.len() as u64,
        })
    }
}

/// Messages whose delivery of the same event is remembered: message id to the end of its dedup window.
pub type PastDeliveries = BTreeMap<SqsMessageId, Timestamp>;

/// A candidate with the seat it claims.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    pub candidate: Candidate,
    pub seat: Seat,
    /// Where the body is, if it does not fit the lock item.
    pub overflow: Option<Overflow>,
    /// Earlier deliveries of the same event; empty unless `ON_DUPLICATE=requeue`.
    pub past: PastDeliveries,
}

/// The S3 object with the body of a claim, when the body does not fit the lock item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Overflow {
    pub bucket: Arc<str>,
    /// `<batchId>/<seq>`, unique to this claim.
    pub key: String,
    pub bytes: u64,
}

impl fmt::Display for Overflow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "s3://{}/{}", self.bucket, self.key)
    }
}

impl Claim {
    /// Returns the size in bytes of the lock item without past deliveries; never less than DynamoDB counts.
    pub fn item_bytes(&self) -> usize {
        match &self.overflow {
            None => self.candidate.item_bytes(),
            Some(Overflow { bucket, key, .. }) => {
                self.candidate.item_bytes_but_body() + OVERFLOW_BYTES + bucket.len() + key.len()
            }
        }
    }
}
