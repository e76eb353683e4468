//! Tables of aligned columns.

use unicode_width::UnicodeWidthStr;

/// Space between two columns.
const GAP: &str = "  ";

/// A table with a head.
#[derive(Clone, Debug)]
pub struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    /// Returns a table with these columns and no rows.
    pub fn new(columns: &[&str]) -> Table {
        let head = columns.iter().map(|name| (*name).to_owned());
        Table {
            rows: vec![head.collect()],
        }
    }

    /// Adds a row with a text for each column.
    pub fn row(&mut self, cells: Vec<String>) {
        debug_assert_eq!(cells.len(), self.rows[0].len(), "{cells:?}");
        // A line break in an error text would tear the table.
        let cells = cells.into_iter().map(|cell| cell.replace('\n', " "));
        self.rows.push(cells.collect());
    }
}

/// Writes the columns as wide as their widest cell.
impl std::fmt::Display for Table {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let columns = 0..self.rows[0].len();
        let widths: Vec<usize> = columns
            .map(|column| {
                let cells = self.rows.iter().map(|row| row[column].width());
                cells.max().unwrap_or_default()
            })
            .collect();
        for row in &self.rows {
            let mut line = String::new();
            for (cell, width) in row.iter().zip(&widths) {
                line += cell;
                line += &" ".repeat(width.saturating_sub(cell.width()));
                line += GAP;
            }
            writeln!(f, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

/// Returns a text of at most `chars_max` characters; a longer one ends with `…`.
pub fn cut(text: &str, chars_max: usize) -> String {
    if text.chars().count() <= chars_max {
        return text.to_owned();
    }
    let kept = text.chars().take(chars_max.saturating_sub(1));
    kept.chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let mut table = Table::new(&["id", "error", "n"]);
        table.row(vec![
            "a".to_owned(),
            "two\nlines".to_owned(),
            "1".to_owned(),
        ]);
        table.row(vec!["bcd".to_owned(), "漢字".to_owned(), String::new()]);
        let text = "id   error      n\na    two lines  1\nbcd  漢字\n";
        assert_eq!(table.to_string(), text);
    }

    #[test]
    fn a_long_text_is_cut() {
        assert_eq!(cut("abc", 3), "abc");
        assert_eq!(cut("abcd", 3), "ab…");
    }
}
