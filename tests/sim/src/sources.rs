//! The input queues of a history, by number.

use protocol::ids::SourceArn;

const SOURCE: &str = "arn:aws:sqs:eu-west-1:1:input-queue-";

/// Returns the source with a number.
pub fn source(index: usize) -> SourceArn {
    format!("{SOURCE}{index}")
        .parse()
        .expect("a short text is a source")
}

/// Returns the number of a source.
pub fn source_index(source: &SourceArn) -> usize {
    source
        .as_str()
        .strip_prefix(SOURCE)
        .and_then(|number| number.parse().ok())
        .expect("every source is one of the burst's")
}
