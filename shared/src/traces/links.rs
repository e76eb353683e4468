//! Links to spans of other invocations and other programs, and the two forms in which they are named: the header of X-Ray,
//! which comes with SQS messages, and the W3C's `traceparent`.

use std::collections::BTreeMap;
use std::sync::Mutex;

use opentelemetry::Context;
use opentelemetry::trace::{
    SpanContext, SpanId, TraceContextExt as _, TraceFlags, TraceId, TraceState,
};
use protocol::ids::BatchId;
use protocol::limits::{BATCHES_WITH_LINKS_MAX, TICKET_LINKS_MAX};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use super::xray;
use crate::locked::locked;

/// Spans that a ticket names: the one that sent it, and those of invocations that claimed events of the batch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Links(Vec<SpanContext>);

impl Links {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the present span, if it is recorded.
    pub fn of_present() -> Links {
        Links(present().into_iter().collect())
    }

    /// Returns the spans.
    pub fn into_spans(self) -> Vec<SpanContext> {
        self.0
    }

    fn add(&mut self, span: &SpanContext) {
        if self.0.len() < TICKET_LINKS_MAX && !self.0.contains(span) {
            self.0.push(span.clone());
        }
    }
}

/// Writes each span as a `traceparent`.
impl Serialize for Links {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().map(to_traceparent))
    }
}

/// Reads what is a list with a `traceparent` in it. Nothing else is an error, so a ticket never fails because of its links.
impl<'de> Deserialize<'de> for Links {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Links, D::Error> {
        let mut links = Links::default();
        let value = Value::deserialize(deserializer)?;
        let texts = value.as_array().into_iter().flatten();
        for span in texts.filter_map(Value::as_str).filter_map(of_traceparent) {
            links.add(&span);
        }
        Ok(links)
    }
}

/// The spans that claimed events of the open batches of an environment, until the batches are sealed.
#[derive(Debug, Default)]
pub struct BatchLinks(Mutex<BTreeMap<BatchId, Links>>);

impl BatchLinks {
    /// Adds the present span to the links of `batches`, if it is traced.
    pub fn add_present(&self, batches: impl Iterator<Item = BatchId>) {
        let Some(present) = present() else {
            return;
        };
        let mut known = locked(&self.0);
        for batch in batches {
            if known.len() < BATCHES_WITH_LINKS_MAX || known.contains_key(&batch) {
                known.entry(batch).or_default().add(&present);
            }
        }
    }

    /// Returns the links of a ticket that the present span sends: the span itself, and the spans that claimed its events.
    pub fn of_ticket(&self, batch: BatchId) -> Links {
        let mut links = Links::of_present();
        let known = locked(&self.0);
        for span in known.get(&batch).into_iter().flat_map(|links| &links.0) {
            links.add(span);
        }
        links
    }

    /// Forgets the spans of a batch.
    pub fn forget(&self, batch: BatchId) {
        locked(&self.0).remove(&batch);
    }
}

/// Returns the present span, if it is recorded.
pub(super) fn present() -> Option<SpanContext> {
    Context::map_current(|context| {
        let span = context.span();
        span.is_recording().then(|| span.span_context().clone())
    })
}

/// Returns the span that a header of X-Ray names; `None` if it names no span, or one that is not sampled and is therefore
/// nowhere.
pub fn of_xray_header(header: &str) -> Option<SpanContext> {
    if xray::field(header, "Sampled") == Some("0") {
        return None;
    }
    let trace = xray::TraceId::of_header(header)?.digits();
    let parent = xray::field(header, "Parent")?;
    remote(&trace, parent, TraceFlags::SAMPLED)
}

/// Returns the `traceparent` of a span.
/// Source: <https://www.w3.org/TR/trace-context/#traceparent-header> (2026-11).
pub(super) fn to_traceparent(span: &SpanContext) -> String {
    let flags = (span.trace_flags() & TraceFlags::SAMPLED).to_u8();
    format!("00-{}-{}-{flags:02x}", span.trace_id(), span.span_id())
}

fn of_traceparent(text: &str) -> Option<SpanContext> {
    let parts: Vec<&str> = text.split('-').collect();
    let &["00", trace, span, flags] = &parts[..] else {
        return None;
    };
    let flags = u8::from_str_radix(flags, 16).ok()?;
    remote(trace, span, TraceFlags::new(flags) & TraceFlags::SAMPLED)
}

/// Returns a span of another process. `None` unless both ids have their length in hexadecimal digits, and are not zero.
fn remote(trace: &str, span: &str, flags: TraceFlags) -> Option<SpanContext> {
    if !xray::is_hex(trace, 32) || !xray::is_hex(span, 16) {
        return None;
    }
    let trace = TraceId::from_hex(trace).ok()?;
    let span = SpanId::from_hex(span).ok()?;
    let span = SpanContext::new(trace, span, flags, true, TraceState::default());
    span.is_valid().then_some(span)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACE: &str = "5759e988bd862e3fe1be46a994272793";
    const PARENT: &str = "53995c3f42cd8ad8";

    #[test]
    fn a_header_of_xray_names_a_span_unless_that_is_not_sampled() {
        let root = "1-5759e988-bd862e3fe1be46a994272793";
        for header in [
            format!("Root={root};Parent={PARENT};Sampled=1"),
            format!("Self=1-2-3; Root={root}; Parent={PARENT}; Sampled=?;Lineage=1:a"),
            format!("Parent={PARENT};Root={root}"),
        ] {
            let span = of_xray_header(&header).unwrap();
            assert_eq!(
                to_traceparent(&span),
                format!("00-{TRACE}-{PARENT}-01"),
                "{header}"
            );
        }
        for header in [
            String::new(),
            format!("Root={root};Parent={PARENT};Sampled=0"),
            format!("Root={root};Sampled=1"),
            format!("Root={root};Parent=0000000000000000"),
            format!("Root={root};Parent=+3995c3f42cd8ad8"),
            format!("Root=2-5759e988-bd862e3fe1be46a994272793;Parent={PARENT}"),
            format!("Root=1-5759e988b-d862e3fe1be46a994272793;Parent={PARENT}"),
            format!("Root=1-5759e988-bd862e3fe1be46a99427279é;Parent={PARENT}"),
        ] {
            assert_eq!(of_xray_header(&header), None, "{header}");
        }
    }

    #[test]
    fn links_read_back_as_they_were_written_and_what_is_no_link_is_left_out() {
        let good = format!("00-{TRACE}-{PARENT}-01");
        let links: Links = serde_json::from_value(serde_json::json!([good])).unwrap();
        assert_eq!(
            serde_json::to_string(&links).unwrap(),
            format!("[\"{good}\"]")
        );
        let noise = serde_json::json!([7, "", "00-1-2-3", null, good, format!("{good}-x"), good]);
        assert_eq!(serde_json::from_value::<Links>(noise).unwrap(), links);
        for nothing in ["7", "null", "\"x\"", "{\"a\":[]}", "[]"] {
            let links: Links = serde_json::from_str(nothing).unwrap();
            assert!(links.is_empty(), "{nothing}");
        }
    }

    #[test]
    fn a_ticket_has_a_limited_number_of_links() {
        let spans = (1..100).map(|span| format!("00-{TRACE}-{span:016x}-01"));
        let spans = serde_json::Value::from_iter(spans);
        let links: Links = serde_json::from_value(spans).unwrap();
        assert_eq!(links.into_spans().len(), TICKET_LINKS_MAX);
    }
}
