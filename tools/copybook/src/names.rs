//! Names of items, and what they are as names of columns and in JMESPath.

use crate::limits::NAME_CHARACTERS_MAX;

/// What stands for the name of an item that has none.
pub(crate) const NAMELESS: &str = "FILLER";

/// Returns whether a word can be a name.
pub(crate) fn is_name(word: &str) -> bool {
    let is_allowed = |one: char| one.is_ascii_alphanumeric() || one == '-' || one == '_';
    word.len() <= NAME_CHARACTERS_MAX
        && word.chars().all(is_allowed)
        && word.contains(|one: char| one.is_ascii_alphabetic())
        && !word.starts_with('-')
        && !word.ends_with('-')
}

/// Returns a name as that of a column or a member.
pub(crate) fn plain(name: &str) -> String {
    name.to_ascii_lowercase().replace('-', "_")
}

/// Returns a plain name as an identifier of JMESPath, in which a digit cannot be the first character.
pub(crate) fn identifier(plain: &str) -> String {
    match plain.starts_with(|first: char| first.is_ascii_digit()) {
        true => format!("\"{plain}\""),
        false => plain.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_letters_digits_and_hyphens_between() {
        for name in ["A", "CUST-ID", "1ST", "cust_id", &"A".repeat(63)] {
            assert!(is_name(name), "{name}");
        }
        for name in [
            "",
            "12",
            "-A",
            "A-",
            "A.B",
            ":TAG:-A",
            "É",
            "'A'",
            &"A".repeat(64),
        ] {
            assert!(!is_name(name), "{name}");
        }
    }

    #[test]
    fn an_identifier_that_begins_with_a_digit_is_quoted() {
        assert_eq!(identifier(&plain("CUST-ID")), "cust_id");
        assert_eq!(identifier(&plain("1ST")), "\"1st\"");
    }
}
