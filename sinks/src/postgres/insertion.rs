//! How the database inserts staged rows, and finds those that it refuses.

use protocol::ids::Seq;

use super::names::{TableName, block, identifier};

/// The seqs that one statement inserts at most. What a refused row undoes is no more than that.
const STEP_MAX: u32 = 4_096;
/// How much less is tried after that: rows that are refused often stand together.
const STEP_SHARE: u32 = 8;
/// Letters of the database's words that are kept; it quotes values.
const WORDS_LETTERS_MAX: usize = 1_000;
/// What is said of a row, and not of the statement: data that no type takes, constraints, conditions of a view, and limits,
/// for example that of an index entry.
/// Source: <https://www.postgresql.org/docs/current/errcodes-appendix.html>, classes 22, 23, 44 and 54 (2026-11).
const REFUSALS: &str = "data_exception OR integrity_constraint_violation OR with_check_option_violation \
                        OR program_limit_exceeded";

/// Rows from the staging table to the table.
pub(super) struct Insertion<'a> {
    pub(super) table: &'a TableName,
    /// Names and types.
    pub(super) columns: &'a [(String, String)],
    pub(super) of_part: &'a str,
    pub(super) first: Seq,
    pub(super) last: Seq,
}

impl Insertion<'_> {
    /// The statements. Afterwards each row is in the table, or has `refused` in the staging table.
    ///
    /// Rows are inserted by the thousand. What the database refuses is tried again with an eighth as many, down to one row,
    /// which is the one that is refused; with each success twice as many are tried. So the work is proportional to the rows,
    /// whatever share is refused. Measured on PostgreSQL 15 against rows one by one, which takes a transaction id for each
    /// row of a thousand with one refused, and against halving, which is slower where many are.
    pub(super) fn statements(&self) -> String {
        let (table, staging, of_part) = (self.table.table(), self.table.staging(), self.of_part);
        let (before, last) = (i64::from(self.first) - 1, self.last);
        let names = Vec::from_iter(self.columns.iter().map(|(name, _)| identifier(name)));
        let values = self.columns.iter().enumerate().map(|(index, (_, kind))| {
            // Here, not on the way to the staging table, so that a character which the database does not hold is a refusal.
            format!("convert_from(fields[{}], 'UTF8')::{kind}", index + 1)
        });
        let (names, values) = (names.join(", "), Vec::from_iter(values).join(", "));
        let body = format!(
            "
#variable_conflict use_column
DECLARE
    done bigint := {before};
    upto bigint;
    step bigint := {STEP_MAX};
    state text;
    message text;
    detail text;
BEGIN
    WHILE done < {last} LOOP
        upto := least(done + step, {last});
        BEGIN
            INSERT INTO {table} ({names}) OVERRIDING SYSTEM VALUE
                SELECT {values} FROM {staging} WHERE {of_part} AND seq > done AND seq <= upto ORDER BY seq;
            done := upto;
            step := least(step * 2, {STEP_MAX});
        EXCEPTION WHEN {REFUSALS} THEN
            IF upto = done + 1 THEN
                GET STACKED DIAGNOSTICS
                    state = RETURNED_SQLSTATE, message = MESSAGE_TEXT, detail = PG_EXCEPTION_DETAIL;
                UPDATE {staging}
                    SET refused = left(concat(state, ' ', message, ' (' || nullif(detail, '') || ')'), {WORDS_LETTERS_MAX})
                    WHERE {of_part} AND seq = upto;
                done := upto;
            ELSE
                step := greatest((upto - done) / {STEP_SHARE}, 1);
            END IF;
        END;
    END LOOP;
END
"
        );
        // A constraint that may be checked later would be checked when nobody knows any more which row it was.
        format!("SET CONSTRAINTS ALL IMMEDIATE; {}", block(&body))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_quoted_and_every_column_gets_its_type() {
        let columns = [("id", "integer"), ("a \"b\"", "character varying")]
            .map(|(name, kind)| (name.to_owned(), kind.to_owned()));
        let text = Insertion {
            table: &"legacy.orders".parse().unwrap(),
            columns: &columns,
            of_part: "part = 7",
            first: 0,
            last: 9,
        }
        .statements();
        for words in [
            r#"INSERT INTO "legacy"."orders" ("id", "a ""b""")"#,
            "convert_from(fields[1], 'UTF8')::integer, convert_from(fields[2], 'UTF8')::character varying",
            r#"FROM "legacy"."orders_staging" WHERE part = 7 AND"#,
            "done bigint := -1;",
        ] {
            assert!(text.contains(words), "{words} in {text}");
        }
    }
}
