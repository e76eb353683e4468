//! The header of X-Ray, which comes with SQS messages and with invocations:
//! `Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled=1`.
//! Source: <https://docs.aws.amazon.com/xray/latest/devguide/xray-concepts.html#xray-concepts-tracingheader> (2026-11).

use std::fmt;

/// Returns the value of a field of a header.
pub(super) fn field<'a>(header: &'a str, name: &str) -> Option<&'a str> {
    let mut parts = header.split(';').map(str::trim);
    parts.find_map(|part| part.strip_prefix(name)?.strip_prefix('='))
}

/// Returns whether a text has this number of hexadecimal digits, and nothing else.
pub(super) fn is_hex(text: &str, digits: usize) -> bool {
    text.len() == digits && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// The id of an X-Ray trace: `1-` and a time, `-` and 96 random bits, in hexadecimal. Log lines show it, so nothing else is
/// taken from the header, whose text is the producer's.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TraceId(Box<str>);

impl TraceId {
    /// Returns the trace in a header; `None` if it names none.
    pub fn of_header(header: &str) -> Option<TraceId> {
        let root = field(header, "Root")?;
        let (time, random) = root.strip_prefix("1-")?.split_once('-')?;
        (is_hex(time, 8) && is_hex(random, 24)).then(|| TraceId(root.into()))
    }

    /// Returns the id as OpenTelemetry writes it: 32 digits.
    #[cfg(feature = "full")]
    pub(super) fn digits(&self) -> String {
        self.0.split('-').skip(1).collect()
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
