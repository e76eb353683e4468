//! Whether this build has templates: header and trailer records, paths, and their totals and dates.
//!
//! They are half a megabyte of the executable, and most deployments have none. Without the cargo feature `layouts`, no value of
//! [`InBuild`] exists, so neither does any value that contains one, and the compiler leaves out all code that is about them.

/// Shows that the build has the cargo feature `layouts`.
#[cfg(feature = "layouts")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct InBuild;

/// Shows that the build has the cargo feature `layouts`, which it has not.
#[cfg(not(feature = "layouts"))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InBuild {}

impl InBuild {
    /// Returns it, if the build has the feature.
    ///
    /// # Errors
    /// The build does not have it.
    pub(crate) fn check() -> Result<InBuild, String> {
        #[cfg(feature = "layouts")]
        return Ok(InBuild);
        #[cfg(not(feature = "layouts"))]
        Err(shared::config::not_built("layouts"))
    }
}
