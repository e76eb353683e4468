use std::io::{self, Write};
use std::sync::Arc;

use protocol::ids::{BatchId, Seq};
use serde::Serialize;
use shared::ports::StoredEvent;

use crate::columns::{Body, Column, FixedColumn};
use crate::csv;
use crate::part::Part;
use crate::reject::{Reject, RejectReason};

/// What a part looks like at its sink: `SINK_FORMAT`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Format {
    /// One JSON object a line, the body as a string in it.
    Envelope,
    /// The bodies alone, one a line.
    Body,
    /// Columns, as RFC 4180 quotes them.
    Csv {
        /// What is in them.
        columns: Arc<[Column]>,
        /// Whether the first line has their names.
        header: bool,
    },
    /// Columns of so many characters, without anything between them.
    FixedWidth(Arc<[FixedColumn]>),
}

impl Format {
    /// The extension of a file in this format.
    pub const fn extension(&self) -> &'static str {
        match self {
            Format::Envelope => "jsonl",
            Format::Body | Format::FixedWidth(_) => "txt",
            Format::Csv { .. } => "csv",
        }
    }

    /// As `SINK_FORMAT` names it.
    pub const fn name(&self) -> &'static str {
        match self {
            Format::Envelope => "envelope",
            Format::Body => "body",
            Format::Csv { .. } => "csv",
            Format::FixedWidth(_) => "fixed-width",
        }
    }

    /// The media type.
    pub const fn content_type(&self) -> &'static str {
        match self {
            Format::Envelope => "application/x-ndjson",
            Format::Body | Format::FixedWidth(_) => "text/plain; charset=utf-8",
            Format::Csv { header: true, .. } => "text/csv; charset=utf-8; header=present",
            Format::Csv { header: false, .. } => "text/csv; charset=utf-8; header=absent",
        }
    }

    /// Whether there are records that it cannot carry.
    pub const fn rejects(&self) -> bool {
        match self {
            Format::Envelope => false,
            Format::Body | Format::Csv { .. } | Format::FixedWidth(_) => true,
        }
    }

    /// Writes a part, less what the format cannot carry: that it answers. The same part is the same bytes and the same
    /// rejects, every time.
    ///
    /// # Errors
    /// The writer's.
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

    /// One record with its line break; what was pushed before an error is worth nothing.
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

/// Writes the reject list of a part: its records as envelopes, each with the `reason`.
///
/// # Errors
/// The writer's.
pub fn write_rejects(part: &Part, rejects: &[Reject], to: &mut impl Write) -> io::Result<()> {
    for reject in rejects {
        to.write_all(&reject_line(part, reject)?)?;
        to.write_all(b"\n")?;
    }
    Ok(())
}

/// A rejected record as an envelope with the `reason`, without its line break.
pub(crate) fn reject_line(part: &Part, reject: &Reject) -> io::Result<Vec<u8>> {
    let Ok(index) = part
        .items
        .binary_search_by_key(&reject.seq, |item| item.seq)
    else {
        let words = format!("{reject} is of another part than {}", part.key());
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
    fn an_envelope_names_everything_and_carries_the_body_as_a_string() {
        let (text, rejects) = written(&Format::Envelope, &["{\"a\":1}\n"]);
        assert_eq!(text, format!("{ENVELOPE}}}\n"));
        assert!(rejects.is_empty());
    }

    #[test]
    fn bodies_stand_alone_one_a_line_and_a_line_break_is_rejected_by_name() {
        assert_eq!(written(&Format::Body, &["a", "b"]).0, "a\nb\n");
        let (text, rejects) = written(&Format::Body, &["a", "b\nc", "d\r", "e"]);
        assert_eq!(text, "a\ne\n", "the others are written");
        assert_eq!(rejects.len(), 2);
        assert!(
            rejects[0].starts_with("event `e1` (seq 1): body has a line break"),
            "{rejects:?}"
        );
    }

    #[test]
    fn a_reject_list_is_the_envelope_with_the_reason() {
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
    fn columns_take_fields_of_the_envelope_and_what_expressions_find() {
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
            rejects[0].starts_with("event `e2` (seq 2): body is not JSON: "),
            "{rejects:?}"
        );
        assert!(
            rejects[1].contains("column `n, m`: the number does not fit 64 bits"),
            "{rejects:?}"
        );
    }

    #[test]
    fn without_a_header_or_any_record_there_is_nothing() {
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
            rejects[0].contains("(seq 1): column `a`: `abs(a)` cannot be evaluated: "),
            "{rejects:?}"
        );
    }

    #[test]
    fn a_column_of_fixed_width_is_filled_and_never_overrun() {
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
                "event `e2` (seq 2): column `id`: the value has `5` characters, the column a width of `4`",
                "event `e3` (seq 3): column `id`: the value has a line break (`3` characters, the column a width of `4`)",
            ]
        );
    }

    #[test]
    fn only_what_can_reject_says_so() {
        assert!(!Format::Envelope.rejects());
        assert!(Format::Body.rejects());
    }
}
