//! What is refused, each with its whole message.

use super::*;

#[track_caller]
fn assert_refused(text: &str, message: &str) {
    assert_eq!(parse(text).unwrap_err().to_string(), message, "{text}");
}

/// Refuses an item with these clauses, on the second line.
#[track_caller]
fn assert_item(clauses: &str, problem: &str) {
    let text = format!("01 R.\n05 CUST-ID {clauses}.\n05 LAST PIC X.");
    assert_refused(&text, &format!("line 2: `CUST-ID`: {problem}"));
}

#[test]
fn an_item_in_the_place_of_another_is_refused() {
    let reason = "`REDEFINES`: not supported, expected an item with bytes of its own";
    assert_item("REDEFINES OTHER PIC X", reason);
    // Its bytes are those of the other, and do not count.
    let text = "01 R.\n05 A PIC X(10000) OCCURS 3.\n05 B REDEFINES A.\n10 C PIC X(10000).";
    assert_refused(text, &format!("line 3: `B`: {reason}"));
}

#[test]
fn a_table_of_changing_length_is_refused() {
    let reason = "not supported, expected `OCCURS` with one number";
    assert_item(
        "PIC X OCCURS 1 TO 5 TIMES DEPENDING ON N",
        "`OCCURS`: `TO` is not supported, expected `OCCURS` with one number",
    );
    assert_item(
        "OCCURS 0 TO 5 PIC X",
        "`OCCURS`: `TO` is not supported, expected `OCCURS` with one number",
    );
    assert_item(
        "PIC X OCCURS 5 DEPENDING ON N",
        &format!("`DEPENDING`: {reason}"),
    );
}

#[test]
fn a_wrong_number_of_times_is_refused() {
    let reason = "not a number of times, expected one from 1 to 10000";
    assert_item("PIC X OCCURS 0", &format!("`0`: {reason}"));
    assert_item("PIC X OCCURS 10001", &format!("`10001`: {reason}"));
    let large = "9".repeat(30);
    assert_item(
        &format!("OCCURS {large} PIC X"),
        &format!("`{large}`: {reason}"),
    );
    assert_item("PIC X OCCURS N TIMES", &format!("`N`: {reason}"));
    assert_item(
        "PIC X OCCURS",
        "`OCCURS`: no number, expected one from 1 to 10000",
    );
    assert_refused(
        "01 R OCCURS 2. 05 A PIC X.",
        "line 1: `R`: `OCCURS`: not supported for a record, expected it below level 01",
    );
    assert_refused(
        "01 R.\n05 FILLER OCCURS 2.\n10 A PIC X.",
        "line 2: `FILLER`: `OCCURS`: no name to count, expected one on a group whose items have names",
    );
}

#[test]
fn other_levels_are_refused() {
    let reason = "not supported, expected a level from 01 to 49 or 88";
    for level in ["66", "77", "78", "50", "0", "100"] {
        assert_refused(
            &format!("01 R.\n05 A PIC X.\n{level} B RENAMES A."),
            &format!("line 3: `B`: `{level}`: {reason}"),
        );
    }
    assert_refused(
        "01 R.\n05 A PIC X RENAMES B.",
        "line 2: `A`: `RENAMES`: not supported, expected the items themselves",
    );
}

#[test]
fn levels_out_of_order_are_refused() {
    assert_refused(
        "01 R.\n05 A.\n10 B PIC X.\n07 C PIC X.",
        "line 4: `C`: `07`: out of order, expected 10 or a level of the groups around it",
    );
    assert_refused("05 A PIC X.", "line 1: `A`: `05`: expected level 01 first");
}

#[test]
fn a_second_record_is_refused() {
    assert_refused(
        "01 R. 05 A PIC X.\n01 S. 05 A PIC X.",
        "line 2: `S`: `01`: a second record, expected one for each copybook",
    );
}

#[test]
fn a_text_without_a_record_is_refused() {
    for text in ["", " \r\n", "*> Nothing.", "88 A VALUE 1."] {
        let message = "line 1: no record, expected an item of level 01";
        assert_refused(text, message);
    }
}

#[test]
fn other_usages_are_refused() {
    let expected = "not supported, expected `DISPLAY`, `COMP`, `COMP-3`, `COMP-4` or `COMP-5`";
    for usage in [
        "COMP-1",
        "COMP-2",
        "COMP-6",
        "COMP-X",
        "INDEX",
        "POINTER",
        "NATIONAL",
        "DISPLAY-1",
    ] {
        let problem = format!("`{usage}`: {expected}");
        assert_item(usage, &problem);
        assert_item(&format!("USAGE IS {usage}"), &problem);
    }
    assert_item(
        "PIC X USAGE IS FOO",
        "`FOO`: unknown, expected a usage such as `COMP-3`",
    );
    assert_item(
        "PIC X USAGE",
        "`USAGE`: incomplete, expected a usage such as `COMP-3`",
    );
}

