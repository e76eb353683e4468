//! Places for files: what the sinks `file:` and `s3:`, `SINK_REJECTS` and `SINK_PAYLOADS` name.

use std::fmt;
use std::path::{Component, Path, PathBuf};
use std::str::FromStr;

#[cfg(feature = "full")]
pub use bucket::BucketPlace;

/// A place for files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FilePlace {
    /// `file:///directory`.
    Directory(PathBuf),
    /// `s3://bucket/prefix`.
    #[cfg(feature = "full")]
    Bucket(BucketPlace),
}

impl FromStr for FilePlace {
    type Err = String;

    fn from_str(text: &str) -> Result<FilePlace, String> {
        match text.split_once(':') {
            Some(("file", _)) => directory(text).map(FilePlace::Directory),
            #[cfg(feature = "full")]
            Some(("s3", _)) => text.parse().map(FilePlace::Bucket),
            #[cfg(not(feature = "full"))]
            Some(("s3", _)) => Err(shared::config::WITHOUT_FULL.to_owned()),
            Some(_) | None => {
                Err("expected `file:///directory` or `s3://bucket/prefix`".to_owned())
            }
        }
    }
}

impl fmt::Display for FilePlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FilePlace::Directory(path) => write!(f, "file://{}", path.display()),
            #[cfg(feature = "full")]
            FilePlace::Bucket(place) => place.fmt(f),
        }
    }
}

/// Returns the directory that `file:///directory` names. With `..`, a path below `/mnt/` could lead out of the mounted file system.
pub(crate) fn directory(uri: &str) -> Result<PathBuf, String> {
    let path = uri.strip_prefix("file://").map(Path::new);
    let path = path.filter(|path| path.is_absolute() && path.file_name().is_some());
    path.filter(|path| path.components().all(|part| part != Component::ParentDir))
        .map(Path::to_owned)
        .ok_or_else(|| "expected `file:///directory`, without `..`".to_owned())
}

#[cfg(feature = "full")]
mod bucket {
    use std::fmt;
    use std::str::FromStr;

    use shared::config::bucket_name;

    /// The longest prefix. S3 allows names of 1,024 bytes, and the sink appends fewer than 224 bytes to the prefix.
    /// Source: <https://docs.aws.amazon.com/AmazonS3/latest/userguide/object-keys.html> (2026-08).
    const PREFIX_BYTES_MAX: usize = 800;

    /// A place in S3: `s3://bucket/prefix`.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct BucketPlace {
        /// The name of the bucket.
        pub bucket: String,
        /// The prefix of all object names, without the slash that follows it; may be empty.
        pub prefix: String,
    }

    impl FromStr for BucketPlace {
        type Err = String;

        fn from_str(uri: &str) -> Result<BucketPlace, String> {
            parse(uri).ok_or_else(|| {
                "expected `s3://bucket/prefix`: a bucket of 3 to 63 of `a-z 0-9 . -`, and a prefix of at most 800 bytes \
                 in which no two slashes meet"
                    .to_owned()
            })
        }
    }

    fn parse(uri: &str) -> Option<BucketPlace> {
        let rest = uri.strip_prefix("s3://")?;
        let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        let prefix = prefix.strip_suffix('/').unwrap_or(prefix);
        let steps = prefix.is_empty() && !rest.ends_with("//")
            || prefix.len() <= PREFIX_BYTES_MAX
                && prefix.split('/').all(|step| !step.is_empty())
                && !prefix.contains(char::is_control);
        (bucket_name(bucket).is_some() && steps).then(|| BucketPlace {
            bucket: bucket.to_owned(),
            prefix: prefix.to_owned(),
        })
    }

    impl fmt::Display for BucketPlace {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            match self.prefix.as_str() {
                "" => write!(f, "s3://{}", self.bucket),
                prefix => write!(f, "s3://{}/{prefix}", self.bucket),
            }
        }
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn a_place_in_s3_has_a_bucket_and_maybe_a_prefix() {
            let shown = |uri: &str| uri.parse::<BucketPlace>().unwrap().to_string();
            for uri in ["s3://bucket", "s3://my.bucket-1/a/b c"] {
                assert_eq!(shown(uri), uri);
                assert_eq!(shown(&format!("{uri}/")), uri);
            }
            for wrong in [
                "s3:bucket",
                "s3://",
                "s3://b",
                "s3://Bucket",
                "s3://bucket//",
                "s3://bucket/a//b",
                "s3:///a",
            ] {
                let error = wrong.parse::<BucketPlace>().unwrap_err();
                assert!(error.contains("a bucket of 3 to 63"), "{wrong}: {error}");
            }
        }
    }
}
