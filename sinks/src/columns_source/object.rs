//! Columns in an object of S3.

use std::time::Duration;

use shared::aws::Sdk;
use shared::config::bucket_name;

use super::{COLUMNS_BYTES_MAX, text};
use crate::s3::read;

/// Attempts at an object, one after the other.
pub(super) const ATTEMPTS_MAX: u32 = 3;
/// Timeout of one attempt, and the interval between attempt starts. All of them fit the 10 s that Lambda gives an environment to
/// start.
const ATTEMPT_TIME: Duration = Duration::from_secs(3);

/// The columns in the object of what follows `s3:`.
pub(super) async fn in_s3(rest: &str) -> Result<String, String> {
    let object = rest
        .strip_prefix("//")
        .and_then(|rest| rest.split_once('/'));
    let Some((bucket, key)) =
        object.filter(|(bucket, key)| bucket_name(bucket).is_some() && !key.is_empty())
    else {
        return Err("no bucket and key of an object".to_owned());
    };
    let client = Sdk::from_env(1).s3(ATTEMPT_TIME);
    in_object(&client, bucket, key, ATTEMPT_TIME).await
}

/// The columns in an object, which is asked for every so often.
pub(super) async fn in_object(
    client: &aws_sdk_s3::Client,
    bucket: &str,
    key: &str,
    every: Duration,
) -> Result<String, String> {
    let mut starts = tokio::time::interval(every);
    let mut attempt = 1;
    loop {
        starts.tick().await;
        match read(client, bucket, key, COLUMNS_BYTES_MAX).await {
            Ok(Some(bytes)) => return text(bytes),
            Ok(None) => return Err("there is no such object".to_owned()),
            Err(failure) if failure.may_pass && attempt < ATTEMPTS_MAX => attempt += 1,
            Err(failure) => return Err(format!("{} (attempt {attempt})", failure.reason)),
        }
    }
}
