//! Checks that every link between documents of the repository leads to an existing file and heading.

use std::collections::BTreeSet;
use std::fs;

use tests::{files_below, root};

/// Returns the text without its code blocks, whose brackets are not links.
fn without_code(text: &str) -> String {
    let blocks = text.split("```").step_by(2);
    blocks.collect::<Vec<_>>().join("\n")
}

/// Returns the anchors that GitHub gives the headings of a document.
fn anchors(text: &str) -> BTreeSet<String> {
    let headings = text.lines().filter(|line| line.starts_with('#'));
    let anchor = |line: &str| {
        let heading = line.trim_start_matches('#').trim().to_lowercase();
        let is_kept = |c: &char| c.is_alphanumeric() || " -_".contains(*c);
        let kept: String = heading.chars().filter(is_kept).collect();
        kept.replace(' ', "-")
    };
    headings.map(anchor).collect()
}

/// Returns the targets of the links of a document.
fn links(text: &str) -> Vec<String> {
    let targets = text.split("](").skip(1);
    let targets = targets.filter_map(|rest| Some(rest.split_once(')')?.0));
    let ours = targets.filter(|target| !target.starts_with("https://"));
    ours.map(str::to_owned).collect()
}

#[test]
fn every_link_between_documents_leads_to_a_file_and_a_heading() {
    let documents = files_below(&root(), ".md");
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
