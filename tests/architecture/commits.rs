//! Checks the subjects of commits.

use std::process::Command;

/// The longest subject, in characters: `git log --oneline` shows it on one line.
const SUBJECT_CHARS_MAX: usize = 72;
/// The check began here; earlier subjects are longer.
const SINCE: &str = "2026-11-28T00:00:00Z";

#[test]
fn subjects_of_commits_fit_on_a_line() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
    let mut git = Command::new("git");
    git.args(["-C", root, "log", "--no-merges", "--format=%h %s"]);
    let output = git.arg(format!("--since={SINCE}")).output();
    let output = output.expect("git is installed");
    // What was downloaded without its history has no subjects.
    let log = String::from_utf8(output.stdout).expect("subjects are UTF-8");
    let subjects = log.lines().filter_map(|line| line.split_once(' '));
    let long = subjects.filter(|(_, subject)| subject.chars().count() > SUBJECT_CHARS_MAX);
    let long = Vec::from_iter(long);
    assert!(
        long.is_empty(),
        "expected subjects of at most {SUBJECT_CHARS_MAX} characters: got {long:?}"
    );
}
