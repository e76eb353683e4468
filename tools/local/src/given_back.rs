//! Counts the tickets that the batch-processor gave back, by the reasons in its log.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;
use serde_json::Value;

/// The message that the batch-processor logs when it gives a ticket back.
pub(crate) const GIVEN_BACK: &str = "ticket will be retried";
/// The fields of the log line that may have the reason, in the order in which they are looked for.
const REASON_FIELDS: [&str; 2] = ["reason", "error"];
/// Maximum number of reasons that are counted separately. All further ones are counted as [`OTHER`].
const REASONS_MAX: usize = 20;
/// Maximum length of a reason, in characters.
const REASON_CHARS_MAX: usize = 120;
/// Counts log lines without a reason, and those beyond [`REASONS_MAX`] reasons.
const OTHER: &str = "other";

/// Tickets that were given back.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct GivenBack {
    pub count: u64,
    /// Counts by reason. Ids, numbers and quoted texts in a reason are replaced by `…`.
    pub by_reason: BTreeMap<String, u64>,
}

impl GivenBack {
    /// Counts a log line, if it says that a ticket was given back.
    pub(crate) fn read_log_line(&mut self, line: &str) {
        if !line.contains(GIVEN_BACK) {
            return;
        }
        self.count += 1;
        let reason = reason(line).unwrap_or_else(|| OTHER.to_owned());
        let known = self.by_reason.contains_key(&reason) || self.by_reason.len() < REASONS_MAX;
        let reason = if known { reason } else { OTHER.to_owned() };
        *self.by_reason.entry(reason).or_default() += 1;
    }
}

fn reason(line: &str) -> Option<String> {
    let json = serde_json::from_str::<Value>(line).ok();
    let field = |name: &str| match &json {
        Some(json) => json[name].as_str().map(str::to_owned),
        None => text_field(line, name),
    };
    let general = generalised(&REASON_FIELDS.into_iter().find_map(field)?);
    (!general.is_empty()).then_some(general)
}

/// Returns the value of a field in a line of text: a word, or a text in quotes.
fn text_field(line: &str, name: &str) -> Option<String> {
    let (_, value) = line.split_once(&format!(" {name}="))?;
    let Some(quoted) = value.strip_prefix('"') else {
        return value.split_whitespace().next().map(str::to_owned);
    };
    let mut text = String::new();
    let mut letters = quoted.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '"' => break,
            '\\' => text.extend(letters.next()),
            letter => text.push(letter),
        }
    }
    Some(text)
}

/// Returns a reason with `…` in place of everything that differs between tickets: quoted texts, and words with digits.
fn generalised(text: &str) -> String {
    let outside_quotes = text.split('`').step_by(2);
    let words = outside_quotes.collect::<Vec<_>>().join("…");
    let words = words.split_whitespace().map(|word| {
        let has_digits = word.contains(|letter: char| letter.is_ascii_digit());
        let end = word.trim_end_matches([':', ',', ';']).len();
        if has_digits {
            format!("…{}", &word[end..])
        } else {
            word.to_owned()
        }
    });
    let words = words.collect::<Vec<_>>().join(" ");
    words.chars().take(REASON_CHARS_MAX).collect()
}

/// Lines for people, each with its line break; none if no ticket was given back.
impl fmt::Display for GivenBack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.count == 0 {
            return Ok(());
        }
        writeln!(f, "tickets     {} given back", self.count)?;
        let mut reasons: Vec<_> = self.by_reason.iter().collect();
        reasons.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
        for (reason, count) in reasons {
            writeln!(f, "  {count:>6}  {reason}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BATCH: &str = "0190163d-8694-739b-aea5-966c26f8ad91";

    #[test]
    fn tickets_are_counted_by_reason_whatever_the_batch() {
        let mut tickets = GivenBack::default();
        for line in [
            format!(
                " WARN ticket will be retried sqs_message_id=a reason=\"batch {BATCH} is leased until 17\" batch_id={BATCH}"
            ),
            " WARN ticket will be retried sqs_message_id=b reason=\"batch 0190163e is leased until 9\""
                .to_owned(),
            format!(
                " WARN ticket will be retried sqs_message_id=c reason=\"`12` delivered claims of batch {BATCH} are not released\" requestId=r"
            ),
            "ERROR ticket will be retried sqs_message_id=d error=\"no JSON\"".to_owned(),
            format!(
                r#"{{"level":"WARN","message":"ticket will be retried","reason":"batch {BATCH}: `/out`: Not a directory (os error 20)"}}"#
            ),
            " INFO ticket done outcome=complete reason=none".to_owned(),
            " WARN ticket will be retried".to_owned(),
        ] {
            tickets.read_log_line(&line);
        }
        let by_reason = [
            ("batch … is leased until …", 2),
            ("… delivered claims of batch … are not released", 1),
            ("no JSON", 1),
            ("batch …: …: Not a directory (os error …", 1),
            (OTHER, 1),
        ];
        assert_eq!(tickets.count, 6);
        let expected = by_reason.map(|(reason, count)| (reason.to_owned(), count));
        assert_eq!(tickets.by_reason, expected.into());
        let text = "tickets     6 given back\n       2  batch";
        assert!(tickets.to_string().starts_with(text));
    }

    #[test]
    fn reasons_without_end_are_counted_together() {
        let mut tickets = GivenBack::default();
        for letter in 'a'..='z' {
            tickets.read_log_line(&format!("ticket will be retried reason={letter}"));
        }
        assert_eq!(tickets.by_reason.len(), REASONS_MAX + 1);
        assert_eq!(tickets.by_reason[OTHER], 26 - REASONS_MAX as u64);
    }
}
