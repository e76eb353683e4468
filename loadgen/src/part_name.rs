//! The names of parts, and of the files beside them.

use crate::whole::whole;

/// The extension of the manifest of a part.
pub(crate) const MANIFEST: &str = "manifest.json";
/// The extension of the reject list of a part.
pub(crate) const REJECTS: &str = "rejects";

/// Splits a name into the number of its part and the extension, which may be empty: `3.jsonl.gz` is `3` and `jsonl.gz`.
/// Returns `None` if the name does not begin with a number.
pub(crate) fn split(name: &str) -> Option<(u64, &str)> {
    let (number, extension) = name.split_once('.').unwrap_or((name, ""));
    Some((whole(number)?, extension))
}
