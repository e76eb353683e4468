//! The statements that move staged rows into the table and mark the rows that the database refuses.

use std::ops::RangeInclusive;

use protocol::ids::Seq;

use super::names::{TableName, block, identifier};

/// How many seqs one INSERT covers at most. A refused row undoes the whole INSERT.
const STEP_MAX: u32 = 4_096;
/// By how much the range shrinks after a refusal. Refused rows are often neighbours.
const STEP_SHARE: u32 = 8;
/// How many characters of the database's message are kept. The message may quote long values.
const WORDS_LETTERS_MAX: usize = 1_000;
/// The errors that are about a row and not about the statement: malformed data, violated constraints, conditions of a view,
/// and limits, for example of the length of an index entry.
/// Source: <https://www.postgresql.org/docs/current/errcodes-appendix.html>, classes 22, 23, 44 and 54 (2026-11).
const REFUSALS: &str = "data_exception OR integrity_constraint_violation OR with_check_option_violation \
                        OR program_limit_exceeded";

/// Returns the statements that move the rows of these seqs from the staging table to the table, whose columns have names and types.
/// After them, each row is in the table, or its `refused` is set in the staging table.
///
/// One INSERT covers up to 4,096 rows. If the database refuses it, the next INSERT covers an eighth of the range, down to a
/// single row, which is then marked as refused. After each success the range doubles. So the work is proportional to the
/// number of rows, whatever share is refused. Two alternatives were measured on PostgreSQL 15: row by row after a refusal
/// uses a transaction id for each row, and halving the range is slower if many rows are refused.
pub(super) fn insertion(
    table: &TableName,
    columns: &[(String, String)],
    part_condition: &str,
    seqs: RangeInclusive<Seq>,
) -> String {
    let (table, staging) = (table.table(), table.staging());
    let (before, last) = (i64::from(*seqs.start()) - 1, *seqs.end());
    let names = Vec::from_iter(columns.iter().map(|(name, _)| identifier(name)));
    let values = columns.iter().enumerate().map(|(index, (_, kind))| {
        // Converted here and not while staging, so that a character which the database cannot store is a refused row.
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
                SELECT {values} FROM {staging} WHERE {part_condition} AND seq > done AND seq <= upto ORDER BY seq;
            done := upto;
            step := least(step * 2, {STEP_MAX});
        EXCEPTION WHEN {REFUSALS} THEN
            IF upto = done + 1 THEN
                GET STACKED DIAGNOSTICS
                    state = RETURNED_SQLSTATE, message = MESSAGE_TEXT, detail = PG_EXCEPTION_DETAIL;
                UPDATE {staging}
                    SET refused = left(concat(state, ' ', message, ' (' || nullif(detail, '') || ')'), {WORDS_LETTERS_MAX})
                    WHERE {part_condition} AND seq = upto;
                done := upto;
            ELSE
                step := greatest((upto - done) / {STEP_SHARE}, 1);
            END IF;
        END;
    END LOOP;
END
"
    );
    // A deferred constraint would be checked at the commit, and the error would not say which row violates it.
    format!("SET CONSTRAINTS ALL IMMEDIATE; {}", block(&body))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_quoted_and_every_column_gets_its_type() {
        let columns = [("id", "integer"), ("a \"b\"", "character varying")]
            .map(|(name, kind)| (name.to_owned(), kind.to_owned()));
        let table = "legacy.orders".parse().unwrap();
        let text = insertion(&table, &columns, "part = 7", 0..=9);
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
