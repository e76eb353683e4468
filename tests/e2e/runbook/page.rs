//! The pages of docs/runbook.md, and their commands, which a rehearsal runs as they are there.

use std::collections::{BTreeMap, VecDeque};
use std::process::Stdio;

use serde_json::Value;
use tokio::process::Command;

use super::alarms::{State, Watch};
use crate::batchctl::Batchctl;
use crate::executables::{Ran, executable, run};
use crate::rig::{Rig, SHOW_LOGS};

const RUNBOOK: &str = include_str!("../../../docs/runbook.md");
/// The first line of a block of commands that need AWS. A rehearsal does something else instead, which the line names.
const AWS_ONLY: &str = "# AWS only; rehearsed as: ";

/// A step of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    /// A command, as it is on the page.
    Command(String),
    /// Commands that need AWS: what the rehearsal does instead, and the commands.
    AwsOnly { instead: String, commands: String },
}

/// The rehearsal of an incident.
pub struct Rehearsal<'r> {
    rig: &'r Rig,
    batchctl: Batchctl,
    /// The steps that are still to come.
    steps: VecDeque<Step>,
    watch: Watch<'r>,
    /// The variables of the page's commands.
    variables: BTreeMap<&'static str, String>,
}

/// Returns the alarm under whose page an incident is, and the steps of the incident.
fn incident_of(runbook: &str, incident: &str) -> (String, VecDeque<Step>) {
    let mut alarm = None;
    let mut lines = runbook.lines().skip_while(|line| {
        if let Some(title) = line.strip_prefix("## ") {
            alarm = Some(title.to_owned());
        }
        line.strip_prefix("### ") != Some(incident)
    });
    assert!(lines.next().is_some(), "`{incident}`: not in the runbook");
    let of_incident =
        lines.take_while(|line| !line.starts_with("## ") && !line.starts_with("### "));
    let text = Vec::from_iter(of_incident).join("\n");
    let blocks = text.split("```sh\n").skip(1);
    let blocks = blocks.filter_map(|rest| Some(rest.split_once("\n```")?.0));
    let steps = blocks.flat_map(steps_of).collect();
    (alarm.expect("an incident is below an alarm"), steps)
}

fn steps_of(block: &str) -> Vec<Step> {
    if let Some(rest) = block.strip_prefix(AWS_ONLY) {
        let (instead, commands) = rest.split_once('\n').unwrap_or((rest, ""));
        return vec![Step::AwsOnly {
            instead: instead.to_owned(),
            commands: commands.to_owned(),
        }];
    }
    let commands = block.replace("\\\n", " ");
    let commands = commands.lines().filter(|line| !line.is_empty());
    let steps = commands.map(|line| Step::Command(line.to_owned()));
    steps.collect()
}

