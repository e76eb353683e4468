use std::io::{self, Write};

use serde::Serialize;

use super::Part;

/// What a part looks like at its sink: `SINK_FORMAT`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// One JSON object a line, the body as a string in it.
    Envelope,
    /// The bodies alone, one a line.
    Body,
}

/// Why a part could not be written.
#[derive(Debug, thiserror::Error)]
pub enum RenderError {
    /// A body that does not fit the format.
    #[error(
        "body of event `{event_id}` (seq {seq}) has a line break, which `SINK_FORMAT=body` cannot carry; \
         `envelope` can"
    )]
    LineBreak {
        /// Whose body.
        event_id: String,
        /// Its position.
        seq: u32,
    },
    /// The writer failed.
    #[error(transparent)]
    Write(#[from] io::Error),
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Envelope<'a> {
    batch_id: &'a str,
    part: usize,
    seq: u32,
    event_id: &'a str,
    sqs_message_id: &'a str,
    source: &'a str,
    sent_at: u64,
    body: &'a str,
}

impl Format {
    /// The extension of a file in this format.
    pub const fn extension(self) -> &'static str {
        match self {
            Format::Envelope => "jsonl",
            Format::Body => "txt",
        }
    }

    /// Writes a part. The same part is the same bytes, every time.
    ///
    /// # Errors
    /// [`RenderError`]; a line break is for good, a failing writer may recover.
    pub fn write(self, part: &Part, to: &mut impl Write) -> Result<(), RenderError> {
        let batch_id = part.batch_id.to_string();
        for item in &part.items {
            match self {
                Format::Envelope => {
                    let envelope = Envelope {
                        batch_id: &batch_id,
                        part: part.number,
                        seq: item.seq,
                        event_id: item.event_id.as_str(),
                        sqs_message_id: item.sqs_message_id.as_str(),
                        source: item.source.as_str(),
                        sent_at: item.sent_at.as_ms(),
                        body: &item.body,
                    };
                    serde_json::to_writer(&mut *to, &envelope).map_err(io::Error::from)?;
                }
                Format::Body if item.body.contains(['\n', '\r']) => {
                    return Err(RenderError::LineBreak {
                        event_id: item.event_id.to_string(),
                        seq: item.seq,
                    });
                }
                Format::Body => to.write_all(item.body.as_bytes())?,
            }
            to.write_all(b"\n")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests_support::part;
    use super::*;

    fn written(format: Format, bodies: &[&str]) -> Result<String, RenderError> {
        let mut bytes = Vec::new();
        format.write(&part(2, bodies), &mut bytes)?;
        Ok(String::from_utf8(bytes).unwrap())
    }

    #[test]
    fn an_envelope_names_everything_and_carries_the_body_as_a_string() {
        assert_eq!(
            written(Format::Envelope, &["{\"a\":1}\n"]).unwrap(),
            concat!(
                r#"{"batchId":"0190163d-8694-739b-aea5-966c26f8ad91","part":2,"seq":0,"eventId":"e0","#,
                r#""sqsMessageId":"m0","source":"arn:q","sentAt":7,"body":"{\"a\":1}\n"}"#,
                "\n"
            )
        );
    }

    #[test]
    fn bodies_stand_alone_one_a_line_and_a_line_break_is_refused_by_name() {
        assert_eq!(written(Format::Body, &["a", "b"]).unwrap(), "a\nb\n");
        let error = written(Format::Body, &["a", "b\nc"])
            .unwrap_err()
            .to_string();
        assert!(error.contains("event `e1` (seq 1)"), "{error}");
    }
}
