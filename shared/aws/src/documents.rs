//! Reads the texts that a function needs at its cold start: the configuration file, and columns that are not in it. They are in
//! a file, in an object of S3, or in a parameter of Systems Manager.
//!
//! A parameter is read from the service itself: the AWS Parameters and Secrets Lambda Extension, which reads secrets, does not
//! respond during a cold start.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;
use std::time::Duration;

use shared::config::in_full_build;

use crate::parameter::{Failed, parameter};
use crate::sdk::Sdk;

/// Attempts at an object or a parameter, one after the other.
const ATTEMPTS_MAX: u32 = 3;
/// Timeout of one attempt, and the interval between attempt starts. All of them fit the 10 s that Lambda gives an environment to
/// start.
const ATTEMPT_TIME: Duration = Duration::from_secs(3);

/// Returns the text at `file:///path`, `s3://bucket/key` or `ssm:<parameter name>`. It has at most `bytes_max` bytes.
///
/// # Errors
/// The problem, in words that name neither the URI nor the allowed values.
pub async fn read_document(uri: &str, bytes_max: u64) -> Result<String, String> {
    read_with(&Sdk::from_env(1), uri, bytes_max, ATTEMPT_TIME).await
}

/// Reads a document as [`read_document`] does, with one attempt at a service every so often.
///
/// # Errors
/// Those of [`read_document`].
pub async fn read_with(
    sdk: &Sdk,
    uri: &str,
    bytes_max: u64,
    every: Duration,
) -> Result<String, String> {
    let bytes = match uri.split_once(':') {
        Some(("file", rest)) => in_file(rest, bytes_max)?,
        Some(("s3", rest)) => {
            let (bucket, key) = object(rest)?;
            attempts(every, || in_object(sdk, bucket, key, bytes_max)).await?
        }
        Some(("ssm", name)) if !name.is_empty() => {
            attempts(every, || parameter(sdk, name, ATTEMPT_TIME)).await?
        }
        Some(_) | None => return Err("no file, object or parameter".to_owned()),
    };
    if bytes.len() as u64 > bytes_max {
        return Err(format!("too large: expected at most {bytes_max} bytes"));
    }
    String::from_utf8(bytes).map_err(|error| error.to_string())
}

async fn attempts<A>(every: Duration, attempt: impl Fn() -> A) -> Result<Vec<u8>, String>
where
    A: Future<Output = Result<Vec<u8>, Failed>>,
{
    let mut starts = tokio::time::interval(every);
    let mut number = 1;
    loop {
        starts.tick().await;
        match attempt().await {
            Ok(bytes) => return Ok(bytes),
            Err(failed) if failed.may_pass && number < ATTEMPTS_MAX => number += 1,
            Err(failed) => return Err(format!("{} (attempt {number})", failed.words)),
        }
    }
}

/// Returns the bytes of the file of what follows `file:`, with one more than allowed if it is too large.
fn in_file(rest: &str, bytes_max: u64) -> Result<Vec<u8>, String> {
    let path = rest.strip_prefix("//").map(Path::new);
    let Some(path) = path.filter(|path| path.is_absolute() && path.file_name().is_some()) else {
        return Err("no path of a file".to_owned());
    };
    let read = || -> std::io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        let file = File::open(path)?;
        file.take(bytes_max + 1).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    read().map_err(|error| error.to_string())
}

/// Returns the bucket and the key in what follows `s3:`.
fn object(rest: &str) -> Result<(&str, &str), String> {
    in_full_build(())?;
    let object = rest
        .strip_prefix("//")
        .and_then(|rest| rest.split_once('/'));
    let is_object = |(bucket, key): &(&str, &str)| {
        shared::config::bucket_name(bucket).is_some() && !key.is_empty()
    };
    let object = object.filter(is_object);
    object.ok_or_else(|| "no bucket and key of an object".to_owned())
}

#[cfg(feature = "full")]
async fn in_object(sdk: &Sdk, bucket: &str, key: &str, bytes_max: u64) -> Result<Vec<u8>, Failed> {
    use aws_sdk_s3::error::ProvideErrorMetadata as _;
    use shared::ports::PortError;

    use crate::errors::{S3, chain, target_error};

    let client = sdk.s3(ATTEMPT_TIME);
    let got = client.get_object().bucket(bucket).key(key).send().await;
    let object = match got {
        Ok(object) => object,
        Err(error) if error.code() == Some("NoSuchKey") => {
            return Err(Failed::lasting("there is no such object".to_owned()));
        }
        Err(error) => {
            let error = target_error(S3, bucket, &error);
            let may_pass = !matches!(error, PortError::Refused { .. });
            let mut words = error.to_string();
            if words.contains("AccessDenied") {
                // Source: <https://docs.aws.amazon.com/AmazonS3/latest/API/API_GetObject.html> (2026-11), "Permissions".
                words += "; without the permission `s3:ListBucket`, S3 returns this for a missing object as well";
            }
            return Err(Failed { words, may_pass });
        }
    };
    let length = object.content_length().unwrap_or_default();
    if u64::try_from(length).is_ok_and(|length| length > bytes_max) {
        let words = format!("too large: got {length} bytes, expected at most {bytes_max}");
        return Err(Failed::lasting(words));
    }
    let body = object.body.collect().await;
    let body = body.map_err(|error| Failed::passing(chain(&error)))?;
    Ok(body.to_vec())
}

#[cfg(not(feature = "full"))]
async fn in_object(_: &Sdk, _: &str, _: &str, _: u64) -> Result<Vec<u8>, Failed> {
    unreachable!("`object` returned an error")
}
