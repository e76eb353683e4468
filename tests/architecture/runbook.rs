//! Checks that the runbook has a page for every alarm and a rehearsal for every incident, and that the commands in the documents
//! are commands of `batchctl`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::process::Command;

use emulators::sam::Template;

use crate::files::{read, root};

/// The heading of the runbook that is no alarm.
const NOT_AN_ALARM: &str = "Before an incident";
/// Headings below alarms that are no incidents: they explain an error of a batch.
const NO_INCIDENTS: [&str; 2] = ["A batch that is too old", "A lost chunk"];
/// The number of incidents.
const INCIDENTS: usize = 12;

/// Returns the files of a folder whose names end in `ending`, each with its text.
fn files(folder: &str, ending: &str) -> Vec<(String, String)> {
    let entries = fs::read_dir(root().join(folder)).expect("a folder can be read");
    let names = entries.map(|entry| entry.expect("an entry can be read").file_name());
    let names = names.map(|name| format!("{folder}/{}", name.to_string_lossy()));
    let files = names.filter(|name| name.ends_with(ending));
    files.map(|name| (name.clone(), read(&name))).collect()
}

/// Returns the headings of a level of the runbook: `## ` or `### `.
fn headings(level: &str) -> BTreeSet<String> {
    let runbook = read("docs/runbook.md");
    let titles = runbook.lines().filter_map(|line| line.strip_prefix(level));
    titles.map(str::to_owned).collect()
}

#[test]
fn every_alarm_has_a_page_and_every_page_is_about_an_alarm() {
    let template = Template::parse(&read("infra/sam/template.yaml")).expect("a template");
    let alarms = template.alarms(&BTreeMap::new()).expect("it resolves");
    let alarms: BTreeSet<String> = alarms.into_keys().collect();
    assert!(alarms.len() >= 16, "{alarms:?}");
    let mut pages = headings("## ");
    assert!(pages.remove(NOT_AN_ALARM), "`{NOT_AN_ALARM}`: missing");
    assert_eq!(pages, alarms);
}

#[test]
fn every_incident_of_the_runbook_is_rehearsed() {
    let tests = files("tests/e2e/runbook", ".rs");
    let tests: String = tests.into_iter().map(|(_, text)| text).collect();
    let calls = tests.split("Rehearsal::of(&rig, \"").skip(1);
    let rehearsed: BTreeSet<&str> = calls.filter_map(|call| call.split('"').next()).collect();
    let mut incidents = headings("### ");
    for title in NO_INCIDENTS {
        assert!(incidents.remove(title), "`{title}`: missing");
    }
    let incidents: BTreeSet<&str> = incidents.iter().map(String::as_str).collect();
    assert_eq!(incidents.len(), INCIDENTS, "{incidents:?}");
    assert_eq!(incidents, rehearsed);
}

/// Returns the words of each `batchctl` command in a script, as a shell splits them.
fn commands_of(script: &str) -> Vec<Vec<String>> {
    let joined = script.replace("\\\n", " ");
    let commands = joined.lines().filter(|line| line.starts_with("batchctl "));
    let commands = Vec::from_iter(commands).join("\n");
    let function = r#"batchctl() { printf '%s\0' "$@"; printf '\n'; }"#;
    let output = Command::new("/bin/sh")
        .arg("-c")
        .arg(format!("set -e\n{function}\n{commands}"))
        .env_clear()
        .output()
        .expect("there is a shell");
    assert!(output.status.success(), "{commands}: {output:?}");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let lines = text.lines().map(|line| {
        let words = line.split_terminator('\0');
        words.map(str::to_owned).collect()
    });
    lines.collect()
}

/// Returns what stands between single backticks outside of code blocks, with each line break as a space.
fn code_spans(document: &str) -> Vec<String> {
    let text: String = document.split("```").step_by(2).collect();
    // A span with two backticks has one inside.
    let text: String = text.split("``").step_by(2).collect();
    let spans = text.split('`').skip(1).step_by(2);
    spans.map(|span| span.replace('\n', " ")).collect()
}

/// Returns what is wrong with a command that is only named in a text, perhaps without its arguments.
fn problem_of_named(span: &str) -> Option<String> {
    let command = batchctl::cli::command();
    let mut words = span.split_whitespace().skip(1);
    let verb = words.find(|word| !word.starts_with('-'))?;
    let Some(verb) = command.find_subcommand(verb) else {
        return Some(format!("`{span}`: no such command"));
    };
    let is_known = |option: &str| {
        let known = verb.get_arguments().chain(command.get_arguments());
        known
            .filter_map(|argument| argument.get_long())
            .any(|long| long == option)
    };
    let options = words.filter_map(|word| word.strip_prefix("--"));
    let unknown: Vec<&str> = options.filter(|option| !is_known(option)).collect();
    (!unknown.is_empty()).then(|| format!("`{span}`: no such options: {unknown:?}"))
}

#[test]
fn every_batchctl_command_of_the_documents_is_one() {
    let mut documents = files("docs", ".md");
    documents.push(("README.md".to_owned(), read("README.md")));
    let mut problems = Vec::new();
    let (mut parsed_count, mut named_count) = (0, 0);
    for (path, text) in &documents {
        let blocks = text.split("```sh\n").skip(1);
        let blocks = blocks.filter_map(|rest| Some(rest.split_once("\n```")?.0));
        for words in blocks.flat_map(commands_of) {
            parsed_count += 1;
            let all = std::iter::once("batchctl".to_owned()).chain(words.iter().cloned());
            if let Err(error) = batchctl::cli::command().try_get_matches_from(all) {
                problems.push(format!("{path}: {words:?}: {error}"));
            }
        }
        let named = code_spans(text).into_iter();
        for span in named.filter(|span| span.starts_with("batchctl ")) {
            named_count += 1;
            let problem = problem_of_named(&span);
            problems.extend(problem.map(|problem| format!("{path}: {problem}")));
        }
    }
    assert!(problems.is_empty(), "{problems:#?}");
    assert!(
        parsed_count > 30 && named_count > 5,
        "{parsed_count}, {named_count}"
    );
}

#[test]
fn a_command_that_is_none_is_noticed() {
    let script = "batchctl list --status 'a b' \\\n  --key \"c\" # why\nother\n";
    assert_eq!(
        commands_of(script),
        [["list", "--status", "a b", "--key", "c"]]
    );
    assert_eq!(problem_of_named("batchctl retry --accept-new-sink"), None);
    for wrong in ["batchctl look", "batchctl list --all"] {
        assert!(problem_of_named(wrong).is_some(), "{wrong}");
    }
}
