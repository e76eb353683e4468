//! The result of a check of an invariant.

/// A broken invariant.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{name}: {found}")]
pub struct Broken {
    /// The name of the invariant, as in ARCHITECTURE.md.
    pub name: &'static str,
    /// The violation, in words.
    pub found: String,
}

/// The result of a check.
pub type Check = Result<(), Broken>;

/// Returns `Ok` if `holds`.
///
/// # Errors
/// [`Broken`] with `name` and `found()` if not.
pub fn hold(name: &'static str, holds: bool, found: impl FnOnce() -> String) -> Check {
    if holds {
        Ok(())
    } else {
        Err(Broken {
            name,
            found: found(),
        })
    }
}
