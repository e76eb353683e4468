//! The manifest of a part, `<part>.manifest.json`: a file or object beside the part that says that the part is complete.
//!
//! The sink writes the manifest last, after the part and its reject list. Every attempt looks for the manifest first. If an
//! attempt finds a manifest of the same content, it writes nothing: the part was delivered, and a consumer may have removed
//! the part since. So a consumer gets every part exactly once if it takes a part and its reject list only when the manifest
//! exists, and never removes the manifest.
//!
//! There are no other promises. A part may be written again if a consumer takes it before its manifest exists or removes the
//! manifest, or if two attempts overlap. The lease of the batch prevents overlapping attempts while clocks differ by less than
//! [`CLOCK_SKEW_MAX`](protocol::limits::CLOCK_SKEW_MAX).

use std::fmt;
use std::io;

use protocol::chain::ChainHash;
use protocol::format_version::Versioned;
use protocol::ids::{BatchId, BatchKey, SourceArn};
use protocol::period::Period;
use serde::{Deserialize, Serialize};

use forms::Compression;
use forms::Part;
use forms::chain::{Chain, Linked};
use forms::merkle::Tree;
use forms::{Content, Rendering};

/// The longest manifest that is read. A manifest has some 500 bytes and a batch key, which may be long.
pub(crate) const BYTES_MAX: u64 = 64 * 1_024;

/// The fields of a manifest.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Manifest<'p> {
    batch_id: BatchId,
    part: usize,
    /// The key of the part's object, or the path of its file below the sink's directory.
    key: &'p str,
    #[serde(skip_serializing_if = "Option::is_none")]
    batch_key: Option<&'p BatchKey>,
    source: &'p SourceArn,
    /// The period that all events are in, in epoch milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    period: Option<Period>,
    format: &'static str,
    compression: &'static str,
    /// The number of events of the part: those with a record in the file, and the rejected ones.
    count: usize,
    /// The number of events of the part that are only in the reject list.
    rejected: usize,
    /// The length of the content before compression.
    bytes: u64,
    /// The SHA-256 of the content before compression, in hexadecimal. It identifies nothing: manifests before 0.3.0 lack it.
    #[serde(skip_serializing_if = "Option::is_none")]
    sha256: Option<&'p str>,
    /// The BLAKE3 hash of the content before compression, in hexadecimal.
    hash: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    first_sent_at: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_sent_at: Option<u64>,
    /// The link of the part, with `PROOF`. It must be the last field: what is before its hashes is the statement.
    #[serde(skip_serializing_if = "Option::is_none")]
    chain: Option<Chain>,
}

/// The fields of a manifest that identify the content. Other fields may differ between versions of the service, and the
/// compression does not matter.
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

/// Returns the name of a part's manifest.
pub(crate) fn name(part: &Part) -> String {
    format!("{}.manifest.json", part.part_index)
}

/// Returns the manifest of a part whose object or file is `key`, and whose events have this tree. The same part gives the same bytes
/// at every attempt.
pub(crate) fn render(
    part: &Part,
    key: &str,
    rendering: &Rendering,
    content: &Content,
    tree: Option<&Tree>,
) -> io::Result<Vec<u8>> {
    let link = part.link.zip(part.file_number).zip(tree);
    let sent = || part.items.iter().map(|item| item.sent_at.as_ms());
    let manifest = Manifest {
        batch_id: part.batch_id,
        part: part.part_index,
        key,
        batch_key: part.batch_key.as_ref(),
        source: &part.source,
        period: part.period,
        format: rendering.format.name(),
        compression: rendering.compression.name(),
        count: part.items.len(),
        rejected: content.rejects.len(),
        bytes: content.bytes,
        sha256: content.sha256.as_deref(),
        hash: content.hash.to_string(),
        first_sent_at: sent().min(),
        last_sent_at: sent().max(),
        chain: link.map(|((link, number), tree)| Chain::new(number, link, tree)),
    };
    let manifest = serde_json::to_string(&manifest)? + "\n";
    Ok(match part.link.filter(|_| link.is_some()) {
        Some(link) => Linked::new(&manifest, link.previous).to_manifest(),
        None => manifest,
    }
    .into_bytes())
}

