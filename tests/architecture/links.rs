//! Checks that every link between documents of the repository leads to an existing file and heading.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Folders without documents of this repository.
const NOT_OURS: [&str; 4] = ["target", "node_modules", ".tools", ".local"];

/// Returns every Markdown file below a directory.
fn documents(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).expect("a directory can be read");
    let mut found = Vec::new();
    for entry in entries {
        let path = entry.expect("an entry can be read").path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if path.is_dir() && !NOT_OURS.contains(&&*name) && name != ".git" {
            found.extend(documents(&path));
        } else if name.ends_with(".md") {
            found.push(path);
        }
    }
    found
}

/// Returns the text without its code blocks, whose brackets are not links.
fn without_code(text: &str) -> String {
    let blocks = text.split("```").step_by(2);
    blocks.collect::<Vec<_>>().join("\n")
}

/// Returns the anchors that GitHub gives the headings of a document.
fn anchors(text: &str) -> BTreeSet<String> {
    let headings = text.lines().filter(|line| line.starts_with('#'));
    headings
        .map(|line| {
            let heading = line.trim_start_matches('#').trim().to_lowercase();
            let kept = heading
                .chars()
                .filter(|c| c.is_alphanumeric() || " -_".contains(*c));
            kept.collect::<String>().replace(' ', "-")
        })
        .collect()
}

/// Returns the targets of the links of a document.
fn links(text: &str) -> Vec<String> {
    let targets = text.split("](").skip(1);
    targets
        .filter_map(|rest| rest.split_once(')'))
        .map(|(target, _)| target.to_owned())
        .filter(|target| !target.starts_with("https://"))
        .collect()
}

#[test]
fn every_link_between_documents_leads_to_a_file_and_a_heading() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let documents = documents(&root);
    assert!(documents.len() > 10, "{documents:?}");
    let mut broken = Vec::new();
    for document in documents {
        let text = fs::read_to_string(&document).expect("a document can be read");
        let text = without_code(&text);
        for link in links(&text) {
            let (path, anchor) = link.split_once('#').unwrap_or((&link, ""));
            let target = match path {
                "" => document.clone(),
                path => document.with_file_name(path),
            };
            let is_there = target.exists()
                && (anchor.is_empty()
                    || fs::read_to_string(&target)
                        .is_ok_and(|text| anchors(&without_code(&text)).contains(anchor)));
            if !is_there {
                broken.push(format!("{}: `{link}`", document.display()));
            }
        }
    }
    assert!(broken.is_empty(), "{broken:#?}");
}
