//! Writes a line for each event.

use shared::config::{LogFormat, LogSettings};
use shared::redaction::Redaction;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::LookupSpan;

use super::line::{Fields, Recorder};

/// The crates whose lines at DEBUG and TRACE are logged. Others, such as the SDK, log whole requests there, with bodies.
const OWN_CRATES: [&str; 6] = [
    "aggregator",
    "aws",
    "batch_processor",
    "protocol",
    "shared",
    "sinks",
];

/// Returns whether a line may be logged, as far as it depends on who logs it.
fn is_allowed(metadata: &Metadata<'_>) -> bool {
    let of_crate = metadata.target().split("::").next().unwrap_or_default();
    *metadata.level() <= Level::INFO || OWN_CRATES.contains(&of_crate)
}

/// Passes each line to `write`.
pub(super) struct LogLayer<W> {
    format: LogFormat,
    redaction: Redaction,
    write: W,
}

impl<W: Fn(&str)> LogLayer<W> {
    pub(super) fn new(settings: LogSettings, write: W) -> LogLayer<W> {
        LogLayer {
            format: settings.format,
            redaction: Redaction {
                event_ids: settings.event_ids,
            },
            write,
        }
    }

    fn recorder<'f>(&self, fields: &'f mut Fields) -> Recorder<'f> {
        Recorder {
            fields,
            redaction: self.redaction,
        }
    }
}

impl<S, W> Layer<S> for LogLayer<W>
where
    S: Subscriber + for<'span> LookupSpan<'span>,
    W: Fn(&str) + 'static,
{
    fn enabled(&self, metadata: &Metadata<'_>, _context: Context<'_, S>) -> bool {
        is_allowed(metadata)
    }

    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let mut fields = Fields::default();
        attributes.record(&mut self.recorder(&mut fields));
        if let Some(span) = context.span(id) {
            span.extensions_mut().insert(fields);
        }
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        if let Some(span) = context.span(id)
            && let Some(fields) = span.extensions_mut().get_mut::<Fields>()
        {
            values.record(&mut self.recorder(fields));
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let mut fields = Fields::default();
        event.record(&mut self.recorder(&mut fields));
        // From the innermost span outwards.
        for span in context.event_scope(event).into_iter().flatten() {
            if let Some(outer) = span.extensions().get::<Fields>() {
                fields.add_all(outer);
            }
        }
        (self.write)(&fields.line(*event.metadata().level(), self.format));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use tracing::{debug, error_span, info, trace, warn};

    use super::super::lines_of;
    use super::*;

    const SETTINGS: LogSettings = LogSettings {
        level: Level::INFO,
        format: LogFormat::Json,
        event_ids: false,
    };

    fn log() {
        let invocation = error_span!("invocation", requestId = "r-1", batch_id = "outer");
        let _invocation = invocation.enter();
        let batch = error_span!(
            "ticket",
            batch_id = Some(display("b-1")),
            late = tracing::field::Empty
        );
        let _batch = batch.enter();
        batch.record("late", true);
        info!(
            items_count = 3_usize,
            share = 0.5,
            event_id = "e-1",
            "part \"frozen\""
        );
        warn!(error = %"event ‹e-1›: got «{\"name\":\"Zoë\"}»\nand more", "refused");
        debug!("left out");
    }

    #[test]
    fn a_line_has_the_fields_of_its_event_and_its_spans_at_the_top() {
        let lines = lines_of(SETTINGS, log);
        let lines: Vec<Value> = lines
            .iter()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        let expected = json!([
            {
                "level": "INFO", "message": "part \"frozen\"", "items_count": 3, "share": 0.5,
                "batch_id": "b-1", "late": true, "requestId": "r-1",
            },
            {
                "level": "WARN", "message": "refused", "error": "event ‹…›: got «…»\nand more",
                "batch_id": "b-1", "late": true, "requestId": "r-1",
            },
        ]);
        assert_eq!(Value::from(lines), expected);
    }

    #[test]
    fn event_ids_are_logged_only_if_that_is_allowed_and_contents_never() {
        let settings = LogSettings {
            event_ids: true,
            format: LogFormat::Text,
            ..SETTINGS
        };
        let lines = lines_of(settings, log);
        assert_eq!(
            lines,
            [
                " INFO part \"frozen\" items_count=3 share=0.5 event_id=e-1 batch_id=b-1 late=true requestId=r-1",
                " WARN refused error=\"event ‹e-1›: got «…»\\nand more\" batch_id=b-1 late=true requestId=r-1",
            ]
        );
    }

    #[test]
    fn details_of_other_crates_are_never_logged() {
        let settings = LogSettings {
            level: Level::TRACE,
            format: LogFormat::Text,
            ..SETTINGS
        };
        let lines = lines_of(settings, || {
            trace!("ours");
            debug!(target: "hyper::proto", "theirs");
            trace!(target: "shared_by_others", "theirs");
            info!(target: "hyper::proto", "theirs, in general");
        });
        assert_eq!(lines, ["TRACE ours", " INFO theirs, in general"]);
    }
}
