use std::io::{self, Write};
use std::sync::Arc;

use protocol::ids::{BatchId, Seq};
use serde::Serialize;
use shared::ports::StoredEvent;

use crate::columns::{Body, Column, FixedColumn};
use crate::csv;
use crate::part::Part;
use crate::reject::{Reject, RejectReason};

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
}

impl Format {
    /// Returns the extension of a file in this format, without a dot.
    pub const fn extension(&self) -> &'static str {
        match self {
            Format::Envelope => "jsonl",
            Format::Body | Format::FixedWidth(_) => "txt",
            Format::Csv { .. } => "csv",
        }
    }

    /// Returns the name in `SINK_FORMAT`.
    pub const fn name(&self) -> &'static str {
        match self {
            Format::Envelope => "envelope",
            Format::Body => "body",
            Format::Csv { .. } => "csv",
            Format::FixedWidth(_) => "fixed-width",
        }
    }

    /// Returns the media type, for `Content-Type`.
    pub const fn content_type(&self) -> &'static str {
        match self {
            Format::Envelope => "application/x-ndjson",
            Format::Body | Format::FixedWidth(_) => "text/plain; charset=utf-8",
            Format::Csv { header: true, .. } => "text/csv; charset=utf-8; header=present",
            Format::Csv { header: false, .. } => "text/csv; charset=utf-8; header=absent",
        }
    }

    /// Returns whether the format has records that it cannot carry.
    pub const fn rejects(&self) -> bool {
        match self {
            Format::Envelope => false,
            Format::Body | Format::Csv { .. } | Format::FixedWidth(_) => true,
        }
    }

    /// Writes the records of a part that the format can carry; returns the others. The same part gives the same bytes and the
    /// same rejects at every attempt.
    ///
    /// # Errors
    /// The writer failed.
    pub fn write(&self, part: &Part, to: &mut impl Write) -> io::Result<Vec<Reject>> {
        let mut rejects = Vec::new();
        let mut line = Vec::new();
        if let Format::Csv {
            columns,
            header: true,
        } = self
        {
            csv::push_record(&mut line, columns.iter().map(|column| column.name.as_str()));
            to.write_all(&line)?;
        }
        for item in &part.items {
            line.clear();
            match self.push(&mut line, part, item) {
                Ok(()) => to.write_all(&line)?,
                Err(reason) => rejects.push(Reject {
                    seq: item.seq,
                    event_id: item.event_id.clone(),
                    reason,
                }),
            }
        }
        Ok(rejects)
    }

    /// Appends one record and its line break to `line`. After an error, `line` may hold half of a record.
    fn push(
        &self,
        line: &mut Vec<u8>,
        part: &Part,
        item: &StoredEvent,
    ) -> Result<(), RejectReason> {
        match self {
            Format::Envelope => {
                serde_json::to_writer(&mut *line, &Envelope::of(part, item))
                    .expect("texts and numbers are JSON, and memory takes them");
                line.push(b'\n');
            }
            Format::Body if item.body.contains(['\n', '\r']) => {
                return Err(RejectReason::LineBreak);
            }
            Format::Body => {
                line.extend_from_slice(item.body.as_bytes());
                line.push(b'\n');
            }
            Format::Csv { columns, .. } => {
                let mut body = Body::of(item);
                let fields: Result<Vec<_>, RejectReason> = columns
                    .iter()
                    .map(|column| column.text(part, item, &mut body))
                    .collect();
                csv::push_record(line, fields?.iter().map(AsRef::as_ref));
            }
            Format::FixedWidth(columns) => {
                let mut body = Body::of(item);
                for column in columns.iter() {
                    column.push(line, part, item, &mut body)?;
                }
                line.push(b'\n');
            }
        }
        Ok(())
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
pub(crate) fn reject_line(part: &Part, reject: &Reject) -> io::Result<Vec<u8>> {
    let Ok(index) = part
        .items
        .binary_search_by_key(&reject.seq, |item| item.seq)
    else {
        let words = format!("part {}: a reject of another part: {reject}", part.key());
        return Err(io::Error::new(io::ErrorKind::InvalidInput, words));
    };
    let reason = reject.reason.to_string();
    Ok(serde_json::to_vec(&Envelope {
        reason: Some(&reason),
        ..Envelope::of(part, &part.items[index])
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
    /// Why it was rejected, if it was.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'p str>,
}

impl<'p> Envelope<'p> {
    fn of(part: &Part, item: &'p StoredEvent) -> Envelope<'p> {
        Envelope {
            batch_id: part.batch_id,
            part: part.number,
            seq: item.seq,
            event_id: item.event_id.as_str(),
            sqs_message_id: item.sqs_message_id.as_str(),
            source: item.source.as_str(),
            sent_at: item.sent_at.as_ms(),
            body: &item.body,
            reason: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::columns::Columns;
    use crate::tests_support::part;

    fn written(format: &Format, bodies: &[&str]) -> (String, Vec<String>) {
        let mut bytes = Vec::new();
        let rejects = format.write(&part(2, bodies), &mut bytes).unwrap();
        let rejects = rejects.iter().map(ToString::to_string).collect();
        (String::from_utf8(bytes).unwrap(), rejects)
    }

    fn csv(columns: &str, header: bool) -> Format {
        let columns: Columns = columns.parse().unwrap();
        Format::Csv {
            columns: columns.csv(),
            header,
        }
    }

    fn fixed_width(columns: &str) -> Format {
        let columns: Columns = columns.parse().unwrap();
        Format::FixedWidth(columns.fixed_width().unwrap())
    }

    const ENVELOPE: &str = concat!(
        r#"{"batchId":"0190163d-8694-739b-aea5-966c26f8ad91","part":2,"seq":0,"eventId":"e0","#,
        r#""sqsMessageId":"m0","source":"arn:q","sentAt":7,"body":"{\"a\":1}\n""#,
    );

    #[test]
    fn an_envelope_has_all_fields_and_the_body_as_a_string() {
        let (text, rejects) = written(&Format::Envelope, &["{\"a\":1}\n"]);
        assert_eq!(text, format!("{ENVELOPE}}}\n"));
        assert!(rejects.is_empty());
    }

    #[test]
    fn a_body_is_one_line_and_a_body_with_a_line_break_is_rejected() {
        assert_eq!(written(&Format::Body, &["a", "b"]).0, "a\nb\n");
        let (text, rejects) = written(&Format::Body, &["a", "b\nc", "d\r", "e"]);
        assert_eq!(text, "a\ne\n", "the others are written");
        assert_eq!(rejects.len(), 2);
        assert!(
            rejects[0].starts_with("event ‹e1› (seq 1): «body has a line break"),
            "{rejects:?}"
        );
    }

    #[test]
    fn a_reject_list_has_envelopes_with_a_reason() {
        let part = part(2, &["{\"a\":1}\n", "b"]);
        let rejects = Format::Body.write(&part, &mut io::sink()).unwrap();
        let mut list = Vec::new();
        write_rejects(&part, &rejects, &mut list).unwrap();
        assert_eq!(
            String::from_utf8(list).unwrap(),
            format!("{ENVELOPE},\"reason\":\"{}\"}}\n", RejectReason::LineBreak)
        );
    }

    #[test]
    fn columns_take_fields_of_the_envelope_and_results_of_expressions() {
        let format = csv(
            r#"[{"name":"event","field":"eventId"},{"name":"n, m","json":"n"},{"name":"list","json":"[n, s]"},
                {"name":"s","json":"s"},{"name":"t","json":"t"},{"name":"key","field":"batchKey"}]"#,
            true,
        );
        let (text, rejects) = written(
            &format,
            &[
                r#"{"n":1.5,"s":"a \"b\"","t":true}"#,
                "[]",
                "no JSON",
                r#"{"n":123456789012345678901234567890}"#,
            ],
        );
        assert_eq!(
            text,
            concat!(
                "event,\"n, m\",list,s,t,key\n",
                "e0,1.5,\"[1.5,\"\"a \\\"\"b\\\"\"\"\"]\",\"a \"\"b\"\"\",true,\n",
                "e1,,\"[null,null]\",,,\n",
            )
        );
        assert!(
            rejects[0].starts_with("event ‹e2› (seq 2): «body is not JSON: "),
            "{rejects:?}"
        );
        assert!(
            rejects[1].contains("column `n, m`: the number does not fit 64 bits"),
            "{rejects:?}"
        );
    }

    #[test]
    fn csv_without_header_and_records_is_empty() {
        let columns = r#"[{"name":"a","json":"a"}]"#;
        assert_eq!(written(&csv(columns, false), &["no JSON"]).0, "");
        assert_eq!(written(&csv(columns, true), &["no JSON"]).0, "a\n");
        assert_eq!(
            written(&csv(columns, false), &["{}"]).0,
            "\"\"\n",
            "no blank line"
        );
    }

    #[test]
    fn an_expression_that_fails_on_a_body_rejects_that_record() {
        let format = csv(r#"[{"name":"a","json":"abs(a)"}]"#, false);
        let (text, rejects) = written(&format, &[r#"{"a":-1}"#, r#"{"a":"x"}"#]);
        assert_eq!(text, "1\n");
        assert!(
            rejects[0].contains("(seq 1): «column `a`: `abs(a)` cannot be evaluated: "),
            "{rejects:?}"
        );
    }

    #[test]
    fn a_fixed_width_column_is_padded_and_rejects_longer_values() {
        let format = fixed_width(
            r#"[{"name":"id","json":"id","width":4},{"name":"sum","json":"sum","width":6,"align":"right","pad":"0"},
                {"name":"seq","field":"seq","width":2,"align":"right"}]"#,
        );
        let (text, rejects) = written(
            &format,
            &[
                r#"{"id":"äö","sum":12}"#,
                r#"{"id":"abcd","sum":123456}"#,
                r#"{"id":"abcde","sum":1}"#,
                r#"{"id":"a\nb"}"#,
                "{}",
            ],
        );
        assert_eq!(text, "äö  000012 0\nabcd123456 1\n    000000 4\n");
        assert_eq!(
            rejects,
            [
                "event ‹e2› (seq 2): «column `id`: the value has `5` characters, the column a width of `4`»",
                "event ‹e3› (seq 3): «column `id`: the value has a line break (`3` characters, the column a width of `4`)»",
            ]
        );
    }

    #[test]
    fn envelope_rejects_nothing_and_body_may() {
        assert!(!Format::Envelope.rejects());
        assert!(Format::Body.rejects());
    }
}
