//! Texts for people.

use std::fmt::Display;

/// Returns a count with its noun, whose plural is formed by rule: `1 batch`, `2 batches`, `3 deliveries`.
pub fn counted(count: impl Display, noun: &str) -> String {
    let count = count.to_string();
    let before_y = noun.strip_suffix('y');
    match before_y {
        _ if count == "1" => format!("{count} {noun}"),
        Some(stem) if !stem.ends_with(['a', 'e', 'o', 'u']) => format!("{count} {stem}ies"),
        Some(_) | None if noun.ends_with("ch") => format!("{count} {noun}es"),
        Some(_) | None => format!("{count} {noun}s"),
    }
}

/// Returns the beginning of a text, at most `bytes_max` bytes of it, cut between two characters.
pub fn cut(text: &str, bytes_max: usize) -> String {
    text[..text.floor_char_boundary(bytes_max)].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_and_its_noun_agree_in_number() {
        for (count, noun, text) in [
            (0, "event", "0 events"),
            (1, "batch", "1 batch"),
            (2, "batch", "2 batches"),
            (1, "delivery", "1 delivery"),
            (2, "delivery", "2 deliveries"),
            (2, "reply", "2 replies"),
            (2, "key", "2 keys"),
            (11, "dead letter", "11 dead letters"),
        ] {
            assert_eq!(counted(count, noun), text);
        }
    }
}
