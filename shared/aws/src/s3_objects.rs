//! Requests to S3 that several adapters make.

use std::ops::Range;

use aws_sdk_s3::Client;
use aws_sdk_s3::error::ProvideErrorMetadata;
use aws_sdk_s3::operation::get_object::GetObjectError;
use shared::ports::PortError;

use crate::errors::{S3, port_error};

/// Reads an object, or those of its bytes that are in a range; returns `None` when there is no object, or no bucket. `name` is what errors
/// call it.
pub(crate) async fn get(
    client: &Client,
    bucket: &str,
    key: &str,
    range: Option<&Range<u64>>,
    name: &str,
) -> Result<Option<Vec<u8>>, PortError> {
    let last =
        |range: &Range<u64>| format!("bytes={}-{}", range.start, range.end.saturating_sub(1));
    let call = client.get_object().bucket(bucket).key(key);
    let sent = call.set_range(range.map(last)).send().await;
    let reply = match sent {
        Ok(reply) => reply,
        Err(error)
            if error
                .as_service_error()
                .is_some_and(GetObjectError::is_no_such_key)
                || error.code() == Some("NoSuchBucket") =>
        {
            return Ok(None);
        }
        Err(error) if error.code() == Some("InvalidRange") => return Ok(Some(Vec::new())),
        Err(error) => return Err(port_error(S3, name, &error)),
    };
    let bytes = reply.body.collect().await;
    let bytes = bytes.map_err(|error| PortError::unknown(S3, format!("{name}: {error}")))?;
    Ok(Some(bytes.to_vec()))
}