/// Returns the hash, length and rejects that a part has when it is written, without the SHA-256, which is not compared; writes
/// nothing.
pub(crate) fn content(part: &Part, rendering: &Rendering) -> io::Result<Content> {
    let plain = Rendering {
        // Hash and length are of the content before compression.
        compression: Compression::None,
        ..rendering.clone()
    };
    let (_, content) = plain.write(part, io::sink())?;
    Ok(content)
}

/// Compares a manifest that was found with the part and its content.
///
/// # Errors
/// A message with both hashes if the manifest is of other content, or a message that it is not a manifest, or one of a later
/// version.
pub(crate) fn compare(found: &[u8], part: &Part, content: &Content) -> Result<(), String> {
    let expected = Identity {
        batch_id: part.batch_id,
        part: part.part_index,
        count: part.items.len(),
        rejected: content.rejects.len(),
        bytes: content.bytes,
        hash: content.hash.to_string(),
    };
    if let Ok(Err(later)) = serde_json::from_slice(found).map(Versioned::check) {
        return Err(format!("manifest: {later}"));
    }
    match serde_json::from_slice::<Identity>(found) {
        Ok(found) if found == expected => Ok(()),
        Ok(found) => Err(format!(
            "manifest of other content: got {found}, expected {expected}"
        )),
        Err(error) => Err(format!("not a manifest: {error}, expected {expected}")),
    }
}

/// What `chain` of a manifest must have in common with the link of its part.
#[derive(Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
struct OfLink {
    number: u64,
    taken_at: u64,
    after: u64,
}

/// The field of a manifest that says of its link.
#[derive(Deserialize)]
struct WithLink {
    chain: OfLink,
}

