//! Checks that ARCHITECTURE.md names every folder of the repository, and that no file is long.

use std::collections::BTreeSet;
use std::fs;

use tests::{BUILT, files_below, root};

use crate::files::read;

/// The most lines of a Rust file.
const LINES_MAX: usize = 500;

/// Returns the folders in a folder, by its path from the root.
fn folders(path: &str) -> BTreeSet<String> {
    let entries = fs::read_dir(root().join(path)).expect("a folder can be read");
    let folders = entries.filter_map(|entry| {
        let entry = entry.expect("an entry can be read");
        let name = entry.file_name().to_string_lossy().into_owned();
        let is_ours = !name.starts_with('.') && !BUILT.contains(&name.as_str());
        (is_ours && entry.path().is_dir()).then_some(name)
    });
    folders.collect()
}

#[test]
fn the_map_has_every_folder() {
    let text = read("ARCHITECTURE.md");
    let (_, map) = text.split_once("\n## Folders\n").expect("the map");
    let rows = map.lines().filter_map(|line| line.strip_prefix("| [`"));
    let named = rows.filter_map(|row| row.split_once('`'));
    let named: BTreeSet<String> = named.map(|(name, _)| name.to_owned()).collect();
    assert_eq!(folders(""), named);
    for tool in folders("tools") {
        let link = format!("[`{tool}`](tools/{tool})");
        assert!(map.contains(&link), "ARCHITECTURE.md: {link}");
    }
}

#[test]
fn no_file_is_long() {
    let files = files_below(&root(), ".rs");
    assert!(files.len() > 100, "{files:?}");
    let mut long = Vec::new();
    for path in files {
        let text = fs::read_to_string(&path).expect("a file can be read");
        let lines = text.lines().count();
        if lines > LINES_MAX {
            long.push((path, lines));
        }
    }
    assert!(
        long.is_empty(),
        "expected at most {LINES_MAX} lines: got {long:?}"
    );
}
