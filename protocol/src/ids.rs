//! The names of things. Each is its own type, so that an event id never stands where a message id should.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::limits::DYNAMODB_KEY_BYTES_MAX;

/// A string that cannot be the id it was given for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IdError {
    /// Nothing between the quotes.
    #[error("{what} is empty")]
    Empty {
        /// Which id.
        what: &'static str,
    },
    /// Longer than a DynamoDB key may be.
    #[error("{what} has `{bytes}` bytes, at most {max} are allowed")]
    TooLong {
        /// Which id.
        what: &'static str,
        /// How long it is.
        bytes: usize,
        /// How long it may be.
        max: usize,
    },
    /// Not of the form the id has.
    #[error("{what} `{value}` is not of the form {form}")]
    Malformed {
        /// Which id.
        what: &'static str,
        /// What was given.
        value: String,
        /// What is allowed.
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
            /// The text itself.
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
                check($what, &text, $max)?;
                Ok(Self(Arc::from(text)))
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

fn check(what: &'static str, text: &str, max: usize) -> Result<(), IdError> {
    match text.len() {
        0 => Err(IdError::Empty { what }),
        bytes if bytes > max => Err(IdError::TooLong { what, bytes, max }),
        _ => Ok(()),
    }
}

text_id!(
    /// What makes an event the same event: the partition key of the lock table.
    EventId, "event id", DYNAMODB_KEY_BYTES_MAX
);
text_id!(
    /// The id SQS gave a message; two messages may carry the same event.
    SqsMessageId, "SQS message id", 256
);
text_id!(
    /// The event source: the ARN of the queue a record came from.
    SourceArn, "source ARN", 1_024
);
text_id!(
    /// The value of `BATCH_KEY` for an event: one batch holds one key.
    BatchKey, "batch key", 1_024
);
text_id!(
    /// Who holds a batch's lease: function and request id, one invocation.
    LeaseOwner, "lease owner", 512
);

/// A batch: a UUIDv7, so that ids sort by the time the batch was opened.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct BatchId(Uuid);

impl BatchId {
    /// Wraps a UUID.
    pub const fn new(uuid: Uuid) -> BatchId {
        BatchId(uuid)
    }

    /// Returns a byte of its random part: what spreads batches evenly.
    pub const fn random_byte(self) -> u8 {
        self.0.as_bytes()[15]
    }
}

impl FromStr for BatchId {
    type Err = IdError;

    fn from_str(text: &str) -> Result<BatchId, IdError> {
        Uuid::from_str(text)
            .map(BatchId)
            .map_err(|_| IdError::Malformed {
                what: "batch id",
                value: text.chars().take(100).collect(),
                form: "`xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx` (a UUID)",
            })
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

/// A position in a batch.
pub type Seq = u32;

/// One seat of a batch: the position an attempt to claim holds, and the index shard it falls in.
///
/// A seat names one attempt for ever: seqs are not reused, so "live with this seat" means "written by this attempt".
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Seat {
    /// The batch.
    pub batch: BatchId,
    /// Position in the batch, from 0.
    pub seq: Seq,
    /// How many shards the batch's index entries are spread over.
    pub shards: u16,
}

impl Seat {
    /// The index key this seat's claim is found under.
    pub fn shard(self) -> BatchShard {
        BatchShard {
            batch: self.batch,
            shard: (self.seq % Seq::from(self.shards.max(1))) as u16,
        }
    }

    /// The same seat as the lock table names it.
    pub fn place(self) -> Place {
        Place {
            shard: self.shard(),
            seq: self.seq,
        }
    }
}

/// A seat as the lock table names it: what a live claim is conditional on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// The index key.
    pub shard: BatchShard,
    /// Position in the batch.
    pub seq: Seq,
}

/// The key of `batchId-index`, and the `batchId` attribute of a live claim: `<batch uuid>#<shard>`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BatchShard {
    /// The batch.
    pub batch: BatchId,
    /// Which of the batch's shards.
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
        let malformed = || IdError::Malformed {
            what: "batch shard",
            value: text.chars().take(100).collect(),
            form: "`<batch uuid>#<shard>`",
        };
        let (batch, shard) = text.split_once('#').ok_or_else(malformed)?;
        Ok(BatchShard {
            batch: batch.parse()?,
            shard: shard.parse().map_err(|_| malformed())?,
        })
    }
}

/// The content hash of a body: the first 16 bytes of its BLAKE3.
///
/// BLAKE3 and not a faster checksum: producers do not trust each other, and two bodies made to collide would let
/// one event pass for another.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BodyHash([u8; 16]);

impl BodyHash {
    /// Hashes a body.
    pub fn of(body: &[u8]) -> BodyHash {
        let mut short = [0; 16];
        short.copy_from_slice(&blake3::hash(body).as_bytes()[..16]);
        BodyHash(short)
    }

    /// The bytes, as stored.
    pub fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }
}

impl TryFrom<&[u8]> for BodyHash {
    type Error = IdError;

    fn try_from(bytes: &[u8]) -> Result<BodyHash, IdError> {
        <[u8; 16]>::try_from(bytes)
            .map(BodyHash)
            .map_err(|_| IdError::Malformed {
                what: "body hash",
                value: format!("{} bytes", bytes.len()),
                form: "16 bytes",
            })
    }
}

impl fmt::Display for BodyHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
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
        fn ids_read_back_as_what_they_are_written_as(
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
    fn an_event_id_is_bounded_by_what_a_key_may_hold() {
        assert_eq!(
            EventId::try_from(""),
            Err(IdError::Empty { what: "event id" })
        );
        assert!(EventId::try_from("x".repeat(2_048)).is_ok());
        assert_eq!(
            EventId::try_from("x".repeat(2_049))
                .unwrap_err()
                .to_string(),
            "event id has `2049` bytes, at most 2048 are allowed"
        );
    }

    #[test]
    fn a_batch_shard_reads_back_what_it_wrote() {
        let batch: BatchId = "0190163d-8694-739b-aea5-966c26f8ad91".parse().unwrap();
        let seat = Seat {
            batch,
            seq: 27,
            shards: 10,
        };
        assert_eq!(
            seat.shard().to_string(),
            "0190163d-8694-739b-aea5-966c26f8ad91#7"
        );
        assert_eq!(
            seat.shard().to_string().parse::<BatchShard>().unwrap(),
            seat.shard()
        );
        assert!("nothing".parse::<BatchShard>().is_err());
        assert!(
            "0190163d-8694-739b-aea5-966c26f8ad91#x"
                .parse::<BatchShard>()
                .is_err()
        );
    }
}
