use std::io::{self, Write};
use std::sync::Arc;

use protocol::ids::{BatchId, Seq};
use serde::Serialize;
use shared::message_attributes::MessageAttributes;
use shared::ports::StoredEvent;

use crate::cell::{Cell, cells};
use crate::columns::{Column, FixedColumn};
use crate::csv;
use crate::encoding::Encoding;
use crate::layout::Layout;
use crate::parquet::ParquetFormat;
use crate::part::Part;
use crate::reject::{Reject, RejectReason};
use crate::template::Template;
use crate::totals::Totals;

/// The format of a part: `SINK_FORMAT`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Format {
    /// One JSON object per line, with the body as a string.
    Envelope,
    /// One body per line.
    Body,
    /// Comma-separated columns, quoted as in RFC 4180.
    Csv {
        /// The name and the source of each column.
        columns: Arc<[Column]>,
        /// Whether the first line has the names of the columns.
        header: bool,
    },
    /// Columns of a fixed number of characters each, without separators.
    FixedWidth(Arc<[FixedColumn]>),
    /// A Parquet file. It needs the cargo feature `full`.
    Parquet(ParquetFormat),
}

impl Format {
    /// Returns the extension of a file in this format, without a dot.
    pub const fn extension(&self) -> &'static str {
        match self {
            Format::Envelope => "jsonl",
            Format::Body | Format::FixedWidth(_) => "txt",
            Format::Csv { .. } => "csv",
            Format::Parquet(_) => "parquet",
        }
    }

    /// Returns the name in `SINK_FORMAT`.
    pub const fn name(&self) -> &'static str {
        match self {
            Format::Envelope => "envelope",
            Format::Body => "body",
            Format::Csv { .. } => "csv",
            Format::FixedWidth(_) => "fixed-width",
            Format::Parquet(_) => "parquet",
        }
    }

    /// Returns the media type, for `Content-Type`.
    pub fn content_type(&self, encoding: Encoding) -> String {
        let charset = encoding.charset();
        match self {
            Format::Envelope => "application/x-ndjson".to_owned(),
            Format::Body | Format::FixedWidth(_) => format!("text/plain; charset={charset}"),
            Format::Csv { header, .. } => {
                let header = if *header { "present" } else { "absent" };
                format!("text/csv; charset={charset}; header={header}")
            }
            Format::Parquet(_) => "application/vnd.apache.parquet".to_owned(),
        }
    }

    /// Returns whether the format has records that it cannot carry.
    pub const fn rejects(&self) -> bool {
        match self {
            Format::Envelope => false,
            Format::Body | Format::Csv { .. } | Format::FixedWidth(_) | Format::Parquet(_) => true,
        }
    }

    /// Writes the records of a part that the format can carry, in UTF-8; returns the others. The same part gives the same bytes
    /// and the same rejects at every attempt.
    ///
    /// # Errors
    /// The writer failed.
    pub fn write(&self, part: &Part, to: &mut impl Write) -> io::Result<Vec<Reject>> {
        self.write_as(&Layout::default(), part, to)
    }

    /// Returns the columns.
    pub(crate) fn columns(&self) -> Vec<&Column> {
        match self {
            Format::Envelope | Format::Body => Vec::new(),
            Format::Csv { columns, .. } => columns.iter().collect(),
            Format::FixedWidth(columns) => columns.iter().map(|column| &column.column).collect(),
            Format::Parquet(format) => format.columns().iter().collect(),
        }
    }

    /// Returns the names of the columns.
    pub fn column_names(&self) -> Vec<&str> {
        let columns = self.columns().into_iter();
        columns.map(|column| column.name.as_str()).collect()
    }

    /// Writes the records as [`write`](Self::write) does, in another layout.
    pub fn write_as(
        &self,
        layout: &Layout,
        part: &Part,
        to: &mut impl Write,
    ) -> io::Result<Vec<Reject>> {
        if let Format::Parquet(format) = self {
            // The configuration allows no layout with it.
            return format.write(part, to);
        }
        let mut totals = layout.totals();
        if layout.header.as_ref().is_some_and(Template::needs_totals) {
            // The totals are known only after the last record, so all records are made twice.
            self.write_records(layout, part, &mut totals, &mut io::sink())?;
        }
        layout.write_template("header record", &layout.header, part, &totals, to)?;
        if let Format::Csv { header: true, .. } = self {
            let names = csv::record(self.column_names().into_iter());
            layout.write_text("header", &names, part, to)?;
        }
        let mut totals = layout.totals();
        let rejects = self.write_records(layout, part, &mut totals, to)?;
        layout.write_template("trailer record", &layout.trailer, part, &totals, to)?;
        Ok(rejects)
    }

    /// Writes the records, and adds them to the totals; returns the rejected ones.
    fn write_records(
        &self,
        layout: &Layout,
        part: &Part,
        totals: &mut Totals<'_>,
        to: &mut impl Write,
    ) -> io::Result<Vec<Reject>> {
        let mut rejects = Vec::new();
        let mut record = Vec::new();
        for item in &part.items {
            record.clear();
            let pushed = self.push(&mut record, layout, part, item);
            let added = pushed.and_then(|cells| {
                layout.check_length(&record)?;
                totals.add(&cells)
            });
            match added {
                Ok(()) => layout.write(&record, to)?,
                Err(reason) => rejects.push(Reject::of(item, reason)),
            }
        }
        Ok(rejects)
    }

    /// Appends one record without a line end to `record`, in the encoding of the layout; returns its cells. After an error, `record`
    /// may hold half of it.
    fn push<'p>(
        &'p self,
        record: &mut Vec<u8>,
        layout: &Layout,
        part: &'p Part,
        item: &'p StoredEvent,
    ) -> Result<Vec<Cell<'p>>, RejectReason> {
        let encoding = layout.encoding;
        match self {
            Format::Envelope => {
                serde_json::to_writer(record, &Envelope::of(part, item))
                    .expect("texts and numbers are JSON, and memory takes them");
                Ok(Vec::new())
            }
            Format::Body if item.body.contains(['\n', '\r']) => Err(RejectReason::LineBreak),
            Format::Body => {
                let checked = encoding.check(&item.body);
                checked.map_err(|wrong| RejectReason::not_in_encoding("body", wrong, encoding))?;
                record.extend_from_slice(&encoding.encoded(&item.body));
                Ok(Vec::new())
            }
            Format::Csv { columns, .. } => {
                let cells = cells(columns.iter(), layout, part, item)?;
                let line = csv::record(cells.iter().map(Cell::written));
                record.extend_from_slice(&encoding.encoded(&line));
                Ok(cells)
            }
            Format::FixedWidth(columns) => {
                let all = columns.iter().map(|column| &column.column);
                let cells = cells(all, layout, part, item)?;
                // Texts are encoded together, up to the next bytes.
                let mut texts = String::new();
                for (column, cell) in columns.iter().zip(&cells) {
                    if cell.is_null() && column.pad.is_ascii_digit() {
                        column.column.check_null()?;
                    }
                    match cell.bytes() {
                        Some(bytes) => {
                            record.extend_from_slice(&encoding.encoded(&texts));
                            record.extend_from_slice(bytes);
                            texts.clear();
                        }
                        None => column.push(&mut texts, cell.written())?,
                    }
                }
                record.extend_from_slice(&encoding.encoded(&texts));
                Ok(cells)
            }
            Format::Parquet(_) => unreachable!("a Parquet file has columns, not records"),
        }
    }
}

