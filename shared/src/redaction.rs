//! Leaves out of log lines, and of notices, what comes from messages.
//!
//! - Event ids and batch keys are left out unless `LOG_EVENT_IDS` allows them: fields of these names, and what stands
//!   between `‹` and `›` in a text.
//! - What stands between `«` and `»` in a text may come from a body, and is always left out. Errors put there what a sink or
//!   a database said, and what a message had in place of something else.
//!
//! Both reach from the first opening mark to the last closing one, so nothing in between can end them early. The batch
//! record keeps the whole text of an error.

use std::borrow::Cow;

/// Fields whose value comes from a message.
const FIELDS: [&str; 2] = ["event_id", "batch_key"];
const ID_MARKS: (char, char) = ('‹', '›');
const CONTENT_MARKS: (char, char) = ('«', '»');
/// Stands for what was left out.
const LEFT_OUT: char = '…';

/// Data that log lines may contain.
#[derive(Clone, Copy, Debug)]
pub struct Redaction {
    /// Whether event ids and batch keys may be in a line.
    pub event_ids: bool,
}

impl Redaction {
    /// Returns whether a line may have a field of this name.
    pub fn allows_field(self, name: &str) -> bool {
        self.event_ids || !FIELDS.contains(&name)
    }

    /// Returns the text without what must not be in a line.
    pub fn filtered(self, text: &str) -> Cow<'_, str> {
        let text = without(Cow::Borrowed(text), CONTENT_MARKS);
        match self.event_ids {
            true => text,
            false => without(text, ID_MARKS),
        }
    }
}

/// Returns the text with `…` from the first opening mark to the last closing one, or to the end if none follows: then the
/// text was cut within the marks.
fn without(text: Cow<'_, str>, (open, close): (char, char)) -> Cow<'_, str> {
    let Some(start) = text.find(open) else {
        return text;
    };
    let start = start + open.len_utf8();
    let end = text.rfind(close).filter(|end| *end >= start);
    let end = end.unwrap_or(text.len());
    Cow::Owned(format!("{}{LEFT_OUT}{}", &text[..start], &text[end..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_between_the_marks_is_left_whatever_it_contains() {
        let never = Redaction { event_ids: false };
        let allowed = Redaction { event_ids: true };
        for (text, hidden, shown) in [
            ("no marks", "no marks", "no marks"),
            (
                "event ‹a›: refused: «row (a, b)»; retry",
                "event ‹…›: refused: «…»; retry",
                "event ‹a›: refused: «…»; retry",
            ),
            ("‹an id › with a mark›", "‹…›", "‹an id › with a mark›"),
            (
                "got «{\"a\": \"»\"} and so on», sorry",
                "got «…», sorry",
                "got «…», sorry",
            ),
            ("cut «in the mid", "cut «…", "cut «…"),
            ("» before «", "» before «…", "» before «…"),
        ] {
            assert_eq!(never.filtered(text), hidden);
            assert_eq!(allowed.filtered(text), shown);
        }
        for name in FIELDS {
            assert!(!never.allows_field(name) && allowed.allows_field(name));
        }
        assert!(never.allows_field("batch_id"));
    }
}
