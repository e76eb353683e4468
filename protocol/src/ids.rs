//! The types of ids. Each id has a type of its own, so that an event id cannot be passed as a message id.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::limits::{DYNAMODB_KEY_BYTES_MAX, QUOTA_KEY_BYTES_MAX};
use crate::time::Timestamp;

/// A text or byte string that is not a valid id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IdError {
    #[error("{what}: empty: expected at least 1 byte")]
    Empty { what: &'static str },
    #[error("{what}: too long: got {bytes} bytes, expected at most {max}")]
    TooLong {
        what: &'static str,
        bytes: usize,
        max: usize,
    },
    #[error("{what}: malformed: got `{value}`, expected {form}")]
    Malformed {
        what: &'static str,
        /// The value, cut to 100 characters.
        value: String,
        form: &'static str,
    },
}

macro_rules! text_id {
    ($(#[$doc:meta])* $name:ident, $what:literal, $max:expr) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(Arc<str>);

        impl $name {
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl TryFrom<&str> for $name {
            type Error = IdError;

            fn try_from(text: &str) -> Result<Self, IdError> {
                check($what, text, $max)?;
                Ok(Self(Arc::from(text)))
            }
        }

        impl TryFrom<String> for $name {
            type Error = IdError;

            fn try_from(text: String) -> Result<Self, IdError> {
                Self::try_from(text.as_str())
            }
        }

        impl FromStr for $name {
            type Err = IdError;

            fn from_str(text: &str) -> Result<Self, IdError> {
                Self::try_from(text)
            }
        }

        impl From<$name> for String {
            fn from(id: $name) -> String {
                id.0.as_ref().to_owned()
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({})"), self.0)
            }
        }
    };
}

/// Returns the error about a value of another form. Of a long value, it has only the beginning: errors are logged.
fn malformed(what: &'static str, value: &str, form: &'static str) -> IdError {
    IdError::Malformed {
        what,
        value: value.chars().take(100).collect(),
        form,
    }
}

fn check(what: &'static str, text: &str, max: usize) -> Result<(), IdError> {
    match text.len() {
        0 => Err(IdError::Empty { what }),
        bytes if bytes > max => Err(IdError::TooLong { what, bytes, max }),
        _ => Ok(()),
    }
}

text_id!(
    /// The id by which events are deduplicated: the partition key of the lock table.
    EventId, "event id", DYNAMODB_KEY_BYTES_MAX
);
text_id!(
    /// The id that SQS gave to a message. Two messages may carry the same event.
    SqsMessageId, "SQS message id", 256
);
text_id!(
    /// The ARN of the queue that a message came from.
    SourceArn, "source ARN", 1_024
);
text_id!(
    /// The value that `BATCH_KEY` finds in a body. A batch holds events of one batch key only.
    BatchKey, "batch key", 1_024
);
text_id!(
    /// The holder of a quota, for example a customer: events with one quota key share its places.
    QuotaKey, "quota key", QUOTA_KEY_BYTES_MAX
);
text_id!(
    /// The invocation that holds a batch's lease: function and request id.
    LeaseOwner, "lease owner", 512
);

/// A UUIDv7, so that batch ids sort by the time at which the batches were opened.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct BatchId(Uuid);

impl BatchId {
    pub const fn new(uuid: Uuid) -> BatchId {
        BatchId(uuid)
    }

    /// Returns the time in the id: when the batch was opened.
    pub fn opened_at(self) -> Timestamp {
        Timestamp::from_ms((self.0.as_u128() >> 80) as u64)
    }

    /// Returns a byte of the random part of the id. It spreads batches evenly over shards.
    pub const fn random_byte(self) -> u8 {
        self.0.as_bytes()[15]
    }
}

impl FromStr for BatchId {
    type Err = IdError;

    fn from_str(text: &str) -> Result<BatchId, IdError> {
        let form = "`xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx` (a UUID)";
        let uuid = Uuid::from_str(text).map_err(|_| malformed("batch id", text, form))?;
        Ok(BatchId(uuid))
    }
}

impl fmt::Display for BatchId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for BatchId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BatchId({})", self.0)
    }
}

/// The number of a seat in its batch, from 0.
pub type Seq = u32;

/// One seat of a batch, given to one claim attempt.
///
/// Seqs are never reused, so a live claim with this seat was written by this attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Seat {
    pub batch: BatchId,
    pub seq: Seq,
    /// Number of index shards of the batch.
    pub shards: u16,
}

impl Seat {
    /// Returns the key of `batchId-index` under which the seat's claim is listed.
    pub fn shard(self) -> BatchShard {
        BatchShard {
            batch: self.batch,
            shard: (self.seq % Seq::from(self.shards.max(1))) as u16,
        }
    }

    /// Returns the seat as the lock table stores it.
    pub fn key(self) -> SeatKey {
        SeatKey {
            shard: self.shard(),
            seq: self.seq,
        }
    }
}

/// A seat as the lock table stores it, and the key of its entry in `batchId-index`. Writes to a live claim are conditional
/// on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SeatKey {
    pub shard: BatchShard,
    pub seq: Seq,
}

/// The key of `batchId-index`, and the `batchId` attribute of a live claim: `<batch uuid>#<shard>`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BatchShard {
    pub batch: BatchId,
    pub shard: u16,
}

