//! Where the bodies of a batch are (docs/protocol.md, "Bodies in chunks").

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// Where the bodies of a batch are. A batch record keeps the value with which the batch was opened, and every reader
/// follows the record.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum Bodies {
    /// In the lock items.
    #[default]
    Items,
    /// In chunks, which are items of the batch table.
    Table,
    /// In chunks, which are objects of a bucket; small ones are items of the batch table.
    S3(S3Prefix),
}

/// A bucket, and what the keys of the objects begin with.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct S3Prefix {
    pub bucket: Arc<str>,
    /// Ends with `/`, or is empty.
    pub prefix: Arc<str>,
}

/// A text that is no value of `BODIES`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected `items`, `table` or `s3://<bucket>/<prefix>`")]
pub struct NotBodies;

impl Bodies {
    /// Returns whether the bodies are in chunks.
    pub fn in_chunks(&self) -> bool {
        match self {
            Bodies::Items => false,
            Bodies::Table | Bodies::S3(_) => true,
        }
    }
}

impl fmt::Display for Bodies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Bodies::Items => f.write_str("items"),
            Bodies::Table => f.write_str("table"),
            Bodies::S3(S3Prefix { bucket, prefix }) => write!(f, "s3://{bucket}/{prefix}"),
        }
    }
}

impl FromStr for Bodies {
    type Err = NotBodies;

    fn from_str(text: &str) -> Result<Bodies, NotBodies> {
        match text {
            "items" => return Ok(Bodies::Items),
            "table" => return Ok(Bodies::Table),
            _ => {}
        }
        let (bucket, prefix) = text
            .strip_prefix("s3://")
            .and_then(|place| place.split_once('/').or(Some((place, ""))))
            .ok_or(NotBodies)?;
        let prefix = prefix.trim_end_matches('/');
        if bucket.is_empty() || prefix.starts_with('/') {
            return Err(NotBodies);
        }
        Ok(Bodies::S3(S3Prefix {
            bucket: bucket.into(),
            prefix: match prefix {
                "" => "".into(),
                _ => format!("{prefix}/").into(),
            },
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_reads_back_as_it_is_written() {
        for text in ["items", "table", "s3://bucket/", "s3://bucket/a/b/"] {
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
        ] {
            assert_eq!(text.parse::<Bodies>(), Err(NotBodies), "{text}");
        }
    }
}
