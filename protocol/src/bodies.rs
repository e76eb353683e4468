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
    /// Returns the place in S3, if the bodies are there.
    pub fn s3(&self) -> Option<&S3Prefix> {
        match self {
            Bodies::Log(ObjectPlace::S3(place)) => Some(place),
            Bodies::Items | Bodies::Log(ObjectPlace::Table) => None,
        }
    }

    /// Returns whether the batch is one of the log. Then its record lists the seats of its events, so that neither the index nor
    /// releases are needed.
    pub fn is_log(&self) -> bool {
        matches!(self, Bodies::Log(_))
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
            "log:table" => Ok(Bodies::Log(ObjectPlace::Table)),
            _ => {
                let place = text.strip_prefix("log:").ok_or(NotBodies)?;
                Ok(Bodies::Log(ObjectPlace::S3(place.parse()?)))
            }
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
        let in_table = Bodies::Log(ObjectPlace::Table);
        let place = in_table.place_of_object(1 << 30, sizes);
        assert_eq!(in_table.places(), [place]);
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
        for text in ["items", "log:table", "log:s3://b/", "log:s3://b/a/c/"] {
            let bodies: Bodies = text.parse().unwrap();
            assert_eq!(bodies.to_string(), text);
            assert_eq!(bodies.is_log(), text != "items");
        }
        for text in ["log:s3://b", "log:s3://b/a"] {
            let written = text.parse::<Bodies>().unwrap().to_string();
            assert_eq!(written, format!("{text}/"));
        }
        for text in [
            "",
            "item",
            "log:s3:/b",
            "log:s3://",
            "log:s3:///a",
            "log:s3://b//a",
            "log:file:///b",
            "log:",
            "log:items",
            "log:log:table",
        ] {
            assert_eq!(text.parse::<Bodies>(), Err(NotBodies), "{text}");
        }
    }

    #[test]
    fn a_place_of_the_chunks_of_former_versions_is_refused() {
        for text in ["table", "s3://bucket/", "s3://bucket/a"] {
            let refused = text.parse::<Bodies>().unwrap_err().to_string();
            let words = "expected `items`, `log:table` or `log:s3://<bucket>/<prefix>`";
            assert_eq!(refused, words);
        }
    }
}
