//! The files of the repository, and documents that are generated from the code.

use std::{env, fs};

use tests::root;

/// Returns the text of a file, by its path from the root.
pub fn read(path: &str) -> String {
    let text = fs::read_to_string(root().join(path));
    text.unwrap_or_else(|error| panic!("read {path}: {error}"))
}

/// Checks that a document is what the code generates. If the variable is set (by `cargo xtask <task>`), writes the document
/// instead.
pub fn assert_generated(document: &str, generated: &str, variable: &str, task: &str) {
    let path = root().join(document);
    if env::var_os(variable).is_some() {
        fs::write(&path, generated).expect("the document can be written");
        return;
    }
    let there = fs::read_to_string(&path).unwrap_or_default();
    let differs = generated
        .lines()
        .zip(there.lines().chain(std::iter::repeat("")))
        .find(|(wanted, found)| wanted != found);
    assert!(
        generated == there,
        "{document}: not what the code generates: got {:?}, expected {:?}; run `cargo xtask {task}`, and commit the file",
        differs.map_or("more lines", |(_, found)| found),
        differs.map_or("none", |(wanted, _)| wanted),
    );
}
