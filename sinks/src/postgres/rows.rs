//! Renders a part as rows for the staging table, chunk by chunk.

use blake3::Hash;
use protocol::ids::Seq;
use uuid::Uuid;

use super::tuples::Tuples;
use forms::Part;
use forms::{Body, Column, Value};
use forms::{Reject, RejectReason};

/// The size of a chunk, which is sent and committed at once. An interrupted attempt loses at most one chunk. A chunk is full
/// as soon as it reaches either limit.
const CHUNK_BYTES: usize = 1 << 20;
const CHUNK_ROWS: u64 = 4_096;
/// The columns of the staging table that the sink fills.
pub(super) const COLUMNS: &str = "batch_id, part, seq, chunk, fields";
const COLUMN_COUNT: i16 = 5;

/// Rows that are sent and committed together. The same part with the same columns gives the same chunks at every attempt.
#[derive(Debug)]
pub(super) struct Chunk {
    /// The rows, with the columns [`COLUMNS`].
    pub(super) tuples: Tuples,
    pub(super) mark: Mark,
}

/// Identifies a chunk: its range of seqs, the number of its rows, and their hash.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mark {
    pub(super) first: Seq,
    pub(super) last: Seq,
    pub(super) rows: u64,
    /// The hash of the seqs and fields, which is the column `chunk` of the staging table.
    pub(super) hash: Hash,
}

/// Makes the chunks of a part one by one, so that only one is in memory.
#[derive(Debug)]
pub(super) struct Rows<'a> {
    part: &'a Part,
    key: (Uuid, i32),
    columns: &'a [Column],
    next: usize,
    rejects: Vec<Reject>,
}

impl<'a> Rows<'a> {
    pub(super) fn new(part: &'a Part, key: (Uuid, i32), columns: &'a [Column]) -> Rows<'a> {
        Rows {
            part,
            key,
            columns,
            next: 0,
            rejects: Vec::new(),
        }
    }

    /// Returns whether every record is in a chunk, or rejected.
    pub(super) fn is_done(&self) -> bool {
        self.next == self.part.items.len()
    }

    /// Returns the records that have no row, because their columns cannot be made.
    pub(super) fn into_rejects(self) -> Vec<Reject> {
        self.rejects
    }

    pub(super) fn next_chunk(&mut self) -> Option<Chunk> {
        let mut tuples = Tuples::new();
        let mut hasher = blake3::Hasher::new();
        let mut hash_fields = Vec::new();
        let mut seqs = None;
        while tuples.len() < CHUNK_BYTES && (hash_fields.len() as u64) < CHUNK_ROWS {
            let Some(item) = self.part.items.get(self.next) else {
                break;
            };
            self.next += 1;
            let start = tuples.len();
            tuples.begin(COLUMN_COUNT);
            tuples.uuid(self.key.0);
            tuples.integer(self.key.1);
            tuples.bigint(i64::from(item.seq));
            let hash_field = tuples.reserve(blake3::OUT_LEN);
            let mut body = Body::of(item);
            let fields = tuples.array(self.columns.len(), |tuples| {
                self.columns.iter().try_for_each(|column| {
                    let value = column.value(self.part, item, &mut body)?;
                    let text = value.map(Value::into_text);
                    tuples.element(text.as_deref());
                    Ok::<(), RejectReason>(())
                })
            });
            match fields {
                Ok(fields) => {
                    hasher.update(&item.seq.to_be_bytes());
                    hasher.update(fields);
                    hash_fields.push(hash_field);
                    let (first, _) = seqs.unwrap_or((item.seq, item.seq));
                    seqs = Some((first, item.seq));
                }
                Err(reason) => {
                    tuples.truncate(start);
                    self.rejects.push(Reject::of(item, reason));
                }
            }
        }
        let (first, last) = seqs?;
        let hash = hasher.finalize();
        for hash_field in &hash_fields {
            tuples.fill(*hash_field, hash.as_bytes());
        }
        Some(Chunk {
            tuples,
            mark: Mark {
                first,
                last,
                rows: hash_fields.len() as u64,
                hash,
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests_support::part;
    use forms::Columns;

    fn marks(part: &Part, columns: &str) -> (Vec<Mark>, Vec<Reject>) {
        let columns = columns.parse::<Columns>().unwrap().unpadded().unwrap();
        let mut rows = Rows::new(part, (Uuid::nil(), 0), &columns);
        let marks = std::iter::from_fn(|| rows.next_chunk().map(|chunk| chunk.mark)).collect();
        assert!(rows.is_done());
        (marks, rows.into_rejects())
    }

    const BODY: &str = r#"[{"name":"a","json":"a"}]"#;

    #[test]
    fn every_row_is_in_one_chunk_and_attempts_make_the_same_chunks() {
        let long = format!(r#"{{"a":"{}"}}"#, "x".repeat(CHUNK_BYTES / 3));
        let mut bodies = vec![r#"{"a":1}"#; 10_000];
        bodies[9_000..9_010].fill(&long);
        bodies[4_096] = "no JSON";
        bodies[9_999] = "no JSON";
        let part = part(0, &bodies);
        let (chunks, rejects) = marks(&part, BODY);
        let ranges: Vec<_> = chunks
            .iter()
            .map(|mark| (mark.first, mark.last, mark.rows))
            .collect();
        assert_eq!(
            ranges,
            [
                (0, 4_095, 4_096),
                (4_097, 8_192, 4_096),
                (8_193, 9_002, 810),
                (9_003, 9_005, 3),
                (9_006, 9_008, 3),
                (9_009, 9_998, 990),
            ]
        );
        let rejected: Vec<_> = rejects.iter().map(|reject| reject.seq).collect();
        assert_eq!(rejected, [4_096, 9_999]);
        let again = marks(&part, BODY).0;
        assert!(chunks.iter().zip(&again).all(|(a, b)| a.hash == b.hash));
    }

    #[test]
    fn the_hash_of_a_chunk_depends_on_every_field_and_its_position() {
        let hash = |bodies: &[&str], columns: &str| marks(&part(0, bodies), columns).0[0].hash;
        let both = r#"[{"name":"a","json":"a"},{"name":"b","json":"b"}]"#;
        let one = hash(&[r#"{"a":"x"}"#], both);
        for (bodies, columns) in [
            (&[r#"{"a":"y"}"#][..], both),
            (&[r#"{"b":"x"}"#], both),
            (&[r#"{"a":"","b":"x"}"#], both),
            (&[r#"{"a":"x"}"#], BODY),
            (&[r#"{"a":"x"}"#, "{}"], both),
        ] {
            assert_ne!(one, hash(bodies, columns), "{bodies:?}");
        }
        assert_eq!(one, hash(&[r#"{"a":"x"}"#], both));
    }

    #[test]
    fn a_part_without_rows_has_no_chunks() {
        let (chunks, rejects) = marks(&part(0, &["no JSON"]), BODY);
        assert!(chunks.is_empty());
        assert_eq!(rejects.len(), 1);
        assert!(marks(&part(0, &[]), BODY).0.is_empty());
    }
}
