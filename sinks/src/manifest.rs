//! What says that a part is there: `<part>.manifest.json`, which files and objects have beside the part.
//!
//! It is written last, when the part and its reject list are there, and every attempt to deliver looks for it first. An
//! attempt that finds it, and the same content in it, writes nothing: the part was delivered, and a consumer may have taken it
//! away since. So a consumer that takes a part and its reject list only when the manifest is there, and leaves the
//! manifest where it is, gets every part exactly once.
//!
//! Nothing more is promised. A part that is taken without its manifest, or whose manifest is gone, may come
//! again; so may one at which two attempts overlap, which the lease of its batch prevents as long as clocks differ by less than
//! [`CLOCK_SKEW_MAX`](protocol::limits::CLOCK_SKEW_MAX).

use std::fmt;
use std::io;

use protocol::ids::{BatchId, BatchKey, SourceArn};
use serde::{Deserialize, Serialize};

use crate::compression::Compression;
use crate::part::Part;
use crate::rendering::Content;
use crate::rendering::Rendering;
use crate::sink::Receipt;

/// What is read of a manifest at most: a batch key, which may be long, and some 500 bytes.
pub(crate) const BYTES_MAX: u64 = 64 * 1_024;

/// What is said about a part.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Manifest<'p> {
    batch_id: BatchId,
    part: usize,
    /// The part's object, or its file below the directory of all.
    key: &'p str,
    #[serde(skip_serializing_if = "Option::is_none")]
    batch_key: Option<&'p BatchKey>,
    source: &'p SourceArn,
    format: &'static str,
    compression: &'static str,
    /// Records of the part, the rejected ones among them.
    count: usize,
    rejected: usize,
    /// Of the content, before it was compressed.
    bytes: u64,
    /// As `bytes`: blake3, in hexadecimal.
    hash: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    first_sent_at: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_sent_at: Option<u64>,
}

/// What of a manifest says which content it is of: other fields may come and go from version to version, and how the
/// content was compressed changes nothing.
#[derive(Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Identity {
    batch_id: BatchId,
    part: usize,
    count: usize,
    rejected: usize,
    bytes: u64,
    hash: String,
}

/// The name of a part's manifest.
pub(crate) fn name(part: &Part) -> String {
    format!("{}.manifest.json", part.number)
}

/// The manifest of a part whose object or file is `key`. The same part is the same bytes, every time.
pub(crate) fn render(
    part: &Part,
    key: &str,
    rendering: &Rendering,
    content: &Content,
) -> io::Result<Vec<u8>> {
    let sent = || part.items.iter().map(|item| item.sent_at.as_ms());
    let manifest = Manifest {
        batch_id: part.batch_id,
        part: part.number,
        key,
        batch_key: part.batch_key.as_ref(),
        source: &part.source,
        format: rendering.format.name(),
        compression: rendering.compression.name(),
        count: part.items.len(),
        rejected: content.rejects.len(),
        bytes: content.bytes,
        hash: content.hash.to_string(),
        first_sent_at: sent().min(),
        last_sent_at: sent().max(),
    };
    let mut bytes = serde_json::to_vec(&manifest)?;
    bytes.push(b'\n');
    Ok(bytes)
}

/// What a part comes to, without keeping a byte of it.
pub(crate) fn content(part: &Part, rendering: &Rendering) -> io::Result<Content> {
    let plain = Rendering {
        format: rendering.format.clone(),
        // Hash and length are of the content before it is compressed.
        compression: Compression::None,
    };
    let (_, content) = plain.write(part, io::sink())?;
    Ok(content)
}

/// Compares the manifest that was found with the content that a part has.
///
/// # Errors
/// In words, with both hashes, that the manifest is of other content, or is none.
pub(crate) fn compare(found: &[u8], part: &Part, content: &Content) -> Result<(), String> {
    let expected = Identity {
        batch_id: part.batch_id,
        part: part.number,
        count: part.items.len(),
        rejected: content.rejects.len(),
        bytes: content.bytes,
        hash: content.hash.to_string(),
    };
    match serde_json::from_slice::<Identity>(found) {
        Ok(found) if found == expected => Ok(()),
        Ok(found) => Err(format!(
            "manifest of other content: got {found}, expected {expected}"
        )),
        Err(error) => Err(format!("not a manifest: {error}, expected {expected}")),
    }
}

/// What is answered for a part with this content, by whichever attempt.
pub(crate) fn receipt(content: &Content) -> Receipt {
    Receipt {
        text: format!("blake3:{}", content.hash),
        rejected: content.rejects.len() as u64,
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Identity {
            batch_id,
            part,
            count,
            rejected,
            bytes,
            hash,
        } = self;
        write!(
            f,
            "part {batch_id}/{part} with hash `{hash}` ({bytes} bytes; {count} records, {rejected} of them rejected)"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::Format;
    use crate::tests_support::part;

    const BODIES: Rendering = Rendering {
        format: Format::Body,
        compression: Compression::None,
    };

    fn rendered(part: &Part) -> String {
        let content = content(part, &BODIES).unwrap();
        String::from_utf8(render(part, "key", &BODIES, &content).unwrap()).unwrap()
    }

    fn compared(found: &str, part: &Part) -> Result<(), String> {
        compare(found.as_bytes(), part, &content(part, &BODIES).unwrap())
    }

    #[test]
    fn a_manifest_is_of_its_part_and_of_no_other() {
        let bodies = ["a", "b\n"];
        let found = rendered(&part(0, &bodies));
        compared(&found, &part(0, &bodies)).unwrap();
        let mut elsewhere = part(0, &bodies);
        elsewhere.batch_id = "0190163d-8694-739b-aea5-966c26f8ad92".parse().unwrap();
        for other in [
            part(1, &bodies),
            part(0, &["a", "c\n", "b\n"]),
            part(0, &["a", "b"]),
            part(0, &["b", "a\n"]),
            elsewhere,
        ] {
            let words = compared(&found, &other).unwrap_err();
            let hash = content(&other, &BODIES).unwrap().hash.to_string();
            for each in ["manifest of other content: got part ", &hash] {
                assert!(words.contains(each), "{each} in {words}");
            }
        }
    }

    #[test]
    fn fields_and_compression_of_another_version_change_nothing() {
        let part = part(0, &["a"]);
        let found = rendered(&part).replace("\"none\",", "\"zstd\",\"fresh\":{\"x\":[1]},");
        assert!(found.contains("zstd"), "{found}");
        compared(&found, &part).unwrap();
    }

    #[test]
    fn what_is_no_manifest_is_told_from_one_of_other_content() {
        for wrong in ["", "{}", "[]", "{\"batchId\":1}", "\u{0}"] {
            let words = compared(wrong, &part(0, &["a"])).unwrap_err();
            assert!(words.starts_with("not a manifest: "), "{words}");
        }
    }

    #[test]
    fn the_content_is_what_the_rendering_writes() {
        let part = part(0, &["a", "b\n", "c"]);
        for compression in [Compression::None, Compression::Gzip, Compression::Zstd] {
            let rendering = Rendering {
                format: Format::Body,
                compression,
            };
            let (_, written) = rendering.write(&part, Vec::new()).unwrap();
            let content = content(&part, &rendering).unwrap();
            let both = [written, content].map(|each| (each.hash, each.bytes, each.rejects.len()));
            assert_eq!(both[0], both[1]);
        }
    }
}
