//! Whole copybooks, and the rules that need more than one item.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use super::*;

const ORDER: &str = "\
000100******************************************************************ORDERS
000200* One order of a customer. It's sent every night.                 ORDERS
000300******************************************************************ORDERS
000400 01  ORDER-RECORD.                                                ORDERS
000500     05  CUSTOMER.                                                ORDERS
000600         10  CUSTOMER-ID         PIC 9(8) COMP.                   ORDERS
000700         10  NAME                PIC X(30).                       ORDERS
000800         10  CUSTOMER-TYPE       PIC X VALUE 'P'.                 ORDERS
000900             88  IS-PERSON       VALUE 'P'.                       ORDERS
001000             88  IS-COMPANY      VALUES 'C' 'D' THRU 'F'.         ORDERS
001100         10  BALANCE             PIC S9(7)V99                     ORDERS
001200                                 SIGN IS LEADING SEPARATE.        ORDERS

001300     05  ORDER-ID                PIC A(12) JUSTIFIED RIGHT.       ORDERS
001400     05  FILLER                  PIC X(3) VALUE SPACES.           ORDERS
001500     05  LINE-COUNT              PIC 9(4) USAGE IS BINARY.        ORDERS
001600     05  LINE-ITEM OCCURS 2 TIMES INDEXED BY LINE-INDEX.          ORDERS
001700         10  NAME                PIC X(20) VALUE 'N. N.'.         ORDERS
001800         10  AMOUNT              PIC S9(5)V99 COMP-3.             ORDERS
001900         10  DISCOUNT            PIC SV9(3) OCCURS 2.             ORDERS
002000     05                          PIC 9(2) VALUE ZEROES.           ORDERS
002100     05  TOTAL                   PIC S9(9)V99 PACKED-DECIMAL      ORDERS
002200                                 VALUE +0.                        ORDERS
";

/// Returns the columns, each as JSON in one line.
fn columns(text: &str) -> Vec<String> {
    let record = parse(text).unwrap();
    let columns = record.columns.iter();
    columns
        .map(|column| serde_json::to_string(column).unwrap())
        .collect()
}

/// Returns the name and the expression of every column.
fn names(text: &str) -> Vec<(String, String)> {
    let record = parse(text).unwrap();
    let columns = record.columns.into_iter();
    columns.map(|column| (column.name, column.json)).collect()
}

fn expected(names: &[(&str, &str)]) -> Vec<(String, String)> {
    let names = names.iter();
    names
        .map(|(name, json)| ((*name).to_owned(), (*json).to_owned()))
        .collect()
}

fn types(text: &str) -> Vec<String> {
    let record = parse(text).unwrap();
    let columns = record.columns.into_iter();
    columns
        .map(|column| format!("{} {}", column.kind.unwrap(), column.sign.unwrap()))
        .collect()
}

#[test]
fn an_order_has_these_columns() {
    let record = parse(ORDER).unwrap();
    assert_eq!(record.name, "order_record");
    let customer = 4 + 30 + 1 + 10;
    let line_item = 20 + 4 + 2 * 3;
    assert_eq!(record.length, customer + 12 + 3 + 2 + 2 * line_item + 2 + 6);
    assert_eq!(
        columns(ORDER),
        [
            r#"{"name":"customer_id","json":"customer.customer_id","type":"binary(8,0)","sign":"unsigned"}"#,
            r#"{"name":"name","json":"customer.name","width":30}"#,
            r#"{"name":"customer_type","json":"customer.customer_type","width":1}"#,
            r#"{"name":"balance","json":"customer.balance","type":"zoned-decimal(9,2)","sign":"leading-separate"}"#,
            r#"{"name":"order_id","json":"order_id","width":12,"align":"right"}"#,
            r#"{"name":"filler_1","json":"''","width":3}"#,
            r#"{"name":"line_count","json":"line_count","type":"binary(4,0)","sign":"unsigned"}"#,
            r#"{"name":"line_item_1_name","json":"line_item[0].name","width":20}"#,
            r#"{"name":"line_item_1_amount","json":"line_item[0].amount","type":"packed-decimal(7,2)","sign":"signed"}"#,
            r#"{"name":"line_item_1_discount_1","json":"line_item[0].discount[0]","type":"zoned-decimal(3,3)","sign":"trailing"}"#,
            r#"{"name":"line_item_1_discount_2","json":"line_item[0].discount[1]","type":"zoned-decimal(3,3)","sign":"trailing"}"#,
            r#"{"name":"line_item_2_name","json":"line_item[1].name","width":20}"#,
            r#"{"name":"line_item_2_amount","json":"line_item[1].amount","type":"packed-decimal(7,2)","sign":"signed"}"#,
            r#"{"name":"line_item_2_discount_1","json":"line_item[1].discount[0]","type":"zoned-decimal(3,3)","sign":"trailing"}"#,
            r#"{"name":"line_item_2_discount_2","json":"line_item[1].discount[1]","type":"zoned-decimal(3,3)","sign":"trailing"}"#,
            r#"{"name":"filler_2","json":"`0`","type":"zoned-decimal(2,0)","sign":"unsigned"}"#,
            r#"{"name":"total","json":"total","type":"packed-decimal(11,2)","sign":"signed"}"#,
        ]
    );
}