#[test]
fn other_pictures_are_refused() {
    for (picture, symbol) in [
        ("ZZ9", "Z"),
        ("**9", "*"),
        ("9,9", ","),
        ("9.9", "."),
        ("+9", "+"),
        ("-9", "-"),
        ("$9", "$"),
        ("9CR", "C"),
        ("9DB", "D"),
        ("XBX", "B"),
        ("990", "0"),
        ("99/99", "/"),
        ("9P(3)", "P"),
        ("N(5)", "N"),
        ("G(5)", "G"),
    ] {
        let expected = "expected `X` and `A`, or `9` with `S` and `V`";
        assert_item(
            &format!("PIC {picture}"),
            &format!("`{picture}`: `{symbol}` is not supported, {expected}"),
        );
    }
    assert_item("PIC", "`PIC`: no picture, expected one such as `X(5)`");
}

#[test]
fn bytes_between_items_are_refused() {
    for word in ["SYNCHRONIZED", "SYNC"] {
        let reason = "not supported, expected items without bytes between them";
        assert_item(
            &format!("PIC 9 COMP {word} RIGHT"),
            &format!("`{word}`: {reason}"),
        );
    }
}

#[test]
fn a_number_that_is_blank_at_times_is_refused() {
    assert_item(
        "PIC 9 BLANK WHEN ZERO",
        "`BLANK`: not supported, expected a number with all of its digits",
    );
}

#[test]
fn text_from_elsewhere_is_refused() {
    let expected = "not supported, expected the text that it stands for";
    assert_refused("COPY ORDERS.", &format!("line 1: `COPY`: {expected}"));
    assert_refused(
        "REPLACE ==A== BY ==B==.\n01 R PIC X.",
        &format!("line 1: `REPLACE`: {expected}"),
    );
    assert_item("PIC X COPY ORDERS", &format!("`COPY`: {expected}"));
}

#[test]
fn a_group_with_a_picture_is_refused() {
    assert_refused(
        "01 R.\n05 A PIC X(5).\n10 B PIC X.",
        "line 2: `A`: `X(5)`: a group has no picture, expected it on the items below",
    );
    assert_refused(
        "01 R.\n05 A JUST.\n10 B PIC X.",
        "line 2: `A`: `JUST`: a group is not aligned, expected it on the items below",
    );
}

#[test]
fn an_item_without_a_picture_is_refused() {
    assert_item("", "no picture, expected `PIC` or items below it");
}

#[test]
fn unknown_words_are_refused() {
    let reason = "unknown, expected a clause such as `PIC`, or a period before it";
    assert_item("PIC X FOO BAR", &format!("`FOO`: {reason}"));
    // Each of these would lose an item whose predecessor has no period.
    for clauses in ["PIC X", "PIC 9 VALUE 0", "PIC X OCCURS 2 INDEXED BY I"] {
        assert_refused(
            &format!("01 R.\n05 A {clauses}\n05 B PIC X."),
            &format!(
                "line 3: `A`: `05`: {reason}; line 3: `A`: `PIC`: given again, expected it once"
            ),
        );
    }
    assert_refused(
        "01 R.\n05 A PIC X.\n88 IS-A VALUE 1\n05 B PIC X.",
        &format!("line 4: `IS-A`: `B`: {reason}"),
    );
    assert_refused(
        "01 R PIC X.\n88 A.",
        "line 2: `A`: `88`: no values, expected `VALUE`",
    );
    assert_refused(
        "01 R PIC X.\n88 A PIC X.",
        &format!("line 2: `A`: `PIC`: {reason}"),
    );
    assert_refused(
        "EJECT\n01 R PIC X.",
        "line 1: `EJECT`: unknown, expected a level from 01 to 49 or 88",
    );
}

#[test]
fn a_clause_given_again_is_refused() {
    for (clauses, again) in [
        ("PIC X PIC X", "PIC"),
        ("PIC 9 COMP BINARY", "BINARY"),
        ("PIC S9 LEADING TRAILING", "TRAILING"),
        ("PIC X OCCURS 2 OCCURS 2", "OCCURS"),
        ("PIC X JUST JUSTIFIED RIGHT", "JUSTIFIED"),
    ] {
        assert_item(
            clauses,
            &format!("`{again}`: given again, expected it once"),
        );
    }
}

#[test]
fn a_value_that_is_none_is_refused() {
    assert_item(
        "PIC X VALUE A",
        "`A`: not a value, expected a literal or a number",
    );
    assert_item(
        "PIC X VALUE",
        "`VALUE`: no value, expected a literal or a number",
    );
    assert_refused(
        "01 R PIC X(5) VALUE 'A B.\n88 C VALUE 'A'.",
        "line 1: `R`: `'A B`: no closing quote, expected one on the same line",
    );
}