/// Writes the reject list of a part: each rejected record as an envelope with a `reason`, one per line.
///
/// # Errors
/// The writer failed, or a reject is not of this part.
pub fn write_rejects(part: &Part, rejects: &[Reject], to: &mut impl Write) -> io::Result<()> {
    for reject in rejects {
        to.write_all(&reject_line(part, reject)?)?;
        to.write_all(b"\n")?;
    }
    Ok(())
}

/// Returns a rejected record as an envelope with a `reason`, without a line break.
pub fn reject_line(part: &Part, reject: &Reject) -> io::Result<Vec<u8>> {
    let Some(item) = part.item(reject.seq) else {
        let words = format!("part {}: a reject of another part: {reject}", part.key());
        return Err(io::Error::new(io::ErrorKind::InvalidInput, words));
    };
    let reason = reject.reason.to_string();
    Ok(serde_json::to_vec(&Envelope {
        reason: Some(&reason),
        ..Envelope::of(part, item)
    })?)
}

/// A record as JSON.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Envelope<'p> {
    batch_id: BatchId,
    part: usize,
    seq: Seq,
    event_id: &'p str,
    sqs_message_id: &'p str,
    source: &'p str,
    sent_at: u64,
    body: &'p str,
    /// The message attributes, if there are any.
    #[serde(skip_serializing_if = "Option::is_none")]
    attributes: Option<&'p MessageAttributes>,
    /// Why it was rejected, if it was.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'p str>,
}

impl<'p> Envelope<'p> {
    fn of(part: &Part, item: &'p StoredEvent) -> Envelope<'p> {
        Envelope {
            batch_id: part.batch_id,
            part: part.part_index,
            seq: item.seq,
            event_id: item.event_id.as_str(),
            sqs_message_id: item.sqs_message_id.as_str(),
            source: item.source.as_str(),
            sent_at: item.sent_at.as_ms(),
            body: &item.body,
            attributes: item.attributes.as_ref(),
            reason: None,
        }
    }
}

#[cfg(test)]
mod tests;
