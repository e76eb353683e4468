//! One item of a copybook: its level, its name and its clauses.

use crate::clause::Clause;
use crate::error::Problem;
use crate::field::{Sign, Usage};
use crate::limits::{COLUMNS_MAX, NAME_CHARACTERS_MAX};
use crate::names::{NAMELESS, is_name};
use crate::picture::{Picture, whole};
use crate::value::{is_filling, is_value, stranger};
use crate::words::{Sentence, Word};

/// Something that a clause says, and the word that says it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Said<T> {
    pub(crate) line: usize,
    pub(crate) text: String,
    pub(crate) value: T,
}

/// An item as its sentence describes it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Item {
    pub(crate) line: usize,
    pub(crate) level: usize,
    /// The level as it is written.
    pub(crate) level_text: String,
    /// The name as it is written; `None` for `FILLER`.
    pub(crate) name: Option<String>,
    pub(crate) picture: Option<Said<Picture>>,
    pub(crate) usage: Option<Said<Usage>>,
    pub(crate) sign: Option<Said<Sign>>,
    pub(crate) occurs: Option<Said<usize>>,
    pub(crate) justified: Option<Said<()>>,
    /// Whether something about the item is refused, so that what it lacks may be the consequence.
    pub(crate) is_refused: bool,
    /// Whether the item has no bytes of its own, so that they must not count.
    pub(crate) is_elsewhere: bool,
}

impl Item {
    /// Returns the name as it is written.
    pub(crate) fn name(&self) -> &str {
        self.name.as_deref().unwrap_or(NAMELESS)
    }
}

/// Returns the item that a sentence describes; `None` if it describes none.
pub(crate) fn read(sentence: &Sentence, problems: &mut Vec<Problem>) -> Option<Item> {
    let (first, rest) = sentence.words.split_first()?;
    let mut reader = Reader {
        rest,
        item: Item {
            line: first.line,
            level_text: first.text.clone(),
            ..Item::default()
        },
        problems,
    };
    let is_item = reader.read(first);
    for word in sentence.words.iter().filter(|word| word.is_open) {
        reader.refuse(word, "no closing quote, expected one on the same line");
    }
    if let (false, Some(last)) = (sentence.is_ended, sentence.words.last()) {
        reader.refuse(last, "no period behind it, expected one behind every item");
    }
    is_item.then_some(reader.item)
}

struct Reader<'s, 'p> {
    /// The words that are not yet read.
    rest: &'s [Word],
    item: Item,
    problems: &'p mut Vec<Problem>,
}