#[test]
fn a_sign_without_a_place_is_refused() {
    let reason = "no sign to place, expected `S` in a picture with `USAGE DISPLAY`";
    assert_item("PIC 9 SIGN IS LEADING", &format!("`LEADING`: {reason}"));
    assert_item("PIC X TRAILING", &format!("`TRAILING`: {reason}"));
    assert_item(
        "PIC S9 COMP-3 LEADING SEPARATE",
        &format!("`LEADING`: {reason}"),
    );
    assert_item(
        "PIC S9 SIGN IS",
        "`SIGN`: incomplete, expected `LEADING` or `TRAILING`",
    );
    assert_item(
        "PIC S9 SIGN IS LEFT",
        "`LEFT`: unknown, expected `LEADING` or `TRAILING`",
    );
}

#[test]
fn a_justified_number_is_refused() {
    assert_item(
        "PIC 9 JUST RIGHT",
        "`JUST`: a number is not aligned, expected a picture of `X`",
    );
}

#[test]
fn names_that_are_none_or_repeat_are_refused() {
    let reason = "not a name, expected at most 63 letters, digits and hyphens";
    assert_refused(
        "01 R.\n05 :TAG:-A PIC X.",
        &format!("line 2: `:TAG:-A`: `:TAG:-A`: {reason}"),
    );
    let (long, shown) = ("A".repeat(64), "A".repeat(63));
    assert_refused(
        &format!("01 R.\n05 {long} PIC X."),
        &format!("line 2: `{shown}`: `{long}`: {reason}"),
    );
    assert_refused(
        "01 R.\n05 A PIC X.\n05 a.\n10 B PIC X.",
        "line 3: `a`: `a`: again in the same group, expected another name",
    );
    assert_refused(
        "01 R. 05 A PIC X.\n05 FILLER.\n10 A PIC X.",
        "line 3: `A`: `A`: again in the same group, expected another name",
    );
    assert_refused(
        "01 R. 05 A-1 PIC X.\n05 A PIC X OCCURS 3.",
        "line 2: `A`: `a_1`: the name of two columns, expected another name",
    );
    assert_refused(
        "01 R. 05 G OCCURS 2. 10 A-B. 15 C PIC X. 10 A.\n15 B-C PIC X. 10 C PIC X. 10 B-C PIC X.",
        "line 2: `B-C`: `g_1_a_b_c`: the name of two columns, expected another name",
    );
}

#[test]
fn a_missing_period_is_refused() {
    assert_refused(
        "01 R.\n05 A PIC X(5)",
        "line 2: `A`: `X(5)`: no period behind it, expected one behind every item",
    );
}

#[test]
fn what_is_too_large_is_refused() {
    assert_item(
        "PIC X(10001)",
        "`X(10001)`: too long, expected at most 10000 bytes",
    );
    let large = "9".repeat(30);
    assert_item(
        &format!("PIC X({large})"),
        &format!("`X({large})`: too long, expected at most 10000 bytes"),
    );
    let reason = "too many digits, expected at most";
    assert_item(
        "PIC 9(32)",
        &format!("`9(32)`: {reason} 31 with `USAGE DISPLAY`"),
    );
    assert_item(
        "PIC S9(30)V99 COMP-3",
        &format!("`S9(30)V99`: {reason} 31 with `USAGE PACKED-DECIMAL`"),
    );
    assert_item(
        "PIC 9(19) COMP",
        &format!("`9(19)`: {reason} 18 with `USAGE BINARY`"),
    );
    assert_item(
        "PIC X COMP-3",
        "`X`: not a number, expected a picture of `9` with `USAGE PACKED-DECIMAL`",
    );
    assert_refused(
        "01 R.\n05 A OCCURS 101.\n10 B PIC X OCCURS 100.",
        "line 1: `R`: `10100`: too many columns, expected at most 10000",
    );
    assert_refused(
        "01 R.\n05 A PIC X(8191) OCCURS 4.",
        "line 1: `R`: `32764`: too many bytes, expected at most 32760",
    );
}

#[test]
fn a_filler_with_another_value_than_spaces_or_zeros_is_refused() {
    for value in ["'HDR'", "7", "LOW-VALUES"] {
        let text = format!("01 R. 05 A PIC X.\n05 FILLER PIC X(3) VALUE {value}.");
        let error = crate::parse(&text).unwrap_err().to_string();
        let expected =
            format!("line 2: `FILLER`: `{value}`: not supported, expected spaces or zeros");
        assert!(error.contains(&expected), "{error}");
    }
    for value in ["SPACES", "ZERO", "' '", "0"] {
        let text = format!("01 R. 05 A PIC X. 05 FILLER PIC X(3) VALUE {value}.");
        assert!(crate::parse(&text).is_ok(), "{value}");
    }
}
