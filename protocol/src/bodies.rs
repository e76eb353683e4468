//! Where the bodies of a batch are.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::limits::{OBJECT_ITEM_BYTES_MAX, SMALL_OBJECT_BYTES_MAX};

/// Where the bodies of a batch are. A batch record keeps the value with which the batch was opened, and every reader
/// follows the record.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Bodies {
    /// In the lock items.
    #[default]
    Items,
    /// In chunks, which are items of the batch table. Former versions stored them; they are only read.
    Table,
    /// In chunks, which are objects of a bucket; small ones are items of the batch table. Former versions stored them; they are only
    /// read.
    S3(S3Prefix),
    /// In loads, which all environments bring into the same batches.
    Log(ObjectPlace),
}

/// The sizes that decide where an object goes and into how many pieces it is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ObjectSizes {
    /// Bytes of the largest object that goes into the table although there is a bucket.
    pub small_bytes_max: usize,
    /// Bytes of the largest piece in the table.
    pub item_bytes_max: usize,
}

impl Default for ObjectSizes {
    fn default() -> ObjectSizes {
        ObjectSizes {
            small_bytes_max: SMALL_OBJECT_BYTES_MAX,
            item_bytes_max: OBJECT_ITEM_BYTES_MAX,
        }
    }
}

/// Where one object is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ObjectPlace {
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
#[error("expected `items`, `log:table` or `log:s3://<bucket>/<prefix>`")]
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
            Bodies::S3(place) | Bodies::Log(ObjectPlace::S3(place)) => Some(place),
            Bodies::Items | Bodies::Table | Bodies::Log(ObjectPlace::Table) => None,
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

    /// Returns where a new object of `bytes` goes, compressed. A write of a few units to the table is cheaper than a
    /// request to S3.
    pub fn place_of_object(&self, bytes: usize, sizes: ObjectSizes) -> ObjectPlace {
        match self.s3() {
            Some(prefix) if bytes > sizes.small_bytes_max => ObjectPlace::S3(prefix.clone()),
            Some(_) | None => ObjectPlace::Table,
        }
    }

    /// Returns every place where an object may be, in the order in which a reader looks, because its name does not say its
    /// size.
    pub fn places(&self) -> Vec<ObjectPlace> {
        let mut places = vec![ObjectPlace::Table];
        places.extend(self.s3().cloned().map(ObjectPlace::S3));
        places
    }
}

impl ObjectPlace {
    /// Returns the pieces of an object, in order.
    pub fn pieces<'a>(&self, bytes: &'a [u8], sizes: ObjectSizes) -> Vec<&'a [u8]> {
        match self {
            ObjectPlace::Table => bytes.chunks(sizes.item_bytes_max).collect(),
            ObjectPlace::S3(_) => vec![bytes],
        }
    }
}

impl fmt::Display for Bodies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Bodies::Items => f.write_str("items"),
            Bodies::Table => f.write_str("table"),
            Bodies::S3(place) => place.fmt(f),
            Bodies::Log(ObjectPlace::Table) => f.write_str("log:table"),
            Bodies::Log(ObjectPlace::S3(place)) => write!(f, "log:{place}"),
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
            "log:table" => Ok(Bodies::Log(ObjectPlace::Table)),
            _ => match text.strip_prefix("log:") {
                Some(place) => Ok(Bodies::Log(ObjectPlace::S3(place.parse()?))),
                None => Ok(Bodies::S3(text.parse()?)),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_object_is_in_the_table_and_a_large_one_in_the_bucket() {
        let bodies: Bodies = "log:s3://bucket/a".parse().unwrap();
        let [table, bucket] = bodies.places().try_into().unwrap();
        let sizes = ObjectSizes::default();
        assert_eq!(bodies.place_of_object(SMALL_OBJECT_BYTES_MAX, sizes), table);
        let large = bodies.place_of_object(SMALL_OBJECT_BYTES_MAX + 1, sizes);
        assert_eq!(large, bucket);
        let in_table = Bodies::Table.place_of_object(1 << 30, sizes);
        assert_eq!(Bodies::Table.places(), [in_table]);
    }

    #[test]
    fn a_log_has_its_loads_where_chunks_would_be() {
        let sizes = ObjectSizes::default();
        for (log, chunks) in [("log:table", "table"), ("log:s3://b/p/", "s3://b/p/")] {
            let [log, chunks]: [Bodies; 2] = [log.parse().unwrap(), chunks.parse().unwrap()];
            assert_eq!(log.places(), chunks.places());
            for bytes in [0, SMALL_OBJECT_BYTES_MAX, SMALL_OBJECT_BYTES_MAX + 1] {
                let places = [&log, &chunks].map(|bodies| bodies.place_of_object(bytes, sizes));
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
    fn the_pieces_of_an_object_fit_their_items() {
        let bytes = vec![0; 2 * OBJECT_ITEM_BYTES_MAX + 1];
        let pieces = ObjectPlace::Table.pieces(&bytes, ObjectSizes::default());
        let sizes: Vec<_> = pieces.into_iter().map(<[u8]>::len).collect();
        assert_eq!(sizes, [OBJECT_ITEM_BYTES_MAX, OBJECT_ITEM_BYTES_MAX, 1]);
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
