//! The version of what the service stores: lock items, batch records, tickets, loads, slots and manifests.
//!
//! An item without a version has version 1. Only items that older code must refuse have an attribute with their version: the
//! records of batches with reservations. An attribute in every lock item would be stored and paid for without any use.

use serde::Deserialize;

/// The latest version that this code can read, and the version of what older code must refuse.
pub const FORMAT_VERSION: u64 = 2;
/// The name of the attribute or JSON field that has the version.
pub const FORMAT_VERSION_FIELD: &str = "formatVersion";

/// Something that a later version of the service has written. A retry succeeds once that version is deployed again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "written by a later version of the service: got `{got}`, expected at most `{FORMAT_VERSION}`; deploy the later version again"
)]
pub struct LaterFormat {
    pub got: u64,
}

/// Checks the version of something that was read.
///
/// # Errors
/// The version is later than [`FORMAT_VERSION`]. Nothing else of what was read may be relied on then.
pub fn check(version: Option<u64>) -> Result<(), LaterFormat> {
    match version {
        Some(got) if got > FORMAT_VERSION => Err(LaterFormat { got }),
        Some(_) | None => Ok(()),
    }
}

/// The version of a JSON object, which is read before anything else of it: a later version may have other fields.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Versioned {
    format_version: Option<u64>,
}

impl Versioned {
    /// Checks the version, as [`check`] does.
    ///
    /// # Errors
    /// Those of [`check`].
    pub fn check(self) -> Result<(), LaterFormat> {
        check(self.format_version)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_later_version_is_refused() {
        assert_eq!(check(None), Ok(()));
        assert_eq!(check(Some(FORMAT_VERSION)), Ok(()));
        let error = check(Some(FORMAT_VERSION + 1)).unwrap_err().to_string();
        assert!(
            error.starts_with("written by a later version of the service: got `3`"),
            "{error}"
        );
    }
}
