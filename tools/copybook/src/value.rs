//! Values in a copybook. None of them is used: a record gets its values from elsewhere, and a `FILLER` has spaces or zeros.

use crate::words::Word;

/// Words that stand for a value.
const FIGURATIVE: [&str; 13] = [
    "ZERO",
    "ZEROS",
    "ZEROES",
    "SPACE",
    "SPACES",
    "HIGH-VALUE",
    "HIGH-VALUES",
    "LOW-VALUE",
    "LOW-VALUES",
    "QUOTE",
    "QUOTES",
    "NULL",
    "NULLS",
];

/// Words between the values of a condition.
const BETWEEN: [&str; 8] = ["THRU", "THROUGH", "ALL", "WHEN", "SET", "TO", "FALSE", "IS"];

/// Returns whether a word is a literal, a number or a word that stands for one.
pub(crate) fn is_value(word: &Word) -> bool {
    let is_number = word.text.contains(|one: char| one.is_ascii_digit())
        && word
            .text
            .chars()
            .all(|one| matches!(one, '0'..='9' | '+' | '-' | '.' | ','));
    word.is_literal() || is_number || FIGURATIVE.contains(&word.upper().as_str())
}

/// Returns whether a value is that of a column for `FILLER`: spaces in a text, zeros in a number.
pub(crate) fn is_filling(word: &Word) -> bool {
    let upper = word.upper();
    let is_blank = |text: &str| {
        text.chars()
            .all(|one| matches!(one, ' ' | '0' | '\'' | '"'))
    };
    matches!(
        upper.as_str(),
        "ZERO" | "ZEROS" | "ZEROES" | "SPACE" | "SPACES"
    ) || is_blank(&upper)
}

/// Returns the first word that cannot stand among the values of a condition (level 88). If its period is missing, that is a word
/// of the next item, which must not be lost.
pub(crate) fn stranger(values: &[Word]) -> Option<&Word> {
    let is_known = |word: &Word| is_value(word) || BETWEEN.contains(&word.upper().as_str());
    values.iter().find(|word| !is_known(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn word(text: &str) -> Word {
        Word {
            line: 1,
            text: text.to_owned(),
            is_open: false,
        }
    }

    #[test]
    fn literals_numbers_and_words_for_them_are_values() {
        for text in [
            "'a b'", "X'0F'", "0", "-1.5", "+1,5", ".5", "zeroes", "SPACES",
        ] {
            assert!(is_value(&word(text)), "{text}");
        }
        for text in ["A", "ALL", "-", "9A", "PIC"] {
            assert!(!is_value(&word(text)), "{text}");
        }
    }

    #[test]
    fn a_condition_may_have_ranges_and_a_value_for_false() {
        let values = [
            "1", "thru", "5", "ALL", "'x'", "WHEN", "SET", "TO", "FALSE", "IS", "0",
        ];
        let mut values: Vec<Word> = values.into_iter().map(word).collect();
        assert_eq!(stranger(&values), None);
        values.extend(["05", "NAME"].map(word));
        assert_eq!(stranger(&values), Some(&word("NAME")));
    }
}
