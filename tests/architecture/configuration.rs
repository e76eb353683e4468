//! Checks that `docs/configuration.md` is what the declarations of the variables generate. `cargo xtask configuration`
//! writes the file. The checks of the templates read it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use shared::config::{Declarations, Description, OWN_PREFIXES, Topic, VARIABLE_NAMES};

use crate::files::assert_generated;

const HEAD: &str = "\
# Configuration

<!-- Generated from the declarations in shared/src/config.rs, aggregator/src/config.rs, aggregator/src/quota.rs, batch-processor/src/config.rs and
sinks/src/config.rs by `cargo xtask configuration`. Edits here are lost. -->

Every variable of the two functions. They are read from the environment once, at the cold start; all that is wrong with any
of them ends the cold start, and is told in one error. An empty variable counts as one that is not set. A value that is too
small, too large or not understood is an error, never replaced by the default.

A variable that no function reads, but that was meant for one, is an error too: its name is one character off that of a
variable (one too many, missing, wrong, in the other case, or swapped with the next), or it begins with
{prefixes}.
Variables of the other function are allowed, and so are all others: those of Lambda, the SDKs, OpenTelemetry and your own. A [sink of
your own](sinks.md#a-sink-of-your-own) may have variables that begin with `SINK_`.

The SAM template and the CDK construct set every variable from a parameter of its name (`MAX_BATCH_SIZE` is `MaxBatchSize` in
SAM, `maxBatchSize` in CDK), whose bounds may be narrower: see [infra/README.md](../infra/README.md).
";

/// The chapters, each with whether the aggregator and the batch-processor read its variables.
const READERS: [(&str, bool, bool); 3] = [
    ("Both functions", true, true),
    ("Aggregator", true, false),
    ("Batch processor", false, true),
];

#[test]
fn the_configuration_document_lists_exactly_what_the_functions_read() {
    let generated = document(
        &aggregator::config::Config::declarations(),
        &batch_processor::Config::declarations(),
    );
    let document = "docs/configuration.md";
    assert_generated(
        document,
        &generated,
        "UPDATE_CONFIGURATION",
        "configuration",
    );
}

#[test]
fn the_known_names_are_those_of_the_declarations() {
    let functions = [
        aggregator::config::Config::declarations(),
        batch_processor::Config::declarations(),
    ];
    let variables = functions.iter().flat_map(|each| &each.variables);
    let declared = BTreeSet::from_iter(variables.map(|each| each.name));
    assert_eq!(Vec::from_iter(declared), VARIABLE_NAMES);
    for prefix in OWN_PREFIXES {
        assert!(
            VARIABLE_NAMES
                .iter()
                .any(|name| name.starts_with(prefix.trim_end_matches('_'))),
            "no variable begins as `{prefix}`"
        );
    }
}

fn document(aggregator: &Declarations, batch_processor: &Declarations) -> String {
    let mut variables: BTreeMap<&str, (&Description, [bool; 2])> = BTreeMap::new();
    let mut order = Vec::new();
    let mut rules: Vec<(&str, [bool; 2])> = Vec::new();
    for (at, function) in [aggregator, batch_processor].into_iter().enumerate() {
        for each in &function.variables {
            let entry = variables.entry(each.name);
            let (first, readers) = entry.or_insert_with(|| {
                order.push(each.name);
                (each, [false; 2])
            });
            assert_eq!(*first, each, "one name, one declaration");
            assert!(!readers[at], "`{}` is read twice", each.name);
            readers[at] = true;
        }
        for rule in &function.rules {
            match rules.iter_mut().find(|(known, _)| known == rule) {
                Some((_, readers)) => readers[at] = true,
                None => rules.push((rule, std::array::from_fn(|one| one == at))),
            }
        }
    }
    let prefixes = OWN_PREFIXES.map(|prefix| format!("`{prefix}`"));
    let (last, others) = prefixes.split_last().expect("there are prefixes");
    let prefixes = format!("{} or {last}", others.join(", "));
    let mut text = HEAD.replace("{prefixes}", &prefixes);
    for (title, by_aggregator, by_batch_processor) in READERS {
        let readers = [by_aggregator, by_batch_processor];
        let mut topics: BTreeMap<Topic, Vec<&Description>> = BTreeMap::new();
        for (each, read_by) in order.iter().map(|name| variables[name]) {
            if read_by == readers {
                topics.entry(each.topic).or_default().push(each);
            }
        }
        write!(text, "\n## {title}\n").expect("writing to a string cannot fail");
        for (topic, variables) in topics {
            let head = "| variable | default | allowed | meaning |\n|---|---|---|---|";
            write!(text, "\n### {}\n\n{head}\n", topic.title())
                .expect("writing to a string cannot fail");
            for each in variables {
                writeln!(text, "{}", row(each)).expect("writing to a string cannot fail");
            }
        }
        let rules: Vec<&str> = rules
            .iter()
            .filter(|(_, read_by)| *read_by == readers)
            .map(|(rule, _)| *rule)
            .collect();
        if !rules.is_empty() {
            text += "\n### What must hold together\n\n";
            for rule in rules {
                writeln!(text, "- {rule}").expect("writing to a string cannot fail");
            }
        }
    }
    text
}

fn row(variable: &Description) -> String {
    let Description {
        name,
        allowed,
        meaning,
        ..
    } = variable;
    let default = match variable.default.as_deref() {
        None => "required".to_owned(),
        Some("") => "none".to_owned(),
        Some(value) => format!("`{value}`"),
    };
    let row = format!("| `{name}` | {default} | {allowed} | {meaning} |");
    assert_eq!(row.matches('|').count(), 5, "a cell cannot hold `|`: {row}");
    row
}