impl fmt::Display for BatchShard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}#{}", self.batch, self.shard)
    }
}

impl FromStr for BatchShard {
    type Err = IdError;

    fn from_str(text: &str) -> Result<BatchShard, IdError> {
        let malformed = || malformed("batch shard", text, "`<batch uuid>#<shard>`");
        let (batch, shard) = text.split_once('#').ok_or_else(malformed)?;
        Ok(BatchShard {
            batch: batch.parse()?,
            shard: shard.parse().map_err(|_| malformed())?,
        })
    }
}

/// The name of a slot of a batch of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SlotId {
    pub batch: BatchId,
    /// The number of the slot, from 0.
    pub number: u32,
}

impl fmt::Display for SlotId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.batch, self.number)
    }
}

/// The name of an object: something that is stored once and never changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ObjectId {
    /// A slot is in the batch table, wherever the loads are.
    Slot(SlotId),
    /// The messages that one invocation of an aggregator stored.
    Load(Uuid),
    /// A run of the index.
    Run(Uuid),
    /// A list of runs.
    RunList(Uuid),
    /// The events of a part that the sink has, until answers about them have come.
    Kept { batch: BatchId, part: u32 },
}

impl From<SlotId> for ObjectId {
    fn from(slot: SlotId) -> ObjectId {
        ObjectId::Slot(slot)
    }
}

impl fmt::Display for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ObjectId::Slot(slot) => slot.fmt(f),
            ObjectId::Load(load) => write!(f, "load/{load}"),
            ObjectId::Run(run) => write!(f, "run/{run}"),
            ObjectId::RunList(list) => write!(f, "runs/{list}"),
            ObjectId::Kept { batch, part } => write!(f, "kept/{batch}/{part}"),
        }
    }
}

/// The name of a piece of an object. An object that does not fit one item of the batch table has several pieces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PieceId {
    pub object: ObjectId,
    /// The number of the piece, from 0.
    pub index: u32,
}

impl fmt::Display for PieceId {
    /// Writes the name of the object for the first piece, and `<object>/<index>` for the others.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.index {
            0 => write!(f, "{}", self.object),
            index => write!(f, "{}/{index}", self.object),
        }
    }
}

/// The body hash: the first 16 bytes of the BLAKE3 hash of a body.
///
/// A faster checksum would not do: producers do not trust each other, and with two bodies made to collide, one event
/// would be taken for another.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BodyHash([u8; 16]);

impl BodyHash {
    pub fn of(body: &[u8]) -> BodyHash {
        let mut short = [0; 16];
        short.copy_from_slice(&blake3::hash(body).as_bytes()[..16]);
        BodyHash(short)
    }

    pub fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }
}

impl TryFrom<&[u8]> for BodyHash {
    type Error = IdError;

    fn try_from(bytes: &[u8]) -> Result<BodyHash, IdError> {
        let got = || format!("{} bytes", bytes.len());
        let hash = <[u8; 16]>::try_from(bytes);
        let hash = hash.map_err(|_| malformed("body hash", &got(), "16 bytes"))?;
        Ok(BodyHash(hash))
    }
}

impl fmt::Display for BodyHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", u128::from_be_bytes(self.0))
    }
}

impl fmt::Debug for BodyHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BodyHash({self})")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn an_id_reads_back_as_it_was_written(
            batch in any::<u128>(), seq in any::<Seq>(), shards in any::<u16>(), text in "\\PC{1,60}",
        ) {
            let batch = BatchId::new(Uuid::from_u128(batch));
            prop_assert_eq!(batch.to_string().parse(), Ok(batch));
            let seat = Seat { batch, seq, shards };
            prop_assert_eq!(seat.shard().to_string().parse(), Ok(seat.shard()));
            prop_assert!(seat.shard().shard < shards.max(1));
            let id = EventId::try_from(text.as_str()).unwrap();
            prop_assert_eq!(id.as_str(), text.as_str());
            let json = serde_json::to_string(&id).unwrap();
            prop_assert_eq!(serde_json::from_str::<EventId>(&json).unwrap(), id);
            let hash = BodyHash::of(text.as_bytes());
            prop_assert_eq!(BodyHash::try_from(hash.as_bytes().as_slice()), Ok(hash));
        }
    }

    #[test]
    fn an_event_id_has_1_to_2048_bytes() {
        let empty = IdError::Empty { what: "event id" };
        assert_eq!(EventId::try_from(""), Err(empty));
        assert!(EventId::try_from("x".repeat(2_048)).is_ok());
        let error = EventId::try_from("x".repeat(2_049)).unwrap_err();
        let words = "event id: too long: got 2049 bytes, expected at most 2048";
        assert_eq!(error.to_string(), words);
    }

    #[test]
    fn a_batch_shard_reads_back_as_it_was_written() {
        let text = "0190163d-8694-739b-aea5-966c26f8ad91#7";
        let shard = Seat {
            batch: text[..36].parse().unwrap(),
            seq: 27,
            shards: 10,
        }
        .shard();
        assert_eq!(shard.to_string(), text);
        assert_eq!(text.parse(), Ok(shard));
        for wrong in ["nothing", "0190163d-8694-739b-aea5-966c26f8ad91#x"] {
            assert!(wrong.parse::<BatchShard>().is_err(), "{wrong}");
        }
    }
}
