//! The verbs: the commands that change something, with the options that the command line has.

use clap::{ArgAction, Command};
use console::{Address, Field, FieldKind, Operator, Plan, Problem, Text, Verb};
use serde_json::Value;

use super::values::{list, text};
use crate::of_stack;

/// The option that has a command do what it shows otherwise.
const YES: &str = "yes";
/// Options that the console fills in itself, or that are for the command line.
const OWN: [&str; 7] = [YES, "why", "by", "help", "json", "config", "env_file"];
/// What the batches are called that a command would change.
const WOULD: &str = "would";
/// The most messages of a redrive: each message of the queue is compared with them.
const MESSAGES_MAX: usize = 10_000;
/// The option of `retry` that only has notices sent, in words and as an option with ids.
const UNNOTICED: &str = "--status=unnoticed";
const ONLY_NOTICES: &str = "--only-notices";

/// Returns the verbs, in the order of the command line.
pub(super) fn all() -> Vec<Verb> {
    let command = of_stack::definition();
    let verbs = command.get_subcommands().filter(|command| is_verb(command));
    Vec::from_iter(verbs.map(verb))
}

/// Returns a link to the form of a verb, with some fields filled in.
pub(super) fn link(verb: &str, words: &str, fields: &str) -> Text {
    Text::link(words, format!("/do/{verb}?{fields}"))
}

/// Returns links to the forms of verbs.
pub(super) fn links(verbs: &[&str]) -> Vec<Text> {
    Vec::from_iter(verbs.iter().map(|verb| link(verb, verb, "")))
}

/// Returns whether a command changes something.
pub(super) fn is_verb(command: &Command) -> bool {
    has(command, YES)
}

fn has(command: &Command, option: &str) -> bool {
    command
        .get_arguments()
        .any(|argument| argument.get_id() == option)
}

fn verb(command: &Command) -> Verb {
    Verb {
        name: command.get_name().to_owned(),
        title: command.get_name().to_owned(),
        about: command
            .get_about()
            .map(ToString::to_string)
            .unwrap_or_default(),
        fields: fields(command),
        asks: true,
    }
}

fn fields(command: &Command) -> Vec<Field> {
    let arguments = command.get_arguments();
    let arguments =
        arguments.filter(|argument| !argument.is_global_set() && !argument.is_hide_set());
    let arguments = arguments.filter(|argument| !OWN.contains(&argument.get_id().as_str()));
    let fields = arguments.map(|argument| {
        let name = argument.get_id().to_string();
        let label = match argument.get_long() {
            Some(long) => long.replace('-', " "),
            None => name.replace('_', " "),
        };
        let about = argument
            .get_help()
            .map(ToString::to_string)
            .unwrap_or_default();
        let words = argument.get_possible_values();
        let kind = match argument.get_action() {
            ArgAction::SetTrue => FieldKind::Check,
            _ if words.is_empty() => FieldKind::Text,
            _ => {
                let words = words.iter().map(|word| word.get_name().to_owned());
                FieldKind::Choice(std::iter::once(String::new()).chain(words).collect())
            }
        };
        let defaults = argument.get_default_values().iter();
        let default = defaults
            .filter(|_| kind != FieldKind::Check)
            .filter_map(|value| value.to_str())
            .next();
        Field::text(&name, &label, &about)
            .of_kind(kind)
            .with(default.unwrap_or_default())
    });
    fields.collect()
}

/// Returns the words of a command, from the fields of its form.
///
/// # Errors
/// There is no such verb.
pub(super) fn words(verb: &str, fields: &Address) -> Result<Vec<String>, Problem> {
    let command = of_stack::definition();
    let command = command
        .find_subcommand(verb)
        .filter(|command| is_verb(command));
    let command = command.ok_or_else(|| Problem::NotFound(format!("there is no verb `{verb}`")))?;
    let mut words = vec![verb.to_owned()];
    let mut positional = Vec::new();
    for field in self::fields(command) {
        let Some(value) = fields.field(&field.name) else {
            continue;
        };
        let argument = command
            .get_arguments()
            .find(|argument| argument.get_id() == field.name.as_str());
        let argument = argument.expect("its fields are its arguments");
        match (argument.get_long(), &field.kind) {
            (Some(long), FieldKind::Check) => words.push(format!("--{long}")),
            (Some(long), _) => words.push(format!("--{long}={value}")),
            (None, _)
                if argument
                    .get_num_args()
                    .is_some_and(|count| count.max_values() > 1) =>
            {
                positional.extend(value.split_whitespace().map(str::to_owned));
            }
            (None, _) => positional.push(value.to_owned()),
        }
    }
    if !positional.is_empty() {
        words.push("--".to_owned());
        words.extend(positional);
    }
    Ok(words)
}

/// Returns the words that do what was shown and no more; none if there is nothing to do.
pub(super) fn steps(verb: &str, words: Vec<String>, found: &Value) -> Vec<String> {
    match verb {
        "approve" | "retry" | "discard" => {
            let would = list(found, "batches").filter(|batch| text(batch, "outcome") == WOULD);
            let ids = Vec::from_iter(would.map(|batch| text(batch, "batchId").to_owned()));
            match ids.is_empty() {
                true => Vec::new(),
                false => named(words, ids),
            }
        }
        "redrive" => {
            let would = list(found, "wouldRedrive").filter_map(Value::as_str);
            let ids = Vec::from_iter(would.map(str::to_owned).take(MESSAGES_MAX));
            match ids.is_empty() {
                true => Vec::new(),
                false => of_messages(words, &ids),
            }
        }
        _ => words,
    }
}

