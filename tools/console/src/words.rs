//! Makes words that came from elsewhere fit to be shown: producers and sinks choose them, and may choose anything.

/// The most characters of one value on a page.
const CHARACTERS_MAX: usize = 4_000;

/// Returns words as they can be shown: control characters, and those that turn the direction of what follows, as visible
/// signs; and of a long text the beginning.
pub fn shown(words: &str) -> String {
    let mut shown = String::with_capacity(words.len().min(CHARACTERS_MAX));
    for (count, character) in words.chars().enumerate() {
        if count == CHARACTERS_MAX {
            shown.push_str(&format!("… ({} bytes)", words.len()));
            break;
        }
        push(&mut shown, character);
    }
    shown
}

/// Returns a text with its line breaks, each line as [`shown`] has it.
pub fn shown_lines(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '\n' => shown.push('\n'),
            other => push(&mut shown, other),
        }
    }
    shown
}

fn push(to: &mut String, character: char) {
    match character {
        // The pictures of control characters are in the order of these.
        '\0'..='\x1f' => to.extend(char::from_u32(0x2400 + character as u32)),
        '\x7f' => to.push('\u{2421}'),
        '\u{80}'..='\u{9f}' | '\u{ad}' | '\u{61c}' | '\u{200b}'..='\u{200f}' => {
            escape(to, character)
        }
        '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' => escape(to, character),
        '\u{e0000}'..='\u{e0fff}' => escape(to, character),
        other => to.push(other),
    }
}

fn escape(to: &mut String, character: char) {
    to.extend(character.escape_unicode());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_seen() {
        assert_eq!(shown("a\0\r\n\x1b[2J\x7f"), "a␀␍␊␛[2J␡");
        assert_eq!(shown_lines("a\nb\rc"), "a\nb␍c");
    }

    #[test]
    fn a_text_does_not_turn_the_direction_of_what_follows() {
        assert_eq!(shown("\u{202e}gpj.exe"), "\\u{202e}gpj.exe");
        assert_eq!(
            shown("\u{2066}\u{200f}\u{feff}"),
            "\\u{2066}\\u{200f}\\u{feff}"
        );
        assert_eq!(shown("مرحبا"), "مرحبا", "letters stay");
    }

    #[test]
    fn of_a_long_text_the_beginning_is_shown_with_its_length() {
        let text = "é".repeat(131_072);
        let shown = shown(&text);
        assert!(shown.ends_with("é… (262144 bytes)"), "{}", shown.len());
        assert_eq!(
            shown.chars().filter(|one| *one == 'é').count(),
            CHARACTERS_MAX
        );
    }
}
