//! Rejected records: checks their number and writes them to the table of rejects.

use std::borrow::Cow;
use std::io;

use protocol::seqs::SeqSet;
use tokio_postgres::Client;
use tracing::warn;

use super::attempt::Attempt;
use super::connection::rows_of;
use super::errors::sink_error;
use super::staging::Snapshot;
use super::tuples::Tuples;
use crate::sink::SinkError;
use forms::reject_line;
use forms::{Reject, RejectReason};

/// How much of a reject list is in memory at a time.
const PIECE_BYTES: usize = 1 << 20;

/// The rows that the database refuses.
#[derive(Debug, Default)]
pub(super) struct Refused {
    /// The number of refused rows.
    pub(super) count: u64,
    /// The first refused rows, up to the limit of rejects: their seqs, and the database's messages.
    pub(super) rows: Vec<(u32, String)>,
}

/// Returns all rejects of a part in seq order: records whose columns could not be made, and rows that the database refused.
///
/// # Errors
/// Permanent if there are more than `SINK_REJECTS_MAX`.
pub(super) fn within_limit(
    attempt: &Attempt<'_>,
    mut rejects: Vec<Reject>,
    refused: Refused,
) -> Result<Vec<Reject>, SinkError> {
    let rejected = rejects.len() as u64 + refused.count;
    let refused_rows = refused.rows.into_iter().filter_map(|(seq, message)| {
        let item = attempt.part.item(seq)?;
        Some(Reject::of(item, RejectReason::Refused { message }))
    });
    rejects.extend(refused_rows);
    rejects.sort_by_key(|reject| reject.seq);
    match rejects.first() {
        Some(first) if rejected > attempt.target.rejects_max => Err(SinkError::permanent(format!(
            "part {}: too many rejects: got `{rejected}` of `{}` records, expected at most `{}` (`SINK_REJECTS_MAX`); \
             nothing of the part is written; the first reject: {first}",
            attempt.part.key(),
            attempt.part.items.len(),
            attempt.target.rejects_max
        ))),
        _ => Ok(rejects),
    }
}

/// Writes the rejects to their table, and their number to the ledger.
pub(super) async fn store(
    attempt: &Attempt<'_>,
    client: &Client,
    snapshot: &Snapshot,
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
                .map_err(|error| SinkError::permanent(error.to_string()))?;
            let reason = reject.reason.to_string();
            tuples.begin(5);
            tuples.uuid(attempt.key.0);
            tuples.integer(attempt.key.1);
            tuples.bigint(i64::from(reject.seq));
            tuples.bytes(storable(&reason, snapshot.utf8).as_bytes());
            tuples.bytes(storable(&record, snapshot.utf8).as_bytes());
        }
        tuples.copy(client, &copy).await.map_err(sink_error)?;
    }
    let update = format!(
        "UPDATE {} SET rejected = {} WHERE {}",
        attempt.target.table.ledger(),
        rejects.len(),
        attempt.part_condition()
    );
    client.batch_execute(&update).await.map_err(sink_error)
}

/// Returns the seqs of the rejects that an earlier attempt wrote to their table. `count` is their number in the ledger. If rows were
/// deleted since, their events count as delivered: nothing else says which they were.
pub(super) async fn stored(
    attempt: &Attempt<'_>,
    client: &Client,
    count: u64,
) -> Result<SeqSet, SinkError> {
    let statement = format!(
        "SELECT seq FROM {} WHERE {}",
        attempt.target.table.rejects(),
        attempt.part_condition()
    );
    let results = rows_of(client, &statement).await?;
    let rows = results.last().map(Vec::as_slice).unwrap_or_default();
    let seqs = rows.iter().filter_map(|row| row.get(0)?.parse().ok());
    let seqs: SeqSet = seqs.collect();
    if seqs.len() < count {
        let found_count = seqs.len();
        warn!(
            part_key = attempt.part.key(),
            rejected_count = count,
            found_count,
            "rejects were deleted before the part was recorded as delivered"
        );
    }
    Ok(seqs)
}

/// Returns a text that the database can store. NUL is escaped as in JSON, `\u0000`; so are all characters beyond ASCII if the
/// database's encoding is not UTF-8.
pub(super) fn storable(text: &str, utf8: bool) -> Cow<'_, str> {
    let escaped = |letter: char| letter == '\0' || !(utf8 || letter.is_ascii());
    if !text.contains(escaped) {
        return Cow::Borrowed(text);
    }
    let mut storable = String::with_capacity(text.len() + 16);
    for letter in text.chars() {
        if escaped(letter) {
            for unit in letter.encode_utf16(&mut [0; 2]) {
                storable.push_str(&format!("\\u{unit:04x}"));
            }
        } else {
            storable.push(letter);
        }
    }
    Cow::Owned(storable)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escaped_texts_can_be_stored_in_any_encoding() {
        assert_eq!(storable("Zoë \u{1f980}", true), "Zoë \u{1f980}");
        assert_eq!(storable("a\0b", true), r"a\u0000b");
        assert_eq!(storable("Zoë \u{1f980}", false), r"Zo\u00eb \ud83e\udd80");
        assert!(matches!(storable("plain", false), Cow::Borrowed("plain")));
    }
}
