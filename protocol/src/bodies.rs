//! Where the bodies of a batch are (docs/protocol.md, "Bodies in chunks").

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::limits::{CHUNK_ITEM_BYTES_MAX, SMALL_CHUNK_BYTES_MAX};

/// Where the bodies of a batch are. A batch record keeps the value with which the batch was opened, and every reader
/// follows the record.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Bodies {
    /// In the lock items.
    #[default]
    Items,
    /// In chunks, which are items of the batch table.
    Table,
    /// In chunks, which are objects of a bucket; small ones are items of the batch table.
    S3(S3Prefix),
    /// In loads, which all environments bring into the same batches.
    Log(ChunkPlace),
}

/// The sizes that decide where a chunk goes and into how many pieces it is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkSizes {
    /// Bytes of the largest chunk that goes into the table although there is a bucket.
    pub small_bytes_max: usize,
    /// Bytes of the largest piece in the table.
    pub item_bytes_max: usize,
}

impl Default for ChunkSizes {
    fn default() -> ChunkSizes {
        ChunkSizes {
            small_bytes_max: SMALL_CHUNK_BYTES_MAX,
            item_bytes_max: CHUNK_ITEM_BYTES_MAX,
        }
    }
}

/// Where one chunk is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ChunkPlace {
    /// In the batch table, in pieces that fit its items.
    Table,
    /// In a bucket, as one object.
    S3(S3Prefix),
}

/// A bucket, and what the keys of the objects begin with.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct S3Prefix {
    pub bucket: Arc<str>,
    /// Ends with `/`, or is empty.
    pub prefix: Arc<str>,
}

/// A text that is no value of `BODIES`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "expected `items`, `table`, `s3://<bucket>/<prefix>`, `log:table` or `log:s3://<bucket>/<prefix>`"
)]
pub struct NotBodies;

impl Bodies {
    /// Returns whether the bodies are in chunks.
    pub fn in_chunks(&self) -> bool {
        match self {
            Bodies::Items | Bodies::Log(_) => false,
            Bodies::Table | Bodies::S3(_) => true,
        }
    }

    /// Returns the place in S3, if the bodies are there.
    pub fn s3(&self) -> Option<&S3Prefix> {
        match self {
            Bodies::S3(place) | Bodies::Log(ChunkPlace::S3(place)) => Some(place),
            Bodies::Items | Bodies::Table | Bodies::Log(ChunkPlace::Table) => None,
        }
    }

    /// Returns whether the batch is one of the log.
    pub fn is_log(&self) -> bool {
        matches!(self, Bodies::Log(_))
    }

    /// Returns whether the batch record lists the seats of its events, so that neither the index nor releases are needed.
    pub fn lists_claims(&self) -> bool {
        self.in_chunks() || self.is_log()
    }

    /// Returns where a new chunk of `bytes` goes, compressed. A write of a few units to the table is cheaper than a
    /// request to S3.
    pub fn place_of_chunk(&self, bytes: usize, sizes: ChunkSizes) -> ChunkPlace {
        match self {
            Bodies::S3(prefix) | Bodies::Log(ChunkPlace::S3(prefix))
                if bytes > sizes.small_bytes_max =>
            {
                ChunkPlace::S3(prefix.clone())
            }
            Bodies::Items | Bodies::Table | Bodies::S3(_) | Bodies::Log(_) => ChunkPlace::Table,
        }
    }

    /// Returns every place where a chunk may be, in the order in which a reader looks, because its name does not say its
    /// size.
    pub fn places(&self) -> Vec<ChunkPlace> {
        match self {
            Bodies::Items | Bodies::Table | Bodies::Log(ChunkPlace::Table) => {
                vec![ChunkPlace::Table]
            }
            Bodies::S3(prefix) | Bodies::Log(ChunkPlace::S3(prefix)) => {
                vec![ChunkPlace::Table, ChunkPlace::S3(prefix.clone())]
            }
        }
    }
}

impl ChunkPlace {
    /// Returns the pieces of a chunk, in order.
    pub fn pieces<'a>(&self, bytes: &'a [u8], sizes: ChunkSizes) -> Vec<&'a [u8]> {
        match self {
            ChunkPlace::Table => bytes.chunks(sizes.item_bytes_max).collect(),
            ChunkPlace::S3(_) => vec![bytes],
        }
    }
}

impl fmt::Display for Bodies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Bodies::Items => f.write_str("items"),
            Bodies::Table => f.write_str("table"),
            Bodies::S3(place) => place.fmt(f),
            Bodies::Log(ChunkPlace::Table) => f.write_str("log:table"),
            Bodies::Log(ChunkPlace::S3(place)) => write!(f, "log:{place}"),
        }
    }
}

