//! Turns a COBOL copybook into the columns of a record of fixed length.
//!
//! A copybook says which items a record has, one after the other, and how each is written. [`parse`] reads one record and returns
//! a [`Column`] for every item that holds a value. Whatever would move an item, or write it in a way that a column cannot, is
//! refused rather than guessed: a column in the wrong place spoils every one after it.
//!
//! The text becomes lines (`lines`), then sentences of words (`words`); each sentence is an item with its clauses (`item`,
//! `clause`, `picture`, `value`); the items become a tree (`tree`), whose leaves have a size (`field`); and the tree becomes
//! columns (`columns`).

#![warn(missing_docs)]

mod clause;
mod columns;
mod error;
mod field;
mod item;
mod limits;
mod lines;
mod names;
mod picture;
mod tree;
mod value;
mod words;

#[cfg(test)]
mod refused_tests;
#[cfg(test)]
mod tests;

pub use columns::{Column, Record};
pub use error::{CopybookError, Problem};

/// Returns the record that a copybook describes: one item of level 01 and all below it.
///
/// The text is in fixed format if all of its lines can be, and otherwise in free format.
pub fn parse(text: &str) -> Result<Record, CopybookError> {
    let mut problems = Vec::new();
    let sentences = words::sentences(text);
    let items = sentences
        .iter()
        .filter_map(|sentence| item::read(sentence, &mut problems))
        .collect();
    let record =
        tree::grow(items, &mut problems).and_then(|record| columns::record(&record, &mut problems));
    match record {
        Some(record) if problems.is_empty() => Ok(record),
        _ => Err(CopybookError::new(problems)),
    }
}
