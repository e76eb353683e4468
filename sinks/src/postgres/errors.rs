//! What an error of the database means for a part.

use shared::aws::chain;
use tokio_postgres::Error;
use tokio_postgres::error::{DbError, SqlState};

use crate::sink::SinkError;

/// Where an operator finds the tables, and their columns.
const TABLES: &str = "infra/postgres.sql";

/// What an error means for the part.
pub(super) fn told(error: Error) -> SinkError {
    let Some(answered) = error.as_db_error() else {
        // A connection that broke, or could not be made. What became of a commit is in the ledger.
        return SinkError::Retryable {
            reason: chain(&error),
        };
    };
    let reason = words(answered);
    let code = answered.code();
    if may_pass(code) {
        SinkError::Retryable { reason }
    } else if [SqlState::UNDEFINED_TABLE, SqlState::UNDEFINED_COLUMN].contains(code) {
        SinkError::Permanent {
            reason: format!("{reason}: expected the tables that `{TABLES}` defines"),
        }
    } else {
        SinkError::Permanent { reason }
    }
}

fn words(error: &DbError) -> String {
    let detail = error.detail().map(|detail| format!(" ({detail})"));
    let (code, message) = (error.code().code(), error.message());
    format!("{code} {message}{}", detail.unwrap_or_default())
}

/// Whether the same statements may succeed later.
/// Source: <https://www.postgresql.org/docs/current/errcodes-appendix.html> (2026-08).
fn may_pass(code: &SqlState) -> bool {
    // Connections, transactions that collide, passwords that are being changed, resources, locks and states that change,
    // operators, the system itself.
    let classes = ["08", "25", "28", "40", "53", "55", "57", "58", "XX"];
    code.code()
        .get(..2)
        .is_some_and(|class| classes.contains(&class))
}