impl fmt::Display for S3Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let S3Prefix { bucket, prefix } = self;
        write!(f, "s3://{bucket}/{prefix}")
    }
}

impl FromStr for S3Prefix {
    type Err = NotBodies;

    fn from_str(text: &str) -> Result<S3Prefix, NotBodies> {
        let (bucket, prefix) = text
            .strip_prefix("s3://")
            .and_then(|place| place.split_once('/').or(Some((place, ""))))
            .ok_or(NotBodies)?;
        let prefix = prefix.trim_end_matches('/');
        if bucket.is_empty() || prefix.starts_with('/') {
            return Err(NotBodies);
        }
        Ok(S3Prefix {
            bucket: bucket.into(),
            prefix: match prefix {
                "" => "".into(),
                _ => format!("{prefix}/").into(),
            },
        })
    }
}

impl From<Bodies> for String {
    fn from(bodies: Bodies) -> String {
        bodies.to_string()
    }
}

impl TryFrom<String> for Bodies {
    type Error = NotBodies;

    fn try_from(text: String) -> Result<Bodies, NotBodies> {
        text.parse()
    }
}

impl FromStr for Bodies {
    type Err = NotBodies;

    fn from_str(text: &str) -> Result<Bodies, NotBodies> {
        match text {
            "items" => Ok(Bodies::Items),
            "table" => Ok(Bodies::Table),
            "log:table" => Ok(Bodies::Log(ChunkPlace::Table)),
            _ => match text.strip_prefix("log:") {
                Some(place) => Ok(Bodies::Log(ChunkPlace::S3(place.parse()?))),
                None => Ok(Bodies::S3(text.parse()?)),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_chunk_is_in_the_table_and_a_large_one_in_the_bucket() {
        let bodies: Bodies = "s3://bucket/a".parse().unwrap();
        let [table, bucket] = bodies.places().try_into().unwrap();
        let sizes = ChunkSizes::default();
        assert_eq!(bodies.place_of_chunk(SMALL_CHUNK_BYTES_MAX, sizes), table);
        assert_eq!(
            bodies.place_of_chunk(SMALL_CHUNK_BYTES_MAX + 1, sizes),
            bucket
        );
        assert_eq!(
            Bodies::Table.places(),
            [Bodies::Table.place_of_chunk(1 << 30, sizes)]
        );
    }

    #[test]
    fn a_log_has_its_loads_where_chunks_would_be() {
        let sizes = ChunkSizes::default();
        for (log, chunks) in [("log:table", "table"), ("log:s3://b/p/", "s3://b/p/")] {
            let [log, chunks]: [Bodies; 2] = [log.parse().unwrap(), chunks.parse().unwrap()];
            assert_eq!(log.places(), chunks.places());
            for bytes in [0, SMALL_CHUNK_BYTES_MAX, SMALL_CHUNK_BYTES_MAX + 1] {
                let places = [&log, &chunks].map(|bodies| bodies.place_of_chunk(bytes, sizes));
                assert_eq!(places[0], places[1]);
            }
            assert_eq!((log.is_log(), log.in_chunks()), (true, false));
            assert_eq!((chunks.is_log(), chunks.in_chunks()), (false, true));
        }
        let listed = ["items", "table", "log:table"].map(|text| {
            let bodies: Bodies = text.parse().unwrap();
            bodies.lists_claims()
        });
        assert_eq!(listed, [false, true, true]);
    }

    #[test]
    fn the_pieces_of_a_chunk_fit_their_items() {
        let bytes = vec![0; 2 * CHUNK_ITEM_BYTES_MAX + 1];
        let sizes: Vec<_> = ChunkPlace::Table
            .pieces(&bytes, ChunkSizes::default())
            .into_iter()
            .map(<[u8]>::len)
            .collect();
        assert_eq!(sizes, [CHUNK_ITEM_BYTES_MAX, CHUNK_ITEM_BYTES_MAX, 1]);
    }

    #[test]
    fn a_value_reads_back_as_it_is_written() {
        for text in [
            "items",
            "table",
            "s3://bucket/",
            "s3://bucket/a/b/",
            "log:table",
            "log:s3://bucket/a/",
        ] {
            assert_eq!(text.parse::<Bodies>().unwrap().to_string(), text);
        }
        for (text, written) in [("s3://bucket", "s3://bucket/"), ("s3://b/a", "s3://b/a/")] {
            assert_eq!(text.parse::<Bodies>().unwrap().to_string(), written);
        }
        for text in [
            "",
            "item",
            "s3:/b",
            "s3://",
            "s3:///a",
            "s3://b//a",
            "file:///b",
            "log:",
            "log:items",
            "log:log:table",
        ] {
            assert_eq!(text.parse::<Bodies>(), Err(NotBodies), "{text}");
        }
    }
}
