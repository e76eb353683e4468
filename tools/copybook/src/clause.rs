//! The words that begin a clause.

use crate::field::{Sign, Usage};

const USAGES: &str = "expected `DISPLAY`, `COMP`, `COMP-3`, `COMP-4` or `COMP-5`";

/// What a word begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Clause {
    Picture,
    /// `USAGE`, which may be left out before the word for a usage.
    Usage,
    UsageIs(Usage),
    /// `SIGN`, which may be left out before the word for a side.
    Sign,
    SignIs(Sign),
    Occurs,
    /// How the items of a table are found or sorted, which changes none of their bytes.
    Keys,
    Value,
    Justified,
    /// Something that is not supported, with what is.
    Refused(&'static str),
}

impl Clause {
    /// Returns the clause that a word begins, given in capital letters; `None` if it begins none.
    pub(crate) fn of(word: &str) -> Option<Clause> {
        Some(match word {
            "PIC" | "PICTURE" => Clause::Picture,
            "USAGE" => Clause::Usage,
            "DISPLAY" => Clause::UsageIs(Usage::Display),
            "COMP-3" | "COMPUTATIONAL-3" | "PACKED-DECIMAL" => Clause::UsageIs(Usage::Packed),
            "COMP" | "COMPUTATIONAL" | "COMP-4" | "COMPUTATIONAL-4" | "COMP-5"
            | "COMPUTATIONAL-5" | "BINARY" => Clause::UsageIs(Usage::Binary),
            "SIGN" => Clause::Sign,
            "TRAILING" => Clause::SignIs(Sign::Trailing),
            "LEADING" => Clause::SignIs(Sign::Leading),
            "OCCURS" => Clause::Occurs,
            "INDEXED" | "ASCENDING" | "DESCENDING" => Clause::Keys,
            "VALUE" | "VALUES" => Clause::Value,
            "JUSTIFIED" | "JUST" => Clause::Justified,
            other => return refused(other).map(Clause::Refused),
        })
    }
}

fn refused(word: &str) -> Option<&'static str> {
    Some(match word {
        "REDEFINES" => "expected an item with bytes of its own",
        "RENAMES" => "expected the items themselves",
        "DEPENDING" => "expected `OCCURS` with one number",
        "SYNCHRONIZED" | "SYNC" => "expected items without bytes between them",
        "BLANK" => "expected a number with all of its digits",
        "COPY" | "REPLACE" => "expected the text that it stands for",
        "COMP-1" | "COMPUTATIONAL-1" | "COMP-2" | "COMPUTATIONAL-2" | "COMP-6"
        | "COMPUTATIONAL-6" | "COMP-X" | "COMPUTATIONAL-X" | "COMP-N" | "COMPUTATIONAL-N"
        | "BINARY-CHAR" | "BINARY-SHORT" | "BINARY-LONG" | "BINARY-DOUBLE" | "FLOAT-SHORT"
        | "FLOAT-LONG" | "INDEX" | "POINTER" | "POINTER-32" | "PROCEDURE-POINTER"
        | "FUNCTION-POINTER" | "NATIONAL" | "DISPLAY-1" | "DBCS" | "UTF-8" => USAGES,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_usage_has_several_words() {
        for word in ["COMP-3", "COMPUTATIONAL-3", "PACKED-DECIMAL"] {
            assert_eq!(Clause::of(word), Some(Clause::UsageIs(Usage::Packed)));
        }
        for word in ["COMP", "COMPUTATIONAL", "COMP-4", "BINARY", "COMP-5"] {
            assert_eq!(Clause::of(word), Some(Clause::UsageIs(Usage::Binary)));
        }
    }

    #[test]
    fn other_words_begin_no_clause() {
        for word in ["CUSTOMER", "", "IS", "TIMES", "9"] {
            assert_eq!(Clause::of(word), None, "{word}");
        }
    }
}
