//! The characters that a message may have.

/// The first character outside the set that XML 1.0 allows, with its place in bytes.
///
/// Source: <https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_SendMessage.html>
pub(super) fn first_disallowed(text: &str) -> Option<(usize, char)> {
    // Almost every body passes this scan of bytes, which has no branches, so that the compiler can take many at once;
    // only a suspect one is decoded. 0xEF leads U+FFFE and U+FFFF.
    let suspect = |byte: u8| {
        ((byte < 0x20) & (byte != b'\t') & (byte != b'\n') & (byte != b'\r')) | (byte == 0xEF)
    };
    if !text.bytes().fold(false, |any, byte| any | suspect(byte)) {
        return None;
    }
    let disallowed = |c: char| match c {
        '\t' | '\n' | '\r' => false,
        '\0'..='\u{1F}' | '\u{FFFE}' | '\u{FFFF}' => true,
        _ => false,
    };
    text.char_indices().find(|&(_, c)| disallowed(c))
}
