//! Records that are no rows: how many there may be, and where they are kept.

use std::borrow::Cow;
use std::io;

use tokio_postgres::Client;

use super::attempt::Attempt;
use super::errors::told;
use super::staging::Look;
use super::tuples::Tuples;
use crate::format::reject_line;
use crate::reject::{Reject, RejectReason};
use crate::sink::SinkError;

/// What is held of a list at once.
const PIECE_BYTES: usize = 1 << 20;

/// The rows that the database refuses.
#[derive(Debug, Default)]
pub(super) struct Refused {
    /// How many.
    pub(super) count: u64,
    /// The first of them, no more than are allowed: their seqs, and the database's words.
    pub(super) rows: Vec<(u32, String)>,
}

/// All rejects of a part, in order: those that have no columns, and those that the database refuses.
///
/// # Errors
/// More than are allowed.
pub(super) fn within_limit(
    attempt: &Attempt<'_>,
    mut rejects: Vec<Reject>,
    refused: Refused,
) -> Result<Vec<Reject>, SinkError> {
    let items = &attempt.part.items;
    let all = rejects.len() as u64 + refused.count;
    let of_database = refused.rows.into_iter().filter_map(|(seq, message)| {
        let index = items.binary_search_by_key(&seq, |item| item.seq).ok()?;
        Some(Reject {
            seq,
            event_id: items[index].event_id.clone(),
            reason: RejectReason::Refused { message },
        })
    });
    rejects.extend(of_database);
    rejects.sort_by_key(|reject| reject.seq);
    match rejects.first() {
        Some(first) if all > attempt.target.rejects_max => Err(SinkError::Permanent {
            reason: format!(
                "part {}: too many rejects: got `{all}` of `{}` records, expected at most `{}` (`SINK_REJECTS_MAX`); \
                 nothing of the part is kept; the first: {first}",
                attempt.part.key(),
                items.len(),
                attempt.target.rejects_max
            ),
        }),
        _ => Ok(rejects),
    }
}

/// Keeps the reject list, and says in the ledger how many there are.
pub(super) async fn keep(
    attempt: &Attempt<'_>,
    client: &Client,
    look: &Look,
    rejects: &[Reject],
) -> Result<(), SinkError> {
    if rejects.is_empty() {
        return Ok(());
    }
    let copy = format!(
        "COPY {} (batch_id, part, seq, reason, record) FROM STDIN (FORMAT binary)",
        attempt.target.table.rejects()
    );
    let mut rest = rejects.iter().peekable();
    while rest.peek().is_some() {
        let mut tuples = Tuples::new();
        while tuples.len() < PIECE_BYTES
            && let Some(reject) = rest.next()
        {
            let record = reject_line(attempt.part, reject)
                .and_then(|line| String::from_utf8(line).map_err(io::Error::other))
                .map_err(|error| SinkError::Permanent {
                    reason: error.to_string(),
                })?;
            let reason = reject.reason.to_string();
            tuples.begin(5);
            tuples.uuid(attempt.key.0);
            tuples.integer(attempt.key.1);
            tuples.bigint(i64::from(reject.seq));
            tuples.bytes(held(&reason, look.utf8).as_bytes());
            tuples.bytes(held(&record, look.utf8).as_bytes());
        }
        tuples.copy(client, &copy).await.map_err(told)?;
    }
    let update = format!(
        "UPDATE {} SET rejected = {} WHERE {}",
        attempt.target.table.ledger(),
        rejects.len(),
        attempt.of_part()
    );
    client.batch_execute(&update).await.map_err(told)
}

/// A text as every database holds it: NUL, which none does, and where not all characters have a place those that are not
/// ASCII, are written as JSON would: `\u0000`.
pub(super) fn held(text: &str, utf8: bool) -> Cow<'_, str> {
    let escaped = |letter: char| letter == '\0' || !(utf8 || letter.is_ascii());
    if !text.contains(escaped) {
        return Cow::Borrowed(text);
    }
    let mut held = String::with_capacity(text.len() + 16);
    for letter in text.chars() {
        if escaped(letter) {
            for unit in letter.encode_utf16(&mut [0; 2]) {
                held.push_str(&format!("\\u{unit:04x}"));
            }
        } else {
            held.push(letter);
        }
    }
    Cow::Owned(held)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_database_holds_what_is_kept_of_a_text() {
        assert_eq!(held("Zoë \u{1f980}", true), "Zoë \u{1f980}");
        assert_eq!(held("a\0b", true), r"a\u0000b");
        assert_eq!(held("Zoë \u{1f980}", false), r"Zo\u00eb \ud83e\udd80");
        assert!(matches!(held("plain", false), Cow::Borrowed("plain")));
    }
}
