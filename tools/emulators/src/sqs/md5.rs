//! MD5 digests as SQS computes them. SDKs compare them with their own digests.

use md5::{Digest, Md5};

use super::message_attribute::{MessageAttribute, TRACE_HEADER};

/// Returns the digest of a body, in lowercase hexadecimal.
pub(super) fn of_body(body: &str) -> String {
    hex::encode(Md5::digest(body))
}

/// Returns the digest of message attributes, in lowercase hexadecimal; `None` if there are none.
///
/// The digest covers, for each attribute in the order of names: the name, the data type, one byte (1 for a string, 2 for a
/// binary value) and the value. Name, type and value follow their length as a big-endian number of four bytes.
///
/// Source: <https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-message-metadata.html#sqs-attributes-md5-message-digest-calculation>
pub(super) fn of_attributes<'a>(
    attributes: impl IntoIterator<Item = (&'a String, &'a MessageAttribute)>,
) -> Option<String> {
    let mut digest = Md5::new();
    let mut any = false;
    for (name, attribute) in attributes {
        any = true;
        update_sized(&mut digest, name.as_bytes());
        update_sized(&mut digest, attribute.data_type.as_bytes());
        digest.update([if attribute.is_binary() { 2 } else { 1 }]);
        update_sized(&mut digest, attribute.value_bytes());
    }
    any.then(|| hex::encode(digest.finalize()))
}

/// Returns the digest of the system attribute `AWSTraceHeader`, which is computed as that of message attributes.
pub(super) fn of_trace_header(header: &str) -> Option<String> {
    let name = TRACE_HEADER.to_owned();
    of_attributes([(&name, &MessageAttribute::string(header))])
}

fn update_sized(digest: &mut Md5, bytes: &[u8]) {
    let len = u32::try_from(bytes.len()).expect("a message's limit of 1 MiB fits u32");
    digest.update(len.to_be_bytes());
    digest.update(bytes);
}
