//! What several suites need: the commands in the documents, and whether all cases run.

use std::path::{Path, PathBuf};
use std::{env, fs, io};

/// The first line of the commands of a block that need an AWS account.
pub const AWS_ONLY: &str = "# AWS only";

/// Returns whether tests run all their cases, which takes long. `cargo xtask test --all` sets the variable.
pub fn runs_all_cases() -> bool {
    env::var_os("TEST_ALL").is_some()
}

/// Returns the root of the repository.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Folders that builds make.
pub const BUILT: [&str; 3] = ["dist", "node_modules", "target"];

/// Returns the files below a folder whose names end in `ending`, in order; none if there is no such folder. Leaves out what is
/// hidden or [`BUILT`].
pub fn files_below(folder: &Path, ending: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut paths = Vec::from_iter(entries.map(|entry| entry.path()));
    paths.sort();
    let mut found = Vec::new();
    for path in paths {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name.starts_with('.') || BUILT.contains(&&*name) {
            continue;
        }
        if path.is_dir() {
            found.extend(files_below(&path, ending));
        } else if name.ends_with(ending) {
            found.push(path);
        }
    }
    found
}

/// Returns the path from the root and the text of each document for users.
///
/// # Errors
/// A document cannot be read.
pub fn documents() -> io::Result<Vec<(String, String)>> {
    let mut paths = vec!["README.md".to_owned(), "CONTRIBUTING.md".to_owned()];
    for entry in fs::read_dir(root().join("docs"))? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        paths.extend(name.ends_with(".md").then(|| format!("docs/{name}")));
    }
    let read = |path: String| fs::read_to_string(root().join(&path)).map(|text| (path, text));
    paths.into_iter().map(read).collect()
}

/// A command of a shell block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    /// The command as it is in the block, without a comment; a continued line is joined.
    pub line: String,
    /// Whether it is below a line that begins with [`AWS_ONLY`].
    pub needs_account: bool,
}

impl Command {
    /// Returns the executable of this repository that the command runs, with its arguments.
    pub fn program(&self) -> Option<(String, Vec<String>)> {
        let mut words = words(&self.line).into_iter();
        match words.next()?.rsplit('/').next()? {
            "cargo" => match words.next()?.as_str() {
                "xtask" => Some(("xtask".to_owned(), words.collect())),
                "run" => {
                    let package = words.by_ref().skip_while(|word| word != "-p").nth(1)?;
                    let arguments = words.skip_while(|word| word != "--").skip(1);
                    let package = match &*package {
                        "local" => "batch-local".to_owned(),
                        _ => package,
                    };
                    Some((package, arguments.collect()))
                }
                _ => None,
            },
            name @ ("batchctl" | "batch-local" | "loadgen") => {
                Some((name.to_owned(), words.collect()))
            }
            _ => None,
        }
    }
}

/// Returns the commands of a document's shell blocks, but not the lines of a function that a block defines.
pub fn commands(document: &str) -> Vec<Command> {
    let blocks = document.split("```sh\n").skip(1);
    let blocks = blocks.filter_map(|rest| rest.split("\n```").next());
    let mut found = Vec::new();
    for block in blocks {
        let (mut needs_account, mut in_function) = (false, false);
        for line in block.replace("\\\n", " ").lines() {
            needs_account |= line.starts_with(AWS_ONLY);
            in_function |= line.ends_with("() {");
            let line = without_comment(line);
            if !line.is_empty() && !in_function {
                found.push(Command {
                    line: line.to_owned(),
                    needs_account,
                });
            }
            in_function &= line != "}";
        }
    }
    found
}

/// Returns what stands between single backticks outside of code blocks, with each line break as a space.
pub fn code_spans(document: &str) -> Vec<String> {
    let text: String = document.split("```").step_by(2).collect();
    // A span with two backticks has one inside.
    let text: String = text.split("``").step_by(2).collect();
    let spans = text.split('`').skip(1).step_by(2);
    spans.map(|span| span.replace('\n', " ")).collect()
}

fn without_comment(line: &str) -> &str {
    let line = line.split(" # ").next().unwrap_or_default().trim();
    if line.starts_with('#') { "" } else { line }
}

/// Returns the words of a command as a shell splits them, up to a pipe, a redirection or an `&`. Variables stay as they are.
pub fn words(line: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    for character in line.chars() {
        match (quote, character) {
            (Some(open), _) if character == open => quote = None,
            (None, '"' | '\'') => {
                quote = Some(character);
                word.get_or_insert_default();
            }
            (None, '|' | '>' | '<' | '&' | ';') => break,
            (None, ' ') => found.extend(word.take()),
            _ => word.get_or_insert_default().push(character),
        }
    }
    found.extend(word);
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_those_of_shell_blocks() {
        let document = "```sh\ncargo run --release -p local -- burst \\\n  --out 'a b' > c   # why\n\n# AWS only: it costs\naws x\n```\n\
                        ```text\nother\n```\n```sh\nf() {\n  aws y\n}\nf\n```\n";
        let found = commands(document);
        let lines = found.iter().map(|each| (&*each.line, each.needs_account));
        let first = "cargo run --release -p local -- burst    --out 'a b' > c";
        let expected = [(first, false), ("aws x", true), ("f", false)];
        assert_eq!(Vec::from_iter(lines), expected);
        let arguments = ["burst", "--out", "a b"].map(str::to_owned).to_vec();
        let program = ("batch-local".to_owned(), arguments);
        assert_eq!(found[0].program(), Some(program));
        assert_eq!(found[1].program(), None);
    }

    #[test]
    fn words_are_split_as_a_shell_splits_them() {
        let found = words("a 'b c' --d=\"e 'f'\" '' $G | h");
        assert_eq!(found, ["a", "b c", "--d=e 'f'", "", "$G"]);
    }

    #[test]
    fn spans_are_those_outside_of_blocks() {
        let found = code_spans("`a\nb` x ``c ` d``\n```\n`e`\n```\n`f`");
        assert_eq!(found, ["a b", "f"]);
    }
}
