//! Quotes the names of tables and columns, and texts, for SQL statements.

use std::str::FromStr;

/// The longest name in PostgreSQL.
/// Source: <https://www.postgresql.org/docs/current/sql-syntax-lexical.html#SQL-SYNTAX-IDENTIFIERS> (2026-08).
const NAME_BYTES_MAX: usize = 63;
/// The suffixes of the other tables of the sink, which follow the name of the table.
const LEDGER: &str = "_parts";
const REJECTS: &str = "_rejects";
const STAGING: &str = "_staging";
/// The length of the longest suffix.
const SUFFIX_BYTES_MAX: usize = REJECTS.len();
const _: () = assert!(LEDGER.len() <= SUFFIX_BYTES_MAX && STAGING.len() <= SUFFIX_BYTES_MAX);

/// The name of a table, optionally with a schema: `SINK_TABLE`.
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
    /// Returns the default table, `events`.
    pub fn events() -> TableName {
        TableName(vec!["events".to_owned()])
    }

    /// Returns the quoted name of the table that events are written to.
    pub(super) fn table(&self) -> String {
        self.quoted("")
    }

    /// Returns the quoted name of the ledger, which has a row for each part.
    pub(super) fn ledger(&self) -> String {
        self.quoted(LEDGER)
    }

    /// Returns the quoted name of the table of rejected records.
    pub(super) fn rejects(&self) -> String {
        self.quoted(REJECTS)
    }

    /// Returns the quoted name of the staging table.
    pub(super) fn staging(&self) -> String {
        self.quoted(STAGING)
    }

    fn quoted(&self, suffix: &str) -> String {
        let (last, before) = self.0.split_last().expect("a name has at least one part");
        let schema: String = before.iter().map(|name| format!("\"{name}\".")).collect();
        format!("{schema}\"{last}{suffix}\"")
    }
}

/// Returns a quoted name. `name` may contain any character except NUL.
pub(super) fn identifier(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// Returns a text as a string constant that means the same whatever `standard_conforming_strings` is. `text` must not contain
/// NUL.
/// Source: <https://www.postgresql.org/docs/current/sql-syntax-lexical.html#SQL-SYNTAX-STRINGS-ESCAPE> (2026-11).
pub(super) fn literal(text: &str) -> String {
    let quoted = text.replace('\'', "''");
    match quoted.contains('\\') {
        true => format!("E'{}'", quoted.replace('\\', "\\\\")),
        false => format!("'{quoted}'"),
    }
}

/// Returns a `DO` statement with a PL/pgSQL block, quoted by a tag that the block does not contain.
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