#[test]
fn the_free_format_small_letters_and_other_line_ends_make_no_difference() {
    let lines = ORDER.lines().filter(|line| !line.contains('*'));
    let texts = lines.map(|line| line.get(7..72).unwrap_or_default().trim());
    let lines: Vec<String> = texts.map(|text| format!("{text} *> It's.\r\n")).collect();
    let free = lines.concat().to_lowercase().replace("'p'", "'P'");
    assert_eq!(parse(&free), parse(ORDER));
}

#[test]
fn a_group_passes_its_usage_on() {
    let text = "01 R COMP-3. 05 A PIC 9(3). 05 G USAGE IS DISPLAY. 10 B PIC 9. 10 C PIC 9 BINARY.";
    assert_eq!(
        types(text),
        [
            "packed-decimal(3,0) unsigned",
            "zoned-decimal(1,0) unsigned",
            "binary(1,0) unsigned"
        ]
    );
}

#[test]
fn a_group_passes_its_sign_on_to_the_numbers_that_have_one() {
    let text = "01 R SIGN LEADING SEPARATE CHARACTER. 05 A PIC S9. 05 B PIC 9. 05 C PIC S9 COMP-3.
        05 D PIC S9 TRAILING. 05 E PIC S9 SIGN IS TRAILING SEPARATE.";
    assert_eq!(
        types(text),
        [
            "zoned-decimal(1,0) leading-separate",
            "zoned-decimal(1,0) unsigned",
            "packed-decimal(1,0) signed",
            "zoned-decimal(1,0) trailing",
            "zoned-decimal(1,0) trailing-separate",
        ]
    );
    assert_eq!(parse(text).unwrap().length, 2 + 1 + 1 + 1 + 2);
}

#[test]
fn a_name_that_repeats_has_those_of_its_groups_before_it() {
    let text = "01 R. 05 ID PIC X. 05 ORDER. 10 ID PIC X. 10 BUYER. 15 ID PIC X. 15 CITY PIC X.";
    assert_eq!(
        names(text),
        expected(&[
            ("id", "id"),
            ("order_id", "order.id"),
            ("order_buyer_id", "order.buyer.id"),
            ("city", "order.buyer.city"),
        ])
    );
}

#[test]
fn tables_in_tables_are_counted_behind_the_name_of_each() {
    let text = "01 R. 05 G. 10 ROW OCCURS 2. 15 CELL PIC X OCCURS 2 TIMES.";
    assert_eq!(
        names(text),
        expected(&[
            ("row_1_cell_1", "g.row[0].cell[0]"),
            ("row_1_cell_2", "g.row[0].cell[1]"),
            ("row_2_cell_1", "g.row[1].cell[0]"),
            ("row_2_cell_2", "g.row[1].cell[1]"),
        ])
    );
}

#[test]
fn a_group_without_a_name_is_no_level_of_the_expression() {
    let text = "01 R. 05 FILLER. 10 A PIC X. 10 1ST PIC X. 05 FILLER OCCURS 2. 10 FILLER PIC X.";
    assert_eq!(
        names(text),
        expected(&[
            ("a", "a"),
            ("1st", "\"1st\""),
            ("filler_1", "''"),
            ("filler_2", "''"),
        ])
    );
}

#[test]
fn fillers_leave_out_the_numbers_that_names_have() {
    let text = "01 R. 05 FILLER PIC X. 05 FILLER-1 PIC X. 05 FILLER PIC 9 OCCURS 2.";
    assert_eq!(
        names(text),
        expected(&[
            ("filler_2", "''"),
            ("filler_1", "filler_1"),
            ("filler_3", "`0`"),
            ("filler_4", "`0`"),
        ])
    );
}

#[test]
fn a_record_may_be_one_item() {
    let text = "01 WHOLE-LINE PIC X(80).";
    assert_eq!(names(text), expected(&[("whole_line", "whole_line")]));
    let record = parse(text).unwrap();
    assert_eq!((record.name.as_str(), record.length), ("whole_line", 80));
}

#[test]
fn values_and_keys_are_ignored() {
    let text = "01 R. 05 G OCCURS 2 ASCENDING KEY IS A INDEXED BY I, J.
        10 A PIC X(9) VALUE IS ALL 'PIC X. 05 '. 10 B PIC 9, VALUE ZERO.
        88 LOW VALUES ARE 1 THRU 5, 7 WHEN SET TO FALSE IS 0.";
    assert_eq!(parse(text).unwrap().length, 20);
}

