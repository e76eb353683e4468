//! The binary format of `COPY`: nothing in it is escaped, so that bytes are what they are.
//! Source: <https://www.postgresql.org/docs/current/sql-copy.html#id-1.9.3.55.9.4> (2026-11).

use std::pin::pin;

use bytes::Bytes;
use futures::SinkExt;
use tokio_postgres::{Client, Error};
use uuid::Uuid;

/// Bytes that are handed to the connection at once.
const PIECE_BYTES: usize = 64 << 10;
const SIGNATURE: &[u8] = b"PGCOPY\n\xff\r\n\0";
/// The length of a value that is null.
const NULL: i32 = -1;
/// The type `bytea`.
const BYTEA_OID: i32 = 17;

/// Tuples of a `COPY`, each of them so many columns: the columns follow one by one.
#[derive(Debug)]
pub(super) struct Tuples(Vec<u8>);

/// Where values are that are known later.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place(usize);

impl Tuples {
    pub(super) fn new() -> Tuples {
        let mut bytes = SIGNATURE.to_vec();
        // No flags, and no extension of the header.
        bytes.extend_from_slice(&[0; 8]);
        Tuples(bytes)
    }

    /// Begins a tuple.
    pub(super) fn begin(&mut self, columns: i16) {
        self.0.extend_from_slice(&columns.to_be_bytes());
    }

    pub(super) fn uuid(&mut self, id: Uuid) {
        self.bytes(id.as_bytes());
    }

    pub(super) fn integer(&mut self, number: i32) {
        self.bytes(&number.to_be_bytes());
    }

    pub(super) fn bigint(&mut self, number: i64) {
        self.bytes(&number.to_be_bytes());
    }

    /// A text, or bytes.
    pub(super) fn bytes(&mut self, value: &[u8]) {
        self.0.extend_from_slice(&length(value.len()).to_be_bytes());
        self.0.extend_from_slice(value);
    }

    /// Bytes that are filled in later.
    pub(super) fn place(&mut self, bytes: usize) -> Place {
        self.bytes(&vec![0; bytes]);
        Place(self.0.len() - bytes)
    }

    pub(super) fn fill(&mut self, place: Place, value: &[u8]) {
        self.0[place.0..][..value.len()].copy_from_slice(value);
    }

    /// A value of the type `bytea[]`, of so many elements, pushed by `push`. Returns its bytes.
    pub(super) fn array<E>(
        &mut self,
        elements: usize,
        push: impl FnOnce(&mut Elements<'_>) -> Result<(), E>,
    ) -> Result<&[u8], E> {
        let start = self.0.len();
        // Its length; one dimension; whether it has nulls, which nobody needs to know; the type of its elements; how many
        // there are, from 1 on.
        let head = [0, 1, 1, BYTEA_OID, length(elements), 1];
        self.0.extend(head.into_iter().flat_map(i32::to_be_bytes));
        push(&mut Elements(self))?;
        let value = start + size_of::<i32>();
        let bytes = length(self.0.len() - value).to_be_bytes();
        self.0[start..value].copy_from_slice(&bytes);
        Ok(&self.0[value..])
    }

    /// Where the next tuple begins.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Takes back what was pushed since.
    pub(super) fn truncate(&mut self, len: usize) {
        self.0.truncate(len);
    }

    /// Copies the tuples by this `COPY ... FROM STDIN (FORMAT binary)`.
    pub(super) async fn copy(mut self, client: &Client, statement: &str) -> Result<(), Error> {
        self.0.extend_from_slice(&(-1_i16).to_be_bytes());
        let mut bytes = Bytes::from(self.0);
        let mut sink = pin!(client.copy_in::<_, Bytes>(statement).await?);
        while !bytes.is_empty() {
            let piece = bytes.split_to(bytes.len().min(PIECE_BYTES));
            // The database's own words come with the end.
            if sink.send(piece).await.is_err() {
                break;
            }
        }
        sink.finish().await.map(|_| ())
    }
}

/// The elements of an array.
pub(super) struct Elements<'a>(&'a mut Tuples);

impl Elements<'_> {
    pub(super) fn push(&mut self, value: Option<&str>) {
        match value {
            Some(text) => self.0.bytes(text.as_bytes()),
            None => self.0.0.extend_from_slice(&NULL.to_be_bytes()),
        }
    }
}

/// A part holds 1 GiB at most, and so does a value.
fn length(bytes: usize) -> i32 {
    i32::try_from(bytes).unwrap_or(i32::MAX)
}