impl<'r> Rehearsal<'r> {
    /// Opens the page of an incident, and begins to evaluate its alarm.
    pub fn of(rig: &'r Rig, incident: &str) -> Rehearsal<'r> {
        let (alarm, steps) = incident_of(RUNBOOK, incident);
        Rehearsal {
            rig,
            batchctl: Batchctl::of(rig),
            steps,
            watch: Watch::start(rig, &alarm),
            variables: BTreeMap::new(),
        }
    }

    /// Waits until the alarm of the page has a state.
    pub async fn until_alarm(&self, state: State) {
        self.watch.until(state).await;
    }

    /// Sets a variable that the commands of the page use.
    pub fn set(&mut self, variable: &'static str, value: &str) {
        self.variables.insert(variable, value.to_owned());
    }

    /// Deploys changed variables. `batchctl` reads them from then on, as it would from the stack.
    pub fn deploy(&self, variables: &[(&str, &str)]) {
        self.rig.redeploy_with(variables);
        // The last value of a variable counts.
        let mut text = self.rig.stack.describe();
        for (name, value) in variables {
            text += &format!("\nexport {name}='{value}'");
        }
        let path = self.batchctl.directory.path().join("env");
        std::fs::write(path, text).expect("the directory takes a file");
    }

    /// Runs the next command, which begins with these words, and changes nothing. Returns what it prints with `--json`.
    pub async fn looks(&mut self, words: &str) -> Value {
        let command = self.next(words);
        assert!(!command.contains("--yes"), "it changes: {command}");
        if std::env::var_os(SHOW_LOGS).is_some() {
            let ran = self.run(&command, "").await;
            eprintln!("$ {command}\n{}{}", ran.out, ran.err);
        }
        self.json(&command, &[0, 3, 4]).await
    }

    /// Runs the next command, which must be `batchctl list`, and checks that no batch waits any more.
    pub async fn sees_no_batch(&mut self) {
        let left = self.looks("list").await;
        assert_eq!(left["matching"], 0, "{left}");
    }

    /// Runs the next command, which begins with these words, and changes something. Returns what it prints with `--json`.
    pub async fn changes(&mut self, words: &str) -> Value {
        let command = self.next(words);
        assert!(command.contains("--yes"), "it changes nothing: {command}");
        let value = self.json(&command, &[0]).await;
        eprintln!("$ {command}\n{value:#}");
        value
    }

    /// Skips the next commands, which need AWS. `done` must be what the page says that the rehearsal does instead.
    pub fn instead_of_aws(&mut self, done: &str) {
        match self.steps.pop_front() {
            Some(Step::AwsOnly { instead, commands }) if instead == done => {
                eprintln!("{done}, instead of\n{commands}");
            }
            other => panic!("the next step is {other:?}, expected commands for AWS, and `{done}`"),
        }
    }

    /// Checks that every step of the page was rehearsed.
    pub fn end(self) {
        assert_eq!(self.steps, [], "not rehearsed");
    }

    /// As [`end`](Self::end), once the alarm is over.
    pub async fn end_when_ok(self) {
        self.until_alarm(State::Ok).await;
        self.end();
    }

    fn next(&mut self, words: &str) -> String {
        match self.steps.pop_front() {
            Some(Step::Command(command)) if command.starts_with(&format!("batchctl {words}")) => {
                command
            }
            other => panic!("the next step is {other:?}, expected `batchctl {words} …`"),
        }
    }

    async fn json(&self, command: &str, codes: &[i32]) -> Value {
        let ran = self.run(command, "--json").await;
        let code = ran.code.unwrap_or(-1);
        assert!(
            codes.contains(&code),
            "{command}: {ran:?}\n{}",
            self.rig.state().await
        );
        serde_json::from_str(&ran.out).unwrap_or_else(|error| panic!("{command}: {error}: {ran:?}"))
    }

    /// Runs a command line of the page in a shell, in which `batchctl` knows the stack, as the alias of the page does.
    async fn run(&self, command: &str, option: &str) -> Ran {
        let alias = format!("batchctl() {{ \"$BATCHCTL\" --env-file env {option} \"$@\"; }}");
        let mut shell = Command::new("/bin/sh");
        shell
            .arg("-c")
            .arg(format!("set -eu\n{alias}\n{command}"))
            .env_clear()
            .env("BATCHCTL", executable("batchctl"))
            .env("USER", "on-call")
            .envs(&self.variables)
            .current_dir(self.batchctl.directory.path())
            .stdin(Stdio::null())
            .kill_on_drop(true);
        run(&mut shell).await
    }
}

#[test]
fn the_steps_of_an_incident_are_those_below_its_heading() {
    let runbook = "# Runbook\n## First\n### a\n```sh\nother\n```\n## Second\n### b\nText.\n```sh\nbatchctl list \\\n  --json\nbatchctl pauses\n```\n\
                   ```text\nout\n```\n```sh\n# AWS only; rehearsed as: a redeploy\nsam deploy\n```\n### c\n```sh\nother\n```\n";
    let (alarm, steps) = incident_of(runbook, "b");
    assert_eq!(alarm, "Second");
    let expected = [
        Step::Command("batchctl list    --json".to_owned()),
        Step::Command("batchctl pauses".to_owned()),
        Step::AwsOnly {
            instead: "a redeploy".to_owned(),
            commands: "sam deploy".to_owned(),
        },
    ];
    assert_eq!(steps, expected);
}
