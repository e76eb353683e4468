//! Writes the binary format of `COPY`, in which no byte needs to be escaped.
//! Source: <https://www.postgresql.org/docs/current/sql-copy.html#id-1.9.3.55.9.4> (2026-11).

use std::pin::pin;

use bytes::Bytes;
use futures::SinkExt;
use tokio_postgres::{Client, Error};
use uuid::Uuid;

/// How many bytes the connection gets at a time.
const PIECE_BYTES: usize = 64 << 10;
const SIGNATURE: &[u8] = b"PGCOPY\n\xff\r\n\0";
/// The length that marks a null value.
const NULL: i32 = -1;
/// The object id of the type `bytea`.
const BYTEA_OID: i32 = 17;

/// The tuples of a `COPY`. Call `begin` for each tuple, and then push its columns one by one.
#[derive(Debug)]
pub(super) struct Tuples(Vec<u8>);

impl Tuples {
    pub(super) fn new() -> Tuples {
        let mut bytes = SIGNATURE.to_vec();
        // The header has no flags and no extension.
        bytes.extend_from_slice(&[0; 8]);
        Tuples(bytes)
    }

    /// Begins a tuple with a number of columns.
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

    /// Pushes a text or bytes.
    pub(super) fn bytes(&mut self, value: &[u8]) {
        self.0.extend_from_slice(&length(value.len()).to_be_bytes());
        self.0.extend_from_slice(value);
    }

    /// Pushes a value of `bytes` zero bytes; returns where they are, for [`fill`](Tuples::fill) to overwrite.
    pub(super) fn reserve(&mut self, bytes: usize) -> usize {
        self.bytes(&vec![0; bytes]);
        self.0.len() - bytes
    }

    pub(super) fn fill(&mut self, reserved: usize, value: &[u8]) {
        self.0[reserved..][..value.len()].copy_from_slice(value);
    }

    /// Pushes a value of the type `bytea[]` with a number of elements, which `push` pushes. Returns the bytes of the value.
    pub(super) fn array<E>(
        &mut self,
        elements: usize,
        push: impl FnOnce(&mut Tuples) -> Result<(), E>,
    ) -> Result<&[u8], E> {
        let start = self.0.len();
        // The length of the value, filled in below; one dimension; a flag for nulls, which the server ignores; the type of the
        // elements; their number; the index of the first one.
        let head = [0, 1, 1, BYTEA_OID, length(elements), 1];
        self.0.extend(head.into_iter().flat_map(i32::to_be_bytes));
        push(self)?;
        let value = start + size_of::<i32>();
        let bytes = length(self.0.len() - value).to_be_bytes();
        self.0[start..value].copy_from_slice(&bytes);
        Ok(&self.0[value..])
    }

    /// Pushes an element of an array.
    pub(super) fn element(&mut self, value: Option<&str>) {
        match value {
            Some(text) => self.bytes(text.as_bytes()),
            None => self.0.extend_from_slice(&NULL.to_be_bytes()),
        }
    }

    /// Returns the length so far, for [`truncate`](Tuples::truncate).
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Removes everything that was pushed since the length was `len`.
    pub(super) fn truncate(&mut self, len: usize) {
        self.0.truncate(len);
    }

    /// Sends the tuples. `statement` must be a `COPY ... FROM STDIN (FORMAT binary)`.
    pub(super) async fn copy(mut self, client: &Client, statement: &str) -> Result<(), Error> {
        self.0.extend_from_slice(&(-1_i16).to_be_bytes());
        let mut bytes = Bytes::from(self.0);
        let mut sink = pin!(client.copy_in::<_, Bytes>(statement).await?);
        while !bytes.is_empty() {
            let piece = bytes.split_to(bytes.len().min(PIECE_BYTES));
            // `finish` returns the error of the database, which says more than this one.
            if sink.send(piece).await.is_err() {
                break;
            }
        }
        sink.finish().await.map(|_| ())
    }
}

/// Returns a length as the format has it. A value is never longer than `i32::MAX`, because a part holds at most 1 GiB.
fn length(bytes: usize) -> i32 {
    i32::try_from(bytes).unwrap_or(i32::MAX)
}