#[test]
fn a_record_may_be_as_large_as_the_limits_say() {
    let text = "01 R. 05 A PIC X(10000). 05 B PIC X(10000). 05 C PIC X(2762). 05 D PIC X OCCURS 9996. \
        05 E PIC 9(3) COMP-3.";
    let record = parse(text).unwrap();
    assert_eq!((record.columns.len(), record.length), (10_000, 32_760));
}

#[test]
fn every_problem_is_reported_with_its_line() {
    let text = "01 R.\n05 A PIC Z9.\n05 B REDEFINES A PIC X.\n05 C\nCOMP-1.\n05 D PIC X(5) FOO.";
    let error = parse(text).unwrap_err();
    let lines: Vec<usize> = error.problems.iter().map(|problem| problem.line).collect();
    assert_eq!(lines, [2, 3, 5, 6], "{error}");
}

#[test]
fn memory_is_not_taken_for_what_is_refused() {
    let levels = (2..50).map(|level| format!("{level} G{level} OCCURS 10000."));
    let levels: Vec<String> = levels.collect();
    let groups = format!("01 R. {}", levels.concat().replace('.', ". "));
    assert!(parse(&groups).is_err());
    let filled = groups.replace("G49", "A PIC X");
    let error = parse(&filled).unwrap_err().to_string();
    let most = usize::MAX;
    assert_eq!(
        error,
        format!(
            "line 1: `R`: `{most}`: too many columns, expected at most 10000; \
             line 1: `R`: `{most}`: too many bytes, expected at most 32760"
        )
    );
}

const WORDS: [&str; 64] = [
    "01",
    "05",
    "10",
    "49",
    "66",
    "77",
    "88",
    "1",
    "0",
    "99999999999999999999",
    "A",
    "B-C",
    "1ST",
    "FILLER",
    "FILLER-1",
    "PIC",
    "PICTURE",
    "IS",
    "X",
    "X(5)",
    "9(3)V99",
    "S9(4)",
    "SV9",
    "9(",
    "X(99999999999999999999)",
    "ZZ9.99",
    "USAGE",
    "DISPLAY",
    "COMP",
    "COMP-1",
    "COMP-3",
    "BINARY",
    "SIGN",
    "LEADING",
    "TRAILING",
    "SEPARATE",
    "CHARACTER",
    "OCCURS",
    "10000",
    "TIMES",
    "TO",
    "DEPENDING",
    "ON",
    "INDEXED",
    "BY",
    "ASCENDING",
    "KEY",
    "VALUE",
    "VALUES",
    "ALL",
    "SPACES",
    "'it''s. '",
    "'",
    "\"",
    "THRU",
    "JUSTIFIED",
    "RIGHT",
    "REDEFINES",
    "SYNC",
    "BLANK",
    "COPY",
    "*>",
    "é",
    "-",
];

proptest! {
    #[test]
    fn random_text_never_panics(text in any::<String>()) {
        let _ = parse(&text);
    }

    #[test]
    fn random_lines_never_panic(
        lines in vec(("[ 0-9]{0,7}|[ ]{6}[-*/D ]|\t", "[ -~\té]{0,80}"), 0..12),
    ) {
        let lines: Vec<String> = lines.iter().map(|(before, text)| format!("{before}{text}\n")).collect();
        let _ = parse(&lines.concat());
    }

    #[test]
    fn random_words_never_panic(
        words in vec((select(&WORDS[..]), select(&[" ", " ", ". ", "\n", ".\n", "\n      -    "][..])), 0..80),
    ) {
        let words: Vec<String> = words.iter().map(|(word, after)| format!("{word}{after}")).collect();
        let _ = parse(&format!("       01 R. {}", words.concat()));
    }

    #[test]
    fn random_records_have_columns_with_names_of_their_own(
        items in vec((select(&["05", "10", "15"][..]), select(&["A", "B", "A-B", "FILLER", "A-1"][..]),
            select(&["", "PIC X", "PIC X", "PIC S9(3) COMP-3", "OCCURS 2", "PIC 9 OCCURS 2"][..])), 1..8),
    ) {
        let items: Vec<String> = items
            .iter()
            .map(|(level, name, clauses)| format!("{level} {name} {clauses}.\n"))
            .collect();
        if let Ok(record) = parse(&format!("01 R.\n{}", items.concat())) {
            let names: std::collections::BTreeSet<&str> =
                record.columns.iter().map(|column| column.name.as_str()).collect();
            prop_assert_eq!(names.len(), record.columns.len());
        }
    }
}