impl<'s> Reader<'s, '_> {
    /// Reads the sentence that begins with a word, and returns whether it is an item of a record.
    fn read(&mut self, first: &Word) -> bool {
        let level = whole(&first.text);
        self.item.level = level.unwrap_or_default();
        match level {
            None => {
                self.problems.push(Problem {
                    line: first.line,
                    item: None,
                    value: Some(first.text.clone()),
                    reason: match Clause::of(&first.upper()) {
                        Some(Clause::Refused(expected)) => format!("not supported, {expected}"),
                        _ => "unknown, expected a level from 01 to 49 or 88".to_owned(),
                    },
                });
                false
            }
            Some(1..=49) => {
                self.read_name();
                self.read_clauses();
                true
            }
            Some(88) => {
                self.read_name();
                self.check_condition(first);
                false
            }
            Some(_) => {
                self.read_name();
                self.refuse(first, "not supported, expected a level from 01 to 49 or 88");
                false
            }
        }
    }

    fn read_name(&mut self) {
        let Some(word) = self.rest.first() else {
            return;
        };
        let upper = word.upper();
        if Clause::of(&upper).is_some() {
            return;
        }
        self.next();
        if upper == NAMELESS {
            return;
        }
        // Every problem of the item has the name, so a long word would be kept many times.
        let name = word.text.chars().take(NAME_CHARACTERS_MAX).collect();
        self.item.name = Some(name);
        if !is_name(&word.text) {
            self.refuse(
                word,
                format!(
                    "not a name, expected at most {NAME_CHARACTERS_MAX} letters, digits and hyphens"
                ),
            );
        }
    }

    /// Checks a condition (level 88), which has no bytes.
    fn check_condition(&mut self, level: &Word) {
        let Some(word) = self.next() else {
            return self.refuse(level, "no values, expected `VALUE`");
        };
        if Clause::of(&word.upper()) != Some(Clause::Value) {
            return self.refuse_unknown(word);
        }
        self.skip(&["IS", "ARE"]);
        if let Some(word) = stranger(self.rest) {
            self.refuse_unknown(word);
        }
    }

    fn read_clauses(&mut self) {
        while let Some(word) = self.next() {
            match Clause::of(&word.upper()) {
                Some(Clause::Picture) => self.read_picture(word),
                Some(Clause::Usage) => {
                    self.skip(&["IS"]);
                    let is_next =
                        |clause| matches!(clause, Clause::UsageIs(_) | Clause::Refused(_));
                    self.check_next(word, is_next, "expected a usage such as `COMP-3`");
                }
                Some(Clause::UsageIs(usage)) => {
                    let said = said(word, usage);
                    let before = self.item.usage.replace(said);
                    self.check_first(word, before.is_none());
                }
                Some(Clause::Sign) => {
                    self.skip(&["IS"]);
                    let is_next = |clause| matches!(clause, Clause::SignIs(_));
                    self.check_next(word, is_next, "expected `LEADING` or `TRAILING`");
                }
                Some(Clause::SignIs(side)) => self.read_sign(word, side),
                Some(Clause::Occurs) => self.read_occurs(word),
                Some(Clause::Keys) => self.skip_names(),
                Some(Clause::Value) => self.check_value(word),
                Some(Clause::Justified) => {
                    self.skip(&["RIGHT"]);
                    let before = self.item.justified.replace(said(word, ()));
                    self.check_first(word, before.is_none());
                }
                Some(Clause::Refused(expected)) => {
                    self.item.is_elsewhere |= word.upper() == "REDEFINES";
                    self.refuse(word, format!("not supported, {expected}"));
                    self.skip_to_clause();
                }
                None => {
                    self.refuse_unknown(word);
                    self.skip_to_clause();
                }
            }
        }
    }

    fn read_picture(&mut self, clause: &Word) {
        self.skip(&["IS"]);
        let Some(word) = self.next() else {
            return self.refuse(clause, "no picture, expected one such as `X(5)`");
        };
        match Picture::read(&word.text) {
            Ok(picture) => {
                let before = self.item.picture.replace(said(word, picture));
                self.check_first(clause, before.is_none());
            }
            Err(reason) => self.refuse(word, reason),
        }
    }

    fn read_sign(&mut self, word: &Word, side: Sign) {
        let sign = match self.skip(&["SEPARATE"]) {
            true => {
                self.skip(&["CHARACTER"]);
                side.separate()
            }
            false => side,
        };
        let before = self.item.sign.replace(said(word, sign));
        self.check_first(word, before.is_none());
    }

    fn read_occurs(&mut self, clause: &Word) {
        let Some(word) = self.next() else {
            return self.refuse(
                clause,
                format!("no number, expected one from 1 to {COLUMNS_MAX}"),
            );
        };
        if self.rest.first().is_some_and(|next| next.upper() == "TO") {
            self.refuse(
                clause,
                "`TO` is not supported, expected `OCCURS` with one number",
            );
            self.skip_to_clause();
            // One problem is enough for both halves of the clause.
            if self.skip(&["DEPENDING"]) {
                self.skip_to_clause();
            }
            return;
        }
        self.skip(&["TIMES"]);
        match whole(&word.text).filter(|count| (1..=COLUMNS_MAX).contains(count)) {
            Some(_) if self.item.level == 1 => self.refuse(
                clause,
                "not supported for a record, expected it below level 01",
            ),
            Some(count) => {
                let before = self.item.occurs.replace(said(clause, count));
                self.check_first(clause, before.is_none());
            }
            None => self.refuse(
                word,
                format!("not a number of times, expected one from 1 to {COLUMNS_MAX}"),
            ),
        }
    }

    fn check_value(&mut self, clause: &Word) {
        self.skip(&["IS", "ARE"]);
        self.skip(&["ALL"]);
        match self.next() {
            Some(word) if is_value(word) => {
                // Other values of named items are those of a program that begins.
                if self.item.name.is_none() && !is_filling(word) {
                    self.refuse(
                        word,
                        "not supported, expected spaces or zeros in a `FILLER`, or a name",
                    );
                }
            }
            Some(word) => {
                self.refuse(word, "not a value, expected a literal or a number");
                self.skip_to_clause();
            }
            None => self.refuse(clause, "no value, expected a literal or a number"),
        }
    }

    /// Checks that a clause follows to which a word belongs.
    fn check_next(&mut self, word: &Word, is_next: impl Fn(Clause) -> bool, expected: &str) {
        match self.rest.first() {
            Some(next) if Clause::of(&next.upper()).is_some_and(is_next) => {}
            Some(next) => {
                self.refuse(next, format!("unknown, {expected}"));
                self.skip_to_clause();
            }
            None => self.refuse(word, format!("incomplete, {expected}")),
        }
    }

    fn check_first(&mut self, clause: &Word, is_first: bool) {
        if !is_first {
            self.refuse(clause, "given again, expected it once");
        }
    }

    fn next(&mut self) -> Option<&'s Word> {
        let (first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(first)
    }

    /// Passes over the next word if it is one of these, and returns whether it was.
    fn skip(&mut self, words: &[&str]) -> bool {
        let next = self.rest.first().map(Word::upper);
        let is_next = next.is_some_and(|next| words.contains(&next.as_str()));
        if is_next {
            self.next();
        }
        is_next
    }

    /// Passes over what belongs to a clause that is refused.
    fn skip_to_clause(&mut self) {
        let is_clause = |word: &Word| Clause::of(&word.upper()).is_some();
        let next = self.rest.iter().position(is_clause);
        self.rest = &self.rest[next.unwrap_or(self.rest.len())..];
    }

    /// Passes over names and the words before them. A level is not a name: where it stands, a period is missing.
    fn skip_names(&mut self) {
        let is_other = |word: &Word| !is_name(&word.text) || Clause::of(&word.upper()).is_some();
        let next = self.rest.iter().position(is_other);
        self.rest = &self.rest[next.unwrap_or(self.rest.len())..];
    }

    fn refuse_unknown(&mut self, word: &Word) {
        self.refuse(
            word,
            "unknown, expected a clause such as `PIC`, or a period before it",
        );
    }

    fn refuse(&mut self, word: &Word, reason: impl Into<String>) {
        self.item.is_refused = true;
        let problem = Problem::of_item(word.line, self.item.name(), &word.text, reason);
        self.problems.push(problem);
    }
}

fn said<T>(word: &Word, value: T) -> Said<T> {
    Said {
        line: word.line,
        text: word.text.clone(),
        value,
    }
}
