//! The cargo feature `full`.

/// Whether this executable was built with the cargo feature `full`.
pub const FULL: bool = cfg!(feature = "full");

/// The error for a value that needs the cargo feature `full`, in a build without it.
pub const WITHOUT_FULL: &str = "the executable was built without the cargo feature `full`: run `local` with `cargo run --release \
                                -p local --features full`; the functions have it unless they were built with \
                                `--no-default-features`";

/// Returns `value` if this executable was built with the cargo feature `full`.
///
/// # Errors
/// [`WITHOUT_FULL`].
pub fn in_full_build<T>(value: T) -> Result<T, String> {
    match FULL {
        true => Ok(value),
        false => Err(WITHOUT_FULL.to_owned()),
    }
}
