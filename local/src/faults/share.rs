//! Shares from 0 to 1, as flags have them.

use emulators::Percent;

/// Why a text is no share.
#[derive(Debug, thiserror::Error, PartialEq)]
#[error("`{0}` is not a share from 0 to 1")]
pub struct NoShare(String);

/// Reads a share from 0 to 1.
pub(super) fn share(text: &str) -> Result<Percent, NoShare> {
    let share = text.parse().ok().and_then(Percent::of_share);
    share.ok_or_else(|| NoShare(text.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_from_0_to_1() {
        assert_eq!(share("1"), Ok(Percent::ALL));
        assert!(share("0").unwrap().is_zero());
        for text in ["10", "-0.1", "NaN", "all"] {
            assert_eq!(share(text), Err(NoShare(text.to_owned())));
        }
    }
}
