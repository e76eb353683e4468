//! Turns errors of the database into errors of the sink.

use aws::chain;
use tokio_postgres::Error;
use tokio_postgres::error::{DbError, SqlState};

use crate::sink::SinkError;

/// The file that defines the tables, for an operator.
const TABLES: &str = "infra/postgres.sql";

/// Returns the error of the sink for an error of the client or the database.
pub(super) fn sink_error(error: Error) -> SinkError {
    let Some(database_error) = error.as_db_error() else {
        // The connection broke, or could not be made. The next attempt learns from the ledger whether a commit succeeded.
        return SinkError::retryable(chain(&error));
    };
    let reason = describe(database_error);
    let code = database_error.code();
    if may_pass(code) {
        SinkError::retryable(reason)
    } else if [SqlState::UNDEFINED_TABLE, SqlState::UNDEFINED_COLUMN].contains(code) {
        SinkError::permanent(format!(
            "{reason}: expected the tables that `{TABLES}` defines"
        ))
    } else {
        SinkError::permanent(reason)
    }
}

fn describe(error: &DbError) -> String {
    let detail = error.detail().map(|detail| format!(" ({detail})"));
    let words = format!("{}{}", error.message(), detail.unwrap_or_default());
    let code = error.code().code();
    match may_quote_rows(code) {
        true => format!("{code} «{words}»"),
        false => format!("{code} {words}"),
    }
}

/// Returns whether a message with this code may have values of rows: those about data, and what a trigger raises, which may have any code.
fn may_quote_rows(code: &str) -> bool {
    // In order: connection, transaction state, authorization, transaction rollback, names and rights, resources, object state and
    // locks, operator intervention, system error.
    let without_rows = ["08", "25", "28", "40", "42", "53", "55", "57", "58"];
    code.get(..2)
        .is_none_or(|class| !without_rows.contains(&class))
}

/// Returns whether the same statements may succeed later.
/// Source: <https://www.postgresql.org/docs/current/errcodes-appendix.html> (2026-08).
fn may_pass(code: &SqlState) -> bool {
    // In order: connection, transaction state, authorization (a password may be rotating), transaction rollback, resources,
    // object state and locks, operator intervention, system error, internal error.
    let classes = ["08", "25", "28", "40", "53", "55", "57", "58", "XX"];
    code.code()
        .get(..2)
        .is_some_and(|class| classes.contains(&class))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_messages_of_known_classes_are_taken_to_quote_no_rows() {
        for code in [
            "22P02", "23505", "44000", "P0001", "HV000", "ORD01", "XX000", "",
        ] {
            assert!(may_quote_rows(code), "{code}");
        }
        for code in ["08006", "28P01", "40001", "42P01", "57014"] {
            assert!(!may_quote_rows(code), "{code}");
        }
    }
}
