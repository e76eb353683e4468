//! JSON text, where every message passes: bodies that are JSON themselves have something to escape every few bytes, and a
//! general serialiser takes each for a piece of its own.

/// What stands in an escape for a byte, or the byte itself; 0 where only its number can stand for it.
const LETTERS: [u8; 256] = letters();
/// How many bytes are looked at before they are written.
const PIECE: usize = 64;

const fn letters() -> [u8; 256] {
    let mut letters = [0; 256];
    let mut byte = 0x20;
    while byte < 256 {
        letters[byte] = byte as u8;
        byte += 1;
    }
    letters[0x08] = b'b';
    letters[0x09] = b't';
    letters[0x0a] = b'n';
    letters[0x0c] = b'f';
    letters[0x0d] = b'r';
    letters
}

/// Writes a text as a JSON string, quotes included.
pub fn push_text(to: &mut Vec<u8>, text: &str) {
    to.reserve(text.len() + text.len() / 4 + 2);
    to.push(b'"');
    // The longest escape is six bytes.
    let mut piece = [0; 6 * PIECE];
    for bytes in text.as_bytes().chunks(PIECE) {
        let mut len = 0;
        let (words, rest) = bytes.as_chunks::<8>();
        for word in words {
            if is_plain(u64::from_ne_bytes(*word)) {
                piece[len..len + 8].copy_from_slice(word);
                len += 8;
            } else {
                len = escape(&mut piece, len, word);
            }
        }
        len = escape(&mut piece, len, rest);
        to.extend_from_slice(&piece[..len]);
    }
    to.push(b'"');
}

/// Writes bytes with their escapes; answers where they end.
fn escape(piece: &mut [u8; 6 * PIECE], mut len: usize, bytes: &[u8]) -> usize {
    for &byte in bytes {
        let letter = LETTERS[usize::from(byte)];
        if letter == 0 {
            piece[len..len + 6].copy_from_slice(&numbered(byte));
            len += 6;
            continue;
        }
        // Without a branch: where quotes stand cannot be foretold.
        let escaped = byte < 0x20 || byte == b'"' || byte == b'\\';
        piece[len] = b'\\';
        len += usize::from(escaped);
        piece[len] = letter;
        len += 1;
    }
    len
}

/// Whether none of eight bytes needs an escape. A byte above one that does may be taken for another, which does no harm.
/// Source: <https://graphics.stanford.edu/~seander/bithacks.html#HasLessInWord>.
const fn is_plain(word: u64) -> bool {
    const ONES: u64 = u64::from_ne_bytes([1; 8]);
    const HIGH: u64 = ONES << 7;
    const fn has_less(word: u64, than: u64) -> u64 {
        word.wrapping_sub(ONES * than) & !word & HIGH
    }
    let control = has_less(word, 0x20);
    let quote = has_less(word ^ (ONES * b'"' as u64), 1);
    let backslash = has_less(word ^ (ONES * b'\\' as u64), 1);
    control | quote | backslash == 0
}

const fn numbered(byte: u8) -> [u8; 6] {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let [high, low] = [byte >> 4, byte & 15];
    [
        b'\\',
        b'u',
        b'0',
        b'0',
        DIGITS[high as usize],
        DIGITS[low as usize],
    ]
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn pushed(text: &str) -> String {
        let mut to = b"before".to_vec();
        push_text(&mut to, text);
        String::from_utf8(to.split_off(6)).unwrap()
    }

    #[test]
    fn every_byte_that_must_be_escaped_is() {
        let all: String = (0..=0x100).filter_map(char::from_u32).collect();
        assert_eq!(pushed(&all), serde_json::to_string(&all).unwrap());
    }

    #[test]
    fn it_is_wherever_it_stands() {
        for byte in (0..0x80).map(char::from) {
            for at in 0..20 {
                let mut text = "y".repeat(20);
                text.insert(at, byte);
                assert_eq!(pushed(&text), serde_json::to_string(&text).unwrap());
            }
        }
    }

    proptest! {
        #[test]
        fn any_text_is_written_as_serde_json_writes_it(text in "([\\x00-\\x7f]|\\PC){0,200}") {
            prop_assert_eq!(pushed(&text), serde_json::to_string(&text).unwrap());
        }
    }
}