/// Returns what a plan was decided by; nothing if its words say how much is done: ids of batches or messages, or a scope.
pub(super) fn seen(verb: &str, found: &Value) -> String {
    match verb {
        "approve" | "retry" | "discard" | "redrive" | "pause" | "resume" => String::new(),
        _ => found.to_string(),
    }
}

/// Puts ids of batches in the place of what selected them.
fn named(words: Vec<String>, ids: Vec<String>) -> Vec<String> {
    const SELECT: [&str; 6] = [
        "--status=",
        "--source=",
        "--key=",
        "--error=",
        "--older-than=",
        "--younger-than=",
    ];
    let only_notices = words.iter().any(|word| word == UNNOTICED);
    let only_notices = only_notices.then(|| ONLY_NOTICES.to_owned());
    let words = words.into_iter().take_while(|word| word != "--");
    let words = words.filter(|word| !SELECT.iter().any(|option| word.starts_with(option)));
    let words = words.chain(only_notices).chain(["--".to_owned()]);
    words.chain(ids).collect()
}

/// Puts ids of messages in the place of what selected them.
fn of_messages(words: Vec<String>, ids: &[String]) -> Vec<String> {
    // In JMESPath, JSON stands between backticks; message ids have none.
    let ids = Value::from(ids.to_vec()).to_string();
    let words = words
        .into_iter()
        .filter(|word| word != "--all" && !word.starts_with("--where="));
    words
        .chain([format!("--where=contains(`{ids}`, messageId)")])
        .collect()
}

/// Returns the words of a plan with what has it done.
pub(super) fn confirmed(plan: &Plan, operator: &Operator) -> Vec<String> {
    let mut words = plan.steps.clone();
    let command = of_stack::definition();
    let takes_why = command
        .find_subcommand(&plan.verb)
        .is_some_and(|command| has(command, "why"));
    let mut options = vec!["--yes".to_owned()];
    if takes_why {
        options.push(format!("--why={}", operator.why));
        options.push(format!("--by={}", operator.by));
    }
    // After the name of the command: ids of batches may follow `--`.
    words.splice(1..1, options);
    words
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn address(fields: &[(&str, &str)]) -> Address {
        let fields = fields
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        Address {
            path: "/do".to_owned(),
            fields: fields.collect(),
        }
    }

    fn words_of(verb: &str, fields: &[(&str, &str)]) -> String {
        words(verb, &address(fields)).unwrap().join(" ")
    }

    #[test]
    fn every_command_with_yes_is_a_verb() {
        let names = all().into_iter().map(|verb| verb.name);
        let expected = [
            "approve",
            "retry",
            "discard",
            "forget",
            "prime",
            "tombstones",
            "drop-run",
            "rebuild-dedup",
            "pause",
            "resume",
            "replay",
            "redrive",
            "rejects",
        ];
        assert_eq!(Vec::from_iter(names), expected);
    }

    #[test]
    fn the_fields_of_a_form_are_the_words_of_a_command() {
        let filter = [
            ("status", "error"),
            ("older_than", "5m"),
            ("accept_new_sink", "yes"),
            ("other", "x"),
        ];
        assert_eq!(
            words_of("retry", &filter),
            "retry --status=error --older-than=5m --accept-new-sink"
        );
        assert_eq!(
            words_of("retry", &[("batches", "abcd  ef01")]),
            "retry -- abcd ef01"
        );
        assert_eq!(
            words_of("forget", &[("event_id", "--yes a")]),
            "forget -- --yes a"
        );
        assert_eq!(
            words_of("pause", &[("key", "--yes"), ("length", "1h")]),
            "pause --key=--yes --for=1h"
        );
        for own in ["yes", "why", "by", "json"] {
            assert_eq!(
                words_of("retry", &[(own, "yes"), ("key", "k")]),
                "retry --key=k"
            );
        }
        assert!(words("list", &address(&[])).is_err());
    }

    #[test]
    fn no_more_is_done_than_was_shown() {
        let words = |text: &str| Vec::from_iter(text.split(' ').map(str::to_owned));
        let found = json!({"batches": [
            {"batchId": "a", "outcome": "would"}, {"batchId": "b", "outcome": "left"}, {"batchId": "c", "outcome": "would"},
        ]});
        let steps = |verb, line, found: &Value| steps(verb, words(line), found).join(" ");
        assert_eq!(
            steps("retry", "retry --status=error --accept-new-sink", &found),
            "retry --accept-new-sink -- a c"
        );
        assert_eq!(
            steps("retry", "retry --status=error", &json!({"batches": []})),
            ""
        );
        let unnoticed = json!({"batches": [{"batchId": "a", "outcome": "would"}]});
        assert_eq!(
            steps("retry", "retry --status=unnoticed", &unnoticed),
            "retry --only-notices -- a"
        );
        let found = json!({"wouldRedrive": ["m1"]});
        let line = "redrive --from=quarantine --all";
        assert_eq!(
            steps("redrive", line, &found),
            "redrive --from=quarantine --where=contains(`[\"m1\"]`, messageId)"
        );
    }

    #[test]
    fn a_reason_cannot_become_an_option() {
        let plan = Plan {
            verb: "retry".to_owned(),
            shown: String::new(),
            steps: Vec::from(["retry", "--", "a"].map(str::to_owned)),
            seen: String::new(),
        };
        let operator = Operator {
            by: "--config=x".to_owned(),
            why: "-- b".to_owned(),
        };
        let expected = ["retry", "--yes", "--why=-- b", "--by=--config=x", "--", "a"];
        assert_eq!(confirmed(&plan, &operator), expected);
    }
}
