//! Compares a manifest, `<part>.manifest.json`, with the part that was read.

use std::borrow::Cow;

use serde::Deserialize;

use super::pool::FileContent;

/// The facts about a part that its manifest must match.
pub(super) struct Content<'a> {
    /// The name of the part's file.
    pub name: &'a str,
    /// The number of lines of the part's reject list.
    pub rejected: u64,
    pub file: FileContent,
}

/// What is wrong with a manifest.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Fault {
    #[error("no manifest: expected `{0}.manifest.json` in the directory of the batch")]
    Missing(u64),
    #[error("the manifest has no part, neither beside it nor where it says")]
    NoPart,
    #[error("not a valid manifest: {0}")]
    Unreadable(String),
    #[error("wrong `{field}` in the manifest: got `{found}`, expected `{expected}`")]
    Differs {
        field: &'static str,
        found: String,
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
    /// Manifests before 0.3.0 lack it.
    sha256: Option<String>,
}

/// Returns the path of the part that a manifest names; `None` if it is not a manifest.
pub(super) fn key(manifest: &[u8]) -> Option<String> {
    #[derive(Deserialize)]
    struct Named {
        key: String,
    }
    let named: Named = serde_json::from_slice(manifest).ok()?;
    Some(named.key)
}

/// Returns the first difference between a manifest and its part.
pub(super) fn difference(
    manifest: &[u8],
    batch_id: &str,
    part: u64,
    content: &Content<'_>,
) -> Option<Fault> {
    let found: Manifest<'_> = match serde_json::from_slice(manifest) {
        Ok(found) => found,
        Err(error) => return Some(Fault::Unreadable(error.to_string())),
    };
    let name = found.key.rsplit('/').next().unwrap_or_default();
    let Content { rejected, file, .. } = content;
    let count = file.lines + rejected;
    let sha256 = found.sha256.zip(file.sha256.clone());
    let sha256 = sha256.map(|(found, expected)| ("sha256", found, expected));
    let fields = [
        ("batch", found.batch_id.to_string(), batch_id.to_owned()),
        ("part", found.part.to_string(), part.to_string()),
        ("key", name.to_owned(), content.name.to_owned()),
        ("count", found.count.to_string(), count.to_string()),
        ("rejected", found.rejected.to_string(), rejected.to_string()),
        ("bytes", found.bytes.to_string(), file.bytes.to_string()),
        ("hash", found.hash.to_string(), file.hash.to_string()),
    ];
    let differing = fields
        .into_iter()
        .chain(sha256)
        .find(|(_, found, expected)| found != expected);
    differing.map(|(field, found, expected)| Fault::Differs {
        field,
        found,
        expected,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn each_field_of_a_manifest_is_compared() {
        let content = Content {
            name: "1.jsonl.gz",
            rejected: 1,
            file: FileContent {
                lines: 2,
                bytes: 30,
                hash: blake3::hash(b"content"),
                sha256: Some("12ab".to_owned()),
            },
        };
        let sound = json!({
            "batchId": "b", "part": 1, "key": "out/b/1.jsonl.gz", "source": "arn:q", "format": "envelope",
            "count": 3, "rejected": 1, "bytes": 30, "hash": content.file.hash.to_string(), "sha256": "12ab",
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
            ("sha256", json!("34cd"), "sha256"),
        ] {
            let mut manifest = sound.clone();
            manifest[name] = value;
            let Some(Fault::Differs { field: named, .. }) = found(&manifest) else {
                panic!("{name} is not compared");
            };
            assert_eq!(named, field);
        }
        let mut former = sound.clone();
        former.as_object_mut().unwrap().remove("sha256");
        assert_eq!(found(&former), None);
        assert!(matches!(found(&json!({})), Some(Fault::Unreadable(_))));
    }
}
