//! The lines of a copybook, in fixed or in free format, without what stands beside the text.

/// Columns 1 to 6 of the fixed format, which hold a number or a mark and nothing of the text.
const SEQUENCE_LENGTH: usize = 6;

/// The last column of the text in the fixed format. What stands behind it is for people.
const TEXT_END: usize = 72;

/// The columns from one tab stop to the next.
const TAB_LENGTH: usize = 8;

/// The text of one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Line {
    /// The number of the line, counted from 1.
    pub(crate) number: usize,
    /// The text, without white space at the end.
    pub(crate) text: String,
    /// Whether the text goes on with the last word of the line before.
    pub(crate) continues: bool,
}

/// Returns the lines that have text. In fixed format, comments and debugging lines are left out; comments that begin with `*>`
/// stay, because only the quotes of a line tell them from literals.
pub(crate) fn lines(text: &str) -> Vec<Line> {
    // A byte order mark before the text and the end mark of DOS behind it are no part of it.
    let text = text.trim_start_matches('\u{feff}');
    let text = text.trim_end_matches(|last: char| last == '\u{1a}' || last.is_whitespace());
    let numbered = text.lines().map(with_spaces).enumerate();
    let written: Vec<(usize, String)> = numbered
        .map(|(index, text)| (index + 1, text))
        .filter(|(_, text)| !text.is_empty())
        .collect();
    match is_fixed(&written) {
        true => written.into_iter().filter_map(fixed).collect(),
        false => written
            .into_iter()
            .map(|(number, text)| Line {
                number,
                text,
                continues: false,
            })
            .collect(),
    }
}

/// Returns a line with spaces in place of tabs, and without white space at the end.
fn with_spaces(line: &str) -> String {
    let mut spaced = String::with_capacity(line.len());
    let mut column = 0;
    for character in line.trim_end().chars() {
        let length = match character {
            '\t' => TAB_LENGTH - column % TAB_LENGTH,
            _ => 1,
        };
        match character {
            '\t' => spaced.extend(std::iter::repeat_n(' ', length)),
            other => spaced.push(other),
        }
        column += length;
    }
    spaced
}

fn is_fixed(lines: &[(usize, String)]) -> bool {
    let has_text = |line: &str| indicator(line) == ' ' && line.chars().count() > SEQUENCE_LENGTH;
    lines.iter().all(|(_, line)| can_be_fixed(line)) && lines.iter().any(|(_, line)| has_text(line))
}

/// Returns whether columns 1 to 7 are as in the fixed format. A sequence of fewer than six characters does not count as one: it
/// may be a level number of the free format.
fn can_be_fixed(line: &str) -> bool {
    let is_blank = line.chars().take(SEQUENCE_LENGTH).all(|one| one == ' ');
    let marks = line.chars().take(SEQUENCE_LENGTH);
    let is_sequence = marks.filter(char::is_ascii_alphanumeric).count() == SEQUENCE_LENGTH;
    let is_indicated = matches!(indicator(line), ' ' | '*' | '/' | '-' | 'D' | 'd');
    (is_blank || is_sequence) && is_indicated
}

fn indicator(line: &str) -> char {
    line.chars().nth(SEQUENCE_LENGTH).unwrap_or(' ')
}

fn fixed((number, line): (usize, String)) -> Option<Line> {
    let continues = match indicator(&line) {
        ' ' => false,
        '-' => true,
        _ => return None,
    };
    let characters = line.chars().take(TEXT_END).skip(SEQUENCE_LENGTH + 1);
    let text: String = characters.collect();
    let text = text.trim_end();
    (!text.is_empty()).then(|| Line {
        number,
        text: text.to_owned(),
        continues,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(text: &str) -> Vec<(usize, String)> {
        let lines = lines(text).into_iter();
        lines
            .map(|line| (line.number, line.text.trim_start().to_owned()))
            .collect()
    }

    fn expected(lines: &[(usize, &str)]) -> Vec<(usize, String)> {
        let lines = lines.iter();
        lines
            .map(|(number, text)| (*number, (*text).to_owned()))
            .collect()
    }

    #[test]
    fn the_fixed_format_has_numbers_before_and_words_behind() {
        let behind = format!("{:<72}CHANGED", "000100 01  REC.");
        let text = format!("{behind}\r\nAB0200     05  A PIC X.\r\n");
        assert_eq!(
            texts(&text),
            expected(&[(1, "01  REC."), (2, "05  A PIC X.")])
        );
    }

    #[test]
    fn comments_debugging_lines_and_lines_without_text_are_left_out() {
        let text = "      * A comment\n       01  REC.\n      *\n000200\n\n      /\n      D    05 B PIC X.\n      d    05 C PIC X.";
        assert_eq!(texts(text), expected(&[(2, "01  REC.")]));
    }

    #[test]
    fn a_line_with_a_hyphen_in_column_7_continues() {
        let lines = lines("       01  RE\n      -    C.");
        let continues: Vec<bool> = lines.iter().map(|line| line.continues).collect();
        assert_eq!(continues, [false, true]);
    }

    #[test]
    fn one_line_that_cannot_be_fixed_makes_the_text_free() {
        // The level number of the second line would be lost in the fixed format.
        let text = "       01  REC.\n    05 A PIC X.";
        assert_eq!(
            texts(text),
            expected(&[(1, "01  REC."), (2, "05 A PIC X.")])
        );
        let long = format!("01 REC.{:>80}", "05 A PIC X.");
        assert_eq!(lines(&long)[0].text, long, "no column is the last");
        // A file without text in column 8 or later is not fixed, so that the words are refused rather than lost.
        assert_eq!(texts("BINARY"), expected(&[(1, "BINARY")]));
    }

    #[test]
    fn a_tab_goes_to_the_next_multiple_of_eight() {
        assert_eq!(with_spaces("\tA\tB"), "        A       B");
        assert_eq!(with_spaces("12345678\tA\t"), "12345678        A");
        assert_eq!(texts("\t01  REC."), expected(&[(1, "01  REC.")]));
    }

    #[test]
    fn marks_of_files_are_no_text() {
        assert_eq!(
            texts("\u{feff}01 REC.\r\n\u{1a}"),
            expected(&[(1, "01 REC.")])
        );
        assert_eq!(texts("\u{feff}\n\u{1a}"), []);
    }
}
