//! What a part's manifest says, `<part>.manifest.json`, held against the part as it was read.

use std::borrow::Cow;

use serde::Deserialize;

/// What was read of a part.
pub(super) struct Content<'a> {
    /// The name of its file.
    pub name: &'a str,
    /// Its lines.
    pub lines: u64,
    /// Lines of its reject list.
    pub rejected: u64,
    /// Length, decompressed.
    pub bytes: u64,
    /// As `bytes`, the hash.
    pub hash: blake3::Hash,
}

/// What is wrong with a manifest.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Fault {
    #[error("no manifest: expected `{0}.manifest.json` beside the part")]
    Missing(u64),
    #[error("manifest of a part that is not there")]
    NoPart,
    #[error("unreadable as a manifest: {0}")]
    Unreadable(String),
    #[error("the manifest says {field} `{says}`, expected `{expected}`")]
    Differs {
        field: &'static str,
        says: String,
        expected: String,
    },
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Manifest<'a> {
    #[serde(borrow)]
    batch_id: Cow<'a, str>,
    part: u64,
    #[serde(borrow)]
    key: Cow<'a, str>,
    count: u64,
    rejected: u64,
    bytes: u64,
    #[serde(borrow)]
    hash: Cow<'a, str>,
}

/// Returns the first of what a manifest says otherwise than its part.
pub(super) fn difference(
    manifest: &[u8],
    batch_id: &str,
    part: u64,
    content: &Content<'_>,
) -> Option<Fault> {
    let says: Manifest<'_> = match serde_json::from_slice(manifest) {
        Ok(says) => says,
        Err(error) => return Some(Fault::Unreadable(error.to_string())),
    };
    let name = says.key.rsplit('/').next().unwrap_or_default();
    let count = content.lines + content.rejected;
    let fields = [
        ("batch", says.batch_id.to_string(), batch_id.to_owned()),
        ("part", says.part.to_string(), part.to_string()),
        ("key", name.to_owned(), content.name.to_owned()),
        ("count", says.count.to_string(), count.to_string()),
        (
            "rejected",
            says.rejected.to_string(),
            content.rejected.to_string(),
        ),
        ("bytes", says.bytes.to_string(), content.bytes.to_string()),
        ("hash", says.hash.to_string(), content.hash.to_string()),
    ];
    let differing = fields.into_iter().find(|(_, says, is)| says != is);
    differing.map(|(field, says, expected)| Fault::Differs {
        field,
        says,
        expected,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn whatever_a_manifest_says_otherwise_is_named() {
        let content = Content {
            name: "1.jsonl.gz",
            lines: 2,
            rejected: 1,
            bytes: 30,
            hash: blake3::hash(b"content"),
        };
        let sound = json!({
            "batchId": "b", "part": 1, "key": "out/b/1.jsonl.gz", "source": "arn:q", "format": "envelope",
            "count": 3, "rejected": 1, "bytes": 30, "hash": content.hash.to_string(),
        });
        let found = |manifest: &Value| {
            let text = manifest.to_string();
            difference(text.as_bytes(), "b", 1, &content)
        };
        assert_eq!(found(&sound), None);
        for (name, value, field) in [
            ("batchId", json!("c"), "batch"),
            ("part", json!(2), "part"),
            ("key", json!("out/b/1.jsonl"), "key"),
            ("count", json!(2), "count"),
            ("rejected", json!(0), "rejected"),
            ("bytes", json!(31), "bytes"),
            ("hash", json!("0"), "hash"),
        ] {
            let mut manifest = sound.clone();
            manifest[name] = value;
            let Some(Fault::Differs { field: named, .. }) = found(&manifest) else {
                panic!("{name} is not compared");
            };
            assert_eq!(named, field);
        }
        assert!(matches!(found(&json!({})), Some(Fault::Unreadable(_))));
    }
}
