//! The trace of a message, from the header that its producer sent with it.

use std::fmt;

/// The id of an X-Ray trace: `1-` and a time, `-` and 96 random bits, in hexadecimal. Log lines show it, so nothing else is
/// taken from the header, whose text is the producer's.
/// Source: <https://docs.aws.amazon.com/xray/latest/devguide/xray-concepts.html#xray-concepts-tracingheader> (2026-11).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TraceId(Box<str>);

impl TraceId {
    /// Returns the trace in the system attribute `AWSTraceHeader`: `Root=1-5759e988-bd862e3fe1be46a994272793;Sampled=1`.
    pub fn of_header(header: &str) -> Option<TraceId> {
        let root = header
            .split(';')
            .find_map(|part| part.trim().strip_prefix("Root="))?;
        let is_hex = |text: &str, digits| {
            text.len() == digits && text.bytes().all(|byte| byte.is_ascii_hexdigit())
        };
        let mut parts = root.split('-');
        let is_trace = parts.next() == Some("1")
            && parts.next().is_some_and(|time| is_hex(time, 8))
            && parts.next().is_some_and(|random| is_hex(random, 24))
            && parts.next().is_none();
        is_trace.then(|| TraceId(root.into()))
    }
}

impl fmt::Display for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_trace_id_is_taken_from_the_header() {
        let id = "1-5759e988-bd862e3fe1be46a994272793";
        for header in [
            format!("Root={id}"),
            format!("Root={id};Parent=53995c3f42cd8ad8;Sampled=1"),
            format!("Self=1-67891234-12456789abcdef012345678a; Root={id}"),
        ] {
            let found = TraceId::of_header(&header).map(|trace| trace.to_string());
            assert_eq!(found.as_deref(), Some(id), "{header}");
        }
        for header in [
            "",
            "Parent=53995c3f42cd8ad8",
            "Root=",
            "Root=1-5759e988-secret",
            "Root=2-5759e988-bd862e3fe1be46a994272793",
            "Root=1-5759e988-bd862e3fe1be46a994272793-x",
        ] {
            assert_eq!(TraceId::of_header(header), None, "{header}");
        }
    }
}
