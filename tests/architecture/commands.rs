//! Checks the commands in the documents: `batchctl` understands its own, and each one of the pages with which somebody begins is run by a
//! test, or needs an AWS account. `tests/e2e/documented.rs` and `infra/checks/commands.py` check the commands of other programs.

use std::collections::{BTreeMap, BTreeSet};

use tests::{code_spans, commands, documents};

use crate::files::read;
use crate::runbook::NO_INCIDENTS;

/// The pages whose commands are all run, or need an account.
const PAGES: [&str; 3] = ["README.md", "docs/deploying.md", "docs/runbook.md"];

/// Programs that the pages name in their text, except those of AWS, which need an account with any arguments.
const PROGRAMS: [&str; 7] = [
    "cargo",
    "gh",
    "loadgen",
    "npm",
    "rustup",
    "sha256sum",
    "zip",
];

/// What runs a command that needs no account: the command, the file, and a text in it if that is not the command, each in a line. `cargo
/// xtask test --all` runs those of tools/xtask/src/main.rs.
const RUN_BY: &str = r#"cargo run --release -p local | tools/xtask/src/main.rs
cargo run --release -p batchctl -- config check FILE | tools/xtask/src/main.rs | cargo run --release -p batchctl -- config check docs/examples/service.toml
cargo xtask test | .github/workflows/ci.yml | run: cargo xtask test\n
cargo xtask test --all | CONTRIBUTING.md | cargo xtask test --all  # before a release
cargo xtask infra | tools/xtask/src/main.rs | infra::run_quietly
cargo xtask infra --packages | tools/xtask/src/main.rs
cargo xtask package | tools/xtask/src/main.rs | cargo xtask package-burst"
cargo xtask package --arch arm64 | tools/xtask/src/main.rs | cargo xtask package-burst --arch arm64
cargo xtask package --arch x86_64 | tools/xtask/src/main.rs | cargo xtask release
cargo xtask package --minimal | tools/xtask/src/main.rs
cargo xtask package-burst | tools/xtask/src/main.rs | cargo xtask package-burst"
cargo xtask package-burst --arch arm64 --messages 1000 -- --aggregator-timeout=60 --batch-processor-timeout=300 | tools/xtask/src/main.rs
cargo xtask ministack | tools/xtask/src/main.rs
cargo xtask release | .github/workflows/release.yml | run: cargo xtask release --check\n
cargo xtask release --check | tools/xtask/src/main.rs
cargo xtask verify-aws | infra/verify/on_ministack.py | verify.main
rustup target add aarch64-unknown-linux-gnu | .github/workflows/release.yml | rustup target add\n
zip -j target/lambda/aggregator/bootstrap.zip service.toml | infra/checks/commands.py | zip -j
npm install | infra/cdk/bin/packed.ts | run('npm', 'install'
loadgen plan --messages 1200000 --set AggregatorConcurrency=4 | tests/e2e/documented.rs | loadgen plan --messages 1200000 --set AggregatorConcurrency="#;

/// Returns the commands of the runbook's incidents, which rehearsals run (`tests/e2e/runbook`).
fn rehearsed() -> BTreeSet<String> {
    let runbook = read("docs/runbook.md");
    let pages = runbook.split("\n### ").skip(1);
    let incidents = pages.filter(|page| !NO_INCIDENTS.iter().any(|title| page.starts_with(title)));
    let incidents = incidents.filter_map(|page| page.split("\n## ").next());
    incidents.flat_map(of_blocks).collect()
}

/// Returns the commands in the blocks of a text that need no account.
fn of_blocks(text: &str) -> Vec<String> {
    let commands = commands(text).into_iter();
    let needing_none = commands.filter(|each| !each.needs_account);
    needing_none.map(|each| each.line).collect()
}

/// Returns the commands of a page that need no account: those of its blocks, and those that its text names.
fn without_account(page: &str) -> Vec<String> {
    let text = read(page);
    let mut found = of_blocks(&text);
    let named = code_spans(&text).into_iter();
    found.extend(named.filter(|span| {
        let (first, more) = span.split_once(' ').unwrap_or_default();
        PROGRAMS.contains(&first) && !more.is_empty()
    }));
    found
}

#[test]
fn every_command_is_run_by_a_test_or_needs_an_account() {
    let rehearsed = rehearsed();
    assert!(rehearsed.len() > 20, "{rehearsed:?}");
    let mut problems = Vec::new();
    let rows = RUN_BY.lines().map(|row| {
        let (command, by) = row.split_once(" | ").expect("a command and a file");
        (command, by.split_once(" | ").unwrap_or((by, command)))
    });
    let run_by: BTreeMap<&str, (&str, &str)> = rows.collect();
    let mut unused: BTreeSet<&str> = run_by.keys().copied().collect();
    for page in PAGES {
        for command in without_account(page) {
            if let Some((file, text)) = run_by.get(&*command) {
                unused.remove(&*command);
                let is_there = read(file).contains(&text.replace("\\n", "\n"));
                let problem = format!("{page}: `{command}`: {file} does not have `{text}`");
                problems.extend((!is_there).then_some(problem));
            } else if !rehearsed.contains(&command) {
                problems.push(format!(
                    "{page}: `{command}`: no test runs it, expected a line in RUN_BY, or `{}` above it",
                    tests::AWS_ONLY
                ));
            }
        }
    }
    assert!(problems.is_empty(), "{problems:#?}");
    assert!(unused.is_empty(), "not in the pages: {unused:?}");
}

#[test]
fn only_commands_that_need_an_account_are_marked_so() {
    for page in PAGES {
        for command in commands(&read(page)) {
            let is_ours = command.program().is_some();
            assert!(!(command.needs_account && is_ours), "{page}: {command:?}");
        }
    }
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
        let mut known = verb.get_arguments().chain(command.get_arguments());
        known.any(|argument| argument.get_long() == Some(option))
    };
    let options = words.filter_map(|word| word.strip_prefix("--"));
    let unknown: Vec<&str> = options.filter(|option| !is_known(option)).collect();
    (!unknown.is_empty()).then(|| format!("`{span}`: no such options: {unknown:?}"))
}

#[test]
fn every_batchctl_command_of_the_documents_is_one() {
    let mut problems = Vec::new();
    let (mut parsed_count, mut named_count) = (0, 0);
    for (path, text) in documents().expect("documents can be read") {
        for command in commands(&text) {
            if let Some((name, arguments)) = command.program()
                && name == "batchctl"
            {
                parsed_count += 1;
                let all = std::iter::once(name).chain(arguments);
                if let Err(error) = batchctl::cli::command().try_get_matches_from(all) {
                    problems.push(format!("{path}: {}: {error}", command.line));
                }
            }
        }
        let named = code_spans(&text).into_iter();
        for span in named.filter(|span| span.starts_with("batchctl ")) {
            named_count += 1;
            let problem = problem_of_named(&span);
            problems.extend(problem.map(|problem| format!("{path}: {problem}")));
        }
    }
    assert!(problems.is_empty(), "{problems:#?}");
    assert!(parsed_count > 30, "{parsed_count}");
    assert!(named_count > 5, "{named_count}");
}

#[test]
fn a_named_command_that_is_none_is_noticed() {
    assert_eq!(problem_of_named("batchctl retry --accept-new-sink"), None);
    for wrong in ["batchctl look", "batchctl list --all"] {
        assert!(problem_of_named(wrong).is_some(), "{wrong}");
    }
}
