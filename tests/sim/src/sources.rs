//! The input queues of a history, by number.

use protocol::ids::SourceArn;

const SOURCE: &str = "arn:aws:sqs:eu-west-1:1:input-queue-";

/// Returns the source with a number.
pub fn source(index: usize) -> SourceArn {
    let source = format!("{SOURCE}{index}");
    source.parse().expect("a short text is a source")
}

/// Returns the number of a source.
pub fn source_index(source: &SourceArn) -> usize {
    let number = source.as_str().strip_prefix(SOURCE);
    let number = number.and_then(|number| number.parse().ok());
    number.expect("every source is one of the burst's")
}
