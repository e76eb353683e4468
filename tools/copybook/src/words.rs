//! The words of a copybook, and the sentences that they make. Each sentence ends with a period and describes one item.

use crate::lines::{Line, lines};

/// Between these stands a literal, which may have spaces and periods.
const QUOTES: [char; 2] = ['\'', '"'];

/// A word or a literal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Word {
    /// The line on which the word begins, counted from 1.
    pub(crate) line: usize,
    /// The word as it is written; a literal with its quotes.
    pub(crate) text: String,
    /// Whether this is a literal whose closing quote is missing.
    pub(crate) is_open: bool,
}

impl Word {
    /// Returns the word in capital letters, as keywords are compared.
    pub(crate) fn upper(&self) -> String {
        self.text.to_ascii_uppercase()
    }

    /// Returns whether this is a literal in quotes. Some have a letter before the first quote, such as `X'0F'`.
    pub(crate) fn is_literal(&self) -> bool {
        self.text.contains(QUOTES)
    }
}

/// The words up to a period; there is at least one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sentence {
    pub(crate) words: Vec<Word>,
    /// Whether there is a period, rather than the end of the text.
    pub(crate) is_ended: bool,
}

/// Returns the sentences of a copybook.
pub(crate) fn sentences(text: &str) -> Vec<Sentence> {
    let mut splitter = Splitter::default();
    for line in lines(text) {
        splitter.read(&line);
    }
    splitter.end_line();
    splitter.end_sentence(false);
    splitter.sentences
}

#[derive(Default)]
struct Splitter {
    sentences: Vec<Sentence>,
    /// The words of the sentence that is being read.
    words: Vec<Word>,
    /// The word that is being read. At the end of a line it stays, because the next line may go on with it.
    word: Option<Word>,
    /// The quote that ends the literal that is being read.
    quote: Option<char>,
}

impl Splitter {
    fn read(&mut self, line: &Line) {
        let text = match line.continues {
            // A literal goes on behind a quote of its own.
            true => {
                let text = line.text.trim_start();
                self.quote
                    .and_then(|quote| text.strip_prefix(quote))
                    .unwrap_or(text)
            }
            false => {
                self.end_line();
                &line.text
            }
        };
        for (place, character) in text.char_indices() {
            let is_quote = QUOTES.contains(&character);
            match self.quote {
                // A doubled quote closes the literal and opens it again at once.
                Some(quote) => self.quote = Some(quote).filter(|quote| *quote != character),
                None if character.is_whitespace() => {
                    self.end_word();
                    continue;
                }
                None if self.word.is_none() && text[place..].starts_with("*>") => break,
                None => self.quote = Some(character).filter(|_| is_quote),
            }
            let word = self.word.get_or_insert_with(|| Word {
                line: line.number,
                text: String::new(),
                is_open: false,
            });
            word.text.push(character);
        }
    }

    fn end_line(&mut self) {
        if let (Some(word), Some(_)) = (&mut self.word, self.quote.take()) {
            word.is_open = true;
        }
        self.end_word();
    }

    fn end_word(&mut self) {
        let Some(mut word) = self.word.take() else {
            return;
        };
        let text = word.text.strip_suffix('.');
        let is_last = text.is_some();
        let text = text.unwrap_or(&word.text);
        // Commas and semicolons may stand between clauses, and mean nothing there.
        word.text = text.trim_end_matches([',', ';']).to_owned();
        if !word.text.is_empty() {
            self.words.push(word);
        }
        if is_last {
            self.end_sentence(true);
        }
    }

    fn end_sentence(&mut self, is_ended: bool) {
        let words = std::mem::take(&mut self.words);
        if !words.is_empty() {
            self.sentences.push(Sentence { words, is_ended });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the words of every sentence, with a bar after each.
    fn words(text: &str) -> Vec<String> {
        let texts = |sentence: &Sentence| {
            let words = sentence.words.iter();
            let texts: Vec<&str> = words.map(|word| word.text.as_str()).collect();
            texts.join("|")
        };
        sentences(text).iter().map(texts).collect()
    }

    #[test]
    fn a_period_before_white_space_ends_a_sentence() {
        assert_eq!(
            words("01 REC. 05 A PIC 9.9.\n05 B\nPIC X."),
            ["01|REC", "05|A|PIC|9.9", "05|B|PIC|X"]
        );
        assert_eq!(words(" . .. "), ["."]);
    }

    #[test]
    fn a_literal_is_one_word() {
        assert_eq!(
            words("88 A VALUE 'a. b' \"it's\" 'it''s *> ' X'0F'."),
            ["88|A|VALUE|'a. b'|\"it's\"|'it''s *> '|X'0F'"]
        );
    }

    #[test]
    fn commas_between_clauses_mean_nothing() {
        assert_eq!(
            words("05 A PIC X, VALUE 'a,' ; ."),
            ["05|A|PIC|X|VALUE|'a,'"]
        );
    }

    #[test]
    fn what_follows_a_star_and_a_greater_sign_is_a_comment() {
        assert_eq!(
            words("*> Customers.\n01 REC. *> It's one.\n05 A*>B"),
            ["01|REC", "05|A*>B"]
        );
    }

    #[test]
    fn a_word_goes_on_in_the_next_line() {
        let text = "       05  CUST\n      -    -ID PIC X\n      *    A comment\n      -    (5).";
        assert_eq!(words(text), ["05|CUST-ID|PIC|X(5)"]);
        let sentence = &sentences(text)[0];
        let lines: Vec<usize> = sentence.words.iter().map(|word| word.line).collect();
        assert_eq!(lines, [1, 1, 2, 2]);
    }

    #[test]
    fn a_literal_goes_on_in_the_next_line() {
        let text = "       05  A PIC X(9) VALUE 'a.\n      -    'b. c'.\n       05  B PIC X.";
        assert_eq!(words(text), ["05|A|PIC|X(9)|VALUE|'a.b. c'", "05|B|PIC|X"]);
        assert!(!sentences(text)[0].words[5].is_open);
    }

    #[test]
    fn a_literal_without_its_quote_ends_with_the_line() {
        let sentences = sentences("05 A VALUE 'a.\n05 B");
        let word = sentences[0].words.last().unwrap();
        assert_eq!((word.text.as_str(), word.is_open), ("'a", true));
        assert_eq!(sentences[1].words.len(), 2);
        assert!(sentences[0].is_ended && !sentences[1].is_ended);
    }
}