/// Returns the chain hash in a manifest of this part; `None` if the part has no link, or the manifest has none, because a version
/// without links wrote it.
///
/// # Errors
/// A message, if the manifest is of another link, or its hash is wrong.
pub(crate) fn chain_hash(found: &[u8], part: &Part) -> Result<Option<ChainHash>, String> {
    let (Some(link), Some(number)) = (part.link, part.file_number) else {
        return Ok(None);
    };
    let Some(linked) = Linked::read(found) else {
        return Ok(None);
    };
    let expected = OfLink {
        number,
        taken_at: link.taken_at.as_ms(),
        after: link.after,
    };
    let of_link = linked.fields::<WithLink>().ok().map(|found| found.chain);
    let is_same = of_link.as_ref() == Some(&expected) && linked.previous == link.previous;
    match is_same && linked.is_whole() {
        true => Ok(Some(linked.hash)),
        false => Err(format!(
            "manifest of another link: got {of_link:?} after `{}` with hash `{}`, expected {expected:?} after `{}` and its hash",
            linked.previous, linked.hash, link.previous
        )),
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
    use crate::tests_support::{assert_has, part, rendering};
    use forms::Format;
    use forms::chain::{event_lines, tree_of};
    use protocol::chain::{ChainEnd, Link};
    use protocol::time::Timestamp;

    fn plain() -> Rendering {
        rendering(Format::Body, Compression::None)
    }

    fn rendered(part: &Part) -> String {
        let written = plain().write_for_manifest(part, io::sink());
        let (_, content) = written.unwrap();
        let tree = part
            .link
            .map(|_| tree_of(&event_lines(part, &content.rejects)).unwrap());
        let rendered = render(part, "key", &plain(), &content, tree.as_ref());
        String::from_utf8(rendered.unwrap()).unwrap()
    }

    fn compared(found: &str, part: &Part) -> Result<(), String> {
        compare(found.as_bytes(), part, &content(part, &plain()).unwrap())
    }

    #[test]
    fn a_manifest_matches_its_part_and_no_other() {
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
            let hash = content(&other, &plain()).unwrap().hash.to_string();
            assert_has(&words, &["manifest of other content: got part ", &hash]);
        }
    }

    #[test]
    fn other_fields_and_the_compression_are_not_compared() {
        let part = part(0, &["a"]);
        let found = rendered(&part).replace("\"none\",", "\"zstd\",\"fresh\":{\"x\":[1]},");
        assert!(found.contains("zstd"), "{found}");
        compared(&found, &part).unwrap();
    }

    #[test]
    fn a_manifest_has_the_sha256_of_the_content_before_compression() {
        for compression in [Compression::None, Compression::Gzip, Compression::Zstd] {
            let rendering = rendering(Format::Body, compression);
            let part = part(0, &["a", "b"]);
            let (_, content) = rendering.write_for_manifest(&part, io::sink()).unwrap();
            let manifest = render(&part, "key", &rendering, &content, None).unwrap();
            let manifest: serde_json::Value = serde_json::from_slice(&manifest).unwrap();
            // By `printf 'a\nb\n' | sha256sum`.
            let expected = "911169ddaaf146aff539f58c26c489af3b892dff0fe283c1c264c65ae5aa59a2";
            assert_eq!(manifest["sha256"], expected);
        }
    }

    #[test]
    fn a_manifest_of_the_version_before_sha256_is_of_the_same_content() {
        let part = part(0, &["a"]);
        let now = rendered(&part);
        let mut former: serde_json::Value = serde_json::from_str(&now).unwrap();
        let sha256 = former.as_object_mut().unwrap().remove("sha256");
        assert!(sha256.is_some(), "{now}");
        compared(&former.to_string(), &part).unwrap();
        // The former version reads the same of a manifest of this one: `Identity` is as it was.
        let identity: Identity = serde_json::from_str(&now).unwrap();
        assert_eq!(identity, serde_json::from_value(former).unwrap());
    }

    fn with_link(mut part: Part) -> Part {
        let end = ChainEnd {
            number: 6,
            taken_at: Timestamp::from_ms(60),
            hash: ChainHash::new([6; 32]),
        };
        part.file_number = Some(7);
        part.link = Some(Link::after(Some(end), Timestamp::from_ms(70)));
        part
    }

    #[test]
    fn a_manifest_with_a_link_has_its_hash_and_is_of_the_same_content() {
        let part = with_link(part(0, &["a", "b\n"]));
        let found = rendered(&part);
        compared(&found, &part).unwrap();
        let manifest: serde_json::Value = serde_json::from_str(&found).unwrap();
        let chain = &manifest["chain"];
        let hash = chain_hash(found.as_bytes(), &part).unwrap().unwrap();
        assert_eq!(chain["hash"], hash.to_string());
        assert_eq!((&chain["number"], &chain["leaves"]), (&7.into(), &1.into()));
        assert_eq!(chain["previous"], "06".repeat(32));
        assert_eq!(chain.get("gap"), None);
        let mut other = self::part(0, &["a", "b\n"]);
        compared(&found, &other).unwrap();
        assert_eq!(chain_hash(found.as_bytes(), &other), Ok(None));
        // A version without links wrote the manifest.
        let without = rendered(&other);
        assert_eq!(chain_hash(without.as_bytes(), &part), Ok(None));
        (other.link, other.file_number) = (part.link, Some(8));
        let words = chain_hash(found.as_bytes(), &other).unwrap_err();
        assert_has(
            &words,
            &["manifest of another link: got ", "number: 7", "number: 8"],
        );
        let changed = found.replace("\"count\":2", "\"count\":3");
        chain_hash(changed.as_bytes(), &part).unwrap_err();
    }

    #[test]
    fn a_file_that_is_not_a_manifest_has_an_error_of_its_own() {
        for wrong in ["", "{}", "[]", "{\"batchId\":1}", "\u{0}"] {
            let words = compared(wrong, &part(0, &["a"])).unwrap_err();
            assert!(words.starts_with("not a manifest: "), "{words}");
        }
    }

    #[test]
    fn a_manifest_of_a_later_version_is_refused_whatever_else_it_says() {
        let part = part(0, &["a"]);
        let same = rendered(&part).replacen('{', "{\"formatVersion\":3,", 1);
        for later in [&*same, "{\"formatVersion\":3}"] {
            let words = compared(later, &part).unwrap_err();
            assert!(
                words.starts_with("manifest: written by a later version of the service: got `3`"),
                "{words}"
            );
        }
    }
}
