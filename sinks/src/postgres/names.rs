//! How tables, columns and texts are written in a statement.

use std::str::FromStr;

/// What a name in PostgreSQL holds at most.
/// Source: <https://www.postgresql.org/docs/current/sql-syntax-lexical.html#SQL-SYNTAX-IDENTIFIERS> (2026-08).
const NAME_BYTES_MAX: usize = 63;
/// What follows the name of the table in the names of those beside it.
const LEDGER: &str = "_parts";
const REJECTS: &str = "_rejects";
const STAGING: &str = "_staging";
/// The longest of them.
const SUFFIX_BYTES_MAX: usize = REJECTS.len();
const _: () = assert!(LEDGER.len() <= SUFFIX_BYTES_MAX && STAGING.len() <= SUFFIX_BYTES_MAX);

/// A table, maybe with its schema: `SINK_TABLE`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableName(Vec<String>);

impl FromStr for TableName {
    type Err = String;

    fn from_str(text: &str) -> Result<TableName, String> {
        let names: Vec<String> = text.split('.').map(str::to_owned).collect();
        let longest = NAME_BYTES_MAX - SUFFIX_BYTES_MAX;
        let fits =
            |name: &String| (1..=longest).contains(&name.len()) && !name.contains(['"', '\0']);
        if names.len() > 2 || !names.iter().all(fits) {
            return Err(format!(
                "expected `table` or `schema.table`, names of 1 to {longest} bytes without `\"`"
            ));
        }
        Ok(TableName(names))
    }
}

impl TableName {
    /// `events`, where nothing else is said.
    pub fn events() -> TableName {
        TableName(vec!["events".to_owned()])
    }

    /// The table itself, as a statement names it.
    pub(super) fn table(&self) -> String {
        self.quoted("")
    }

    /// The table with a row for each part.
    pub(super) fn ledger(&self) -> String {
        self.quoted(LEDGER)
    }

    /// The table of records that could not be rows.
    pub(super) fn rejects(&self) -> String {
        self.quoted(REJECTS)
    }

    /// The table of rows on their way.
    pub(super) fn staging(&self) -> String {
        self.quoted(STAGING)
    }

    fn quoted(&self, behind: &str) -> String {
        let (last, before) = self.0.split_last().expect("a name has a last step");
        let schema: String = before.iter().map(|name| format!("\"{name}\".")).collect();
        format!("{schema}\"{last}{behind}\"")
    }
}

/// A name that may hold anything but NUL, as a statement names it.
pub(super) fn identifier(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// A text without NUL, as a constant of a statement, however the server reads backslashes.
/// Source: <https://www.postgresql.org/docs/current/sql-syntax-lexical.html#SQL-SYNTAX-STRINGS-ESCAPE> (2026-11).
pub(super) fn literal(text: &str) -> String {
    let quoted = text.replace('\'', "''");
    match quoted.contains('\\') {
        true => format!("E'{}'", quoted.replace('\\', "\\\\")),
        false => format!("'{quoted}'"),
    }
}

/// A block of PL/pgSQL as a statement, whatever is in it.
pub(super) fn block(body: &str) -> String {
    let mut tag = "block".to_owned();
    while body.contains(&format!("${tag}$")) {
        tag.push('_');
    }
    format!("DO ${tag}${body}${tag}$")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_may_have_a_schema_and_any_name_is_quoted() {
        let table = |text: &str| text.parse::<TableName>().unwrap();
        assert_eq!(table("events").table(), r#""events""#);
        assert_eq!(table("events").ledger(), r#""events_parts""#);
        assert_eq!(table("events").staging(), r#""events_staging""#);
        assert_eq!(
            table("legacy.Order Lines").rejects(),
            r#""legacy"."Order Lines_rejects""#
        );
        for wrong in ["", "a.b.c", ".a", "a.", "a\"b", &"x".repeat(56)] {
            assert!(wrong.parse::<TableName>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_is_quoted_cannot_end_its_quotes() {
        assert_eq!(identifier(r#"a"b"#), r#""a""b""#);
        assert_eq!(literal("it's"), "'it''s'");
        assert_eq!(literal(r"\'; --"), r"E'\\''; --'");
        assert_eq!(block("a"), "DO $block$a$block$");
        assert_eq!(
            block("$block$ $block_$"),
            "DO $block__$$block$ $block_$$block__$"
        );
    }
}
