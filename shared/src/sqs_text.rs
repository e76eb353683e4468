//! The characters that SQS accepts in texts.

use std::borrow::Cow;

/// Returns the text with every character that SQS refuses replaced by U+FFFD.
///
/// Source: <https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_SendMessage.html> (2026-08).
pub fn sqs_text(text: &str) -> Cow<'_, str> {
    let accepted = |c: char| matches!(c, '\t' | '\n' | '\r' | ' '..='\u{d7ff}' | '\u{e000}'..='\u{fffd}' | '\u{10000}'..='\u{10ffff}');
    if text.chars().all(accepted) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(
        text.chars()
            .map(|c| if accepted(c) { c } else { '\u{fffd}' })
            .collect(),
    )
}
