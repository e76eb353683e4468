//! Tickets that the batch processor gave back, counted by the reasons that its log names.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;
use serde_json::Value;

/// What the line of a ticket that is given back says.
pub(crate) const GIVEN_BACK: &str = "ticket given back";
/// The fields that name the reason.
const REASON_FIELDS: [&str; 2] = ["reason", "error"];
/// Reasons that are told apart; what comes beyond them is counted together.
const REASONS_MAX: usize = 20;
/// Longest text of a reason, in letters.
const REASON_LETTERS_MAX: usize = 120;
/// Where a reason names none, or too many others have come before.
const OTHER: &str = "other";

/// Tickets that were given back.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct GivenBack {
    /// How many.
    pub count: u64,
    /// By reason, without the ids, numbers and quotes that are in it.
    pub by_reason: BTreeMap<String, u64>,
}

impl GivenBack {
    /// Takes in a line of a log.
    pub(crate) fn heard(&mut self, line: &str) {
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
    let text = match serde_json::from_str::<Value>(line) {
        Ok(line) => {
            let field = |name| line["fields"][name].as_str().map(str::to_owned);
            REASON_FIELDS.into_iter().find_map(field)?
        }
        Err(_) => {
            let field = |name| line.split_once(&format!(" {name}=")).map(|(_, text)| text);
            REASON_FIELDS.into_iter().find_map(field)?.to_owned()
        }
    };
    let general = generalised(&text);
    (!general.is_empty()).then_some(general)
}

/// The same without what differs from ticket to ticket: quoted texts, and words with digits.
fn generalised(text: &str) -> String {
    let outside_quotes = text.split('`').step_by(2);
    let words = outside_quotes.collect::<Vec<_>>().join("…");
    let words = words.split_whitespace().map(|word| {
        let differs = word.contains(|letter: char| letter.is_ascii_digit());
        let end = word.trim_end_matches([':', ',', ';']).len();
        if differs {
            format!("…{}", &word[end..])
        } else {
            word.to_owned()
        }
    });
    let words = words.collect::<Vec<_>>().join(" ");
    words.chars().take(REASON_LETTERS_MAX).collect()
}

/// Lines for people, each ended; none if there is nothing to say.
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
                " WARN ticket given back sqs_message_id=\"a\" reason=batch {BATCH} is leased until 17"
            ),
            " WARN ticket given back sqs_message_id=\"b\" reason=batch 0190163e is leased until 9"
                .to_owned(),
            format!(
                " WARN ticket given back sqs_message_id=\"c\" reason=`12` delivered claims of batch {BATCH} are not released"
            ),
            "ERROR ticket given back sqs_message_id=\"d\" error=no JSON".to_owned(),
            format!(
                r#"{{"level":"WARN","fields":{{"message":"ticket given back","reason":"batch {BATCH}: `/out`: Not a directory (os error 20)"}}}}"#
            ),
            " INFO ticket done outcome=Complete reason=none".to_owned(),
            " WARN ticket given back".to_owned(),
        ] {
            tickets.heard(&line);
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
        assert!(
            tickets
                .to_string()
                .starts_with("tickets     6 given back\n       2  batch")
        );
    }

    #[test]
    fn reasons_without_end_are_counted_together() {
        let mut tickets = GivenBack::default();
        for letter in 'a'..='z' {
            tickets.heard(&format!("ticket given back reason={letter}"));
        }
        assert_eq!(tickets.by_reason.len(), REASONS_MAX + 1);
        assert_eq!(tickets.by_reason[OTHER], 26 - REASONS_MAX as u64);
    }
}
