//! The commands in the documents, by the executables that they name. `tests/architecture/commands.rs` checks those of `batchctl`.

use std::process::{Command, Output};

use crate::executables::executable;

/// Tasks of xtask that hand their arguments to another program.
const HANDED_ON: [&str; 2] = ["sim", "verify-aws"];

fn ran(program: &str, arguments: &[String]) -> Output {
    let mut command = Command::new(executable(program));
    let output = command.args(arguments).env_clear().output();
    output.expect("it starts")
}

#[test]
fn every_command_of_a_document_is_one() {
    let mut problems = Vec::new();
    let mut parsed_count = 0;
    for (path, text) in tests::documents().expect("documents can be read") {
        for command in tests::commands(&text) {
            let Some((program, mut arguments)) = command.program() else {
                continue;
            };
            parsed_count += 1;
            match arguments.first() {
                Some(task) if program == "xtask" && HANDED_ON.contains(&task.as_str()) => {
                    arguments = vec!["help".to_owned(), task.clone()];
                }
                // Nothing but the options is looked at then: they must be before what is handed to another program.
                _ => {
                    let end = arguments.iter().position(|each| each == "--");
                    arguments.insert(end.unwrap_or(arguments.len()), "--help".to_owned());
                }
            }
            let output = ran(&program, &arguments);
            if !output.status.success() {
                let said = String::from_utf8_lossy(&output.stderr);
                problems.push(format!("{path}: `{}`: {said}", command.line));
            }
        }
    }
    assert!(problems.is_empty(), "{problems:#?}");
    assert!(parsed_count > 100, "{parsed_count}");
}

#[test]
fn a_command_that_is_none_is_noticed() {
    for (program, line) in [
        ("loadgen", "plan --message 1 --help"),
        ("batch-local", "burst --sink elsewhere --help"),
        ("xtask", "package --arch arm --help"),
    ] {
        let output = ran(program, &tests::words(line));
        assert!(!output.status.success(), "{program} {line}: {output:?}");
    }
}

#[test]
fn the_plan_of_a_page_is_what_its_command_prints() {
    let page = std::fs::read_to_string(tests::root().join("docs/deploying.md"));
    let page = page.expect("a page");
    let page = Vec::from_iter(page.split_whitespace()).join(" ");
    let batches = "24 batches, all full";
    assert!(page.contains(batches), "{batches}");
    for concurrency in [4, 50] {
        let line =
            format!("loadgen plan --messages 1200000 --set AggregatorConcurrency={concurrency}");
        let output = ran("loadgen", &tests::words(&line)[1..]);
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(said.contains("24: 24 full"), "{said}");
        let (_, rest) = said.split_once("drained after ").expect("it drains");
        let drained = rest.split('\n').next().unwrap_or_default();
        assert!(page.contains(&format!("after {drained}")), "{drained}");
    }
}
