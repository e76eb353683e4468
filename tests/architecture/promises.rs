//! The table of promises in ARCHITECTURE.md.

use std::collections::BTreeSet;
use std::fs;

use tests::{files_below, root};

use crate::files::read;

/// Returns the names in `text` that begin as a check of a promise does: `p7_everything_drains`.
fn checks(text: &str) -> BTreeSet<String> {
    let words = text.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
    let is_check = |word: &&str| {
        let number = word.strip_prefix('p').and_then(|rest| rest.split_once('_'));
        number.is_some_and(|(number, _)| number.parse::<u8>().is_ok())
    };
    words.filter(is_check).map(str::to_owned).collect()
}

#[test]
fn the_table_names_every_check_of_a_promise_and_no_other() {
    let mut code = read("tests/sim/src/checks.rs");
    for path in files_below(&root().join("tests/sim/src/checks"), ".rs") {
        code += &fs::read_to_string(path).expect("a source file");
    }
    let functions = code.lines().filter(|line| line.starts_with("pub fn "));
    let functions: String = functions.collect();
    let (named, there) = (checks(&read("ARCHITECTURE.md")), checks(&functions));
    assert!(!there.is_empty());
    let unknown: Vec<_> = named.difference(&there).collect();
    let unnamed: Vec<_> = there.difference(&named).collect();
    assert!(
        unknown.is_empty() && unnamed.is_empty(),
        "ARCHITECTURE.md: got the checks {unknown:?}, which are not there, and not {unnamed:?}"
    );
}

#[test]
fn every_source_file_that_the_map_names_is_there() {
    let text = read("ARCHITECTURE.md");
    let quoted = text.split('`').skip(1).step_by(2);
    let files = quoted.filter(|word| word.contains('/') && word.ends_with(".rs"));
    let (found, missing): (Vec<_>, Vec<_>) = files.partition(|path| root().join(path).is_file());
    assert!(!found.is_empty());
    assert!(missing.is_empty(), "expected files: got {missing:?}");
}
