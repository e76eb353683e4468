//! Checks that `docs/configuration.md`, the schema of the configuration file and the list of known names are what the
//! declarations of the settings generate. `cargo xtask configuration` writes the files. The checks of the templates read the
//! document.

use std::collections::{BTreeMap, BTreeSet};

use shared::config::{Declarations, Description, OWN_PREFIXES, SECTIONS, schema, variable_names};

use crate::files::assert_generated;

/// The variable by which `cargo xtask configuration` has the files written.
const UPDATE: &str = "UPDATE_CONFIGURATION";
const TASK: &str = "configuration";

const HEAD: &str = "\
# Configuration

<!-- Generated from the declarations in shared/src/config.rs, aggregator/src/config.rs, aggregator/src/quota.rs, batch-processor/src/config.rs and
sinks/src/config.rs by `cargo xtask configuration`. Edits here are lost. -->

Settings are in one file that both functions read, or in variables of the environment:

```toml
[events]
id = \"json:id\"

[batches]
max_size = 50000
window = \"5m\"

[sink]
uri = \"s3://bucket/prefix\"
```

The variable `CONFIG` says where the file is: `file:///var/task/service.toml` in the deployment package, `s3://bucket/key`, or
`ssm:/name`, a parameter of Systems Manager. Each function reads the file once, at its cold start, and needs the permission to:
`s3:GetObject` or `ssm:GetParameter`. The file has at most 64 KiB. A variable that is set overrides the key beside it below.
[service.toml](examples/service.toml) is an example, and [service.schema.json](service.schema.json) the schema for an editor.
`batchctl config check FILE` reports every problem of a file, and `batchctl config explain KEY` shows one setting. A duration may be
written as `\"90s\"`, `\"5m\"`, `\"1h30m\"` or `\"13d\"`, and a size as `\"64MiB\"` or `\"64MB\"`; a whole number has the unit of the variable. `on` and
`off` are `true` and `false` in the file, and `sink.columns` may be an array of tables. Settings without a key are only variables: the
stack's own tables and queues, which the deployment sets, and secrets.

All that is wrong with any setting ends the cold start, and is reported in one error: problems of the file with its line and column. An
empty value counts as one that is not set. A value that is too small, too large or not understood is an error, never replaced by the
default; so is a key that the file has and no function reads.

A variable that no function reads, but that was meant for one, is an error too: its name is one character off that of a
variable (one too many, missing, wrong, in the other case, or swapped with the next), or it begins with
{prefixes}.
Settings of the other function are allowed, and so are all other variables: those of Lambda, the SDKs, OpenTelemetry and your own. A [sink of
your own](sinks.md#a-sink-of-your-own) may have variables that begin with `SINK_`.
";

/// The chapters, each with whether the aggregator and the batch-processor read its settings.
const READERS: [(&str, bool, bool); 3] = [
    ("Both functions", true, true),
    ("Aggregator", true, false),
    ("Batch processor", false, true),
];

fn functions() -> [Declarations; 2] {
    [
        aggregator::config::Config::declarations(),
        batch_processor::Config::declarations(),
    ]
}

#[test]
fn the_configuration_document_lists_exactly_what_the_functions_read() {
    let [aggregator, batch_processor] = functions();
    let generated = document(&aggregator, &batch_processor);
    assert_generated("docs/configuration.md", &generated, UPDATE, TASK);
}

#[test]
fn the_schema_is_that_of_the_declarations() {
    let functions = functions();
    let variables = functions.iter().flat_map(|each| &each.variables);
    let schema = schema(variables);
    let text = serde_json::to_string_pretty(&schema).expect("it is JSON") + "\n";
    assert_generated("docs/service.schema.json", &text, UPDATE, TASK);
}

#[test]
fn the_known_names_are_those_of_the_declarations() {
    let functions = functions();
    let variables = functions.iter().flat_map(|each| &each.variables);
    let names = BTreeMap::from_iter(variables.map(|each| (each.name, each.key)));
    let lines = names.iter().map(|(name, key)| match key {
        Some(key) => format!("{name} {key}\n"),
        None => format!("{name}\n"),
    });
    let generated = String::from_iter(lines);
    assert_generated("shared/src/config/known.txt", &generated, UPDATE, TASK);
    let keys = Vec::from_iter(names.values().flatten());
    let different = BTreeSet::from_iter(&keys);
    assert_eq!(different.len(), keys.len(), "one key, one setting");
    for prefix in OWN_PREFIXES {
        let beginning = prefix.trim_end_matches('_');
        let is_used = variable_names().any(|name| name.starts_with(beginning));
        assert!(is_used, "no variable begins as `{prefix}`");
    }
}

/// Returns the headings: settings without a key come first.
fn section_of(variable: &Description) -> usize {
    let Some(key) = variable.key else { return 0 };
    let (section, _) = key.rsplit_once('.').expect("a key is in a section");
    let at = SECTIONS.iter().position(|(name, _)| *name == section);
    1 + at.unwrap_or_else(|| panic!("`{key}`: `{section}` is not one of the sections"))
}

fn heading(section: usize) -> String {
    match section.checked_sub(1) {
        None => "Only variables".to_owned(),
        Some(at) => format!("`[{}]`", SECTIONS[at].0),
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
        let mut sections: BTreeMap<usize, Vec<&Description>> = BTreeMap::new();
        for (each, read_by) in order.iter().map(|name| variables[name]) {
            if read_by == readers {
                sections.entry(section_of(each)).or_default().push(each);
            }
        }
        text += &format!("\n## {title}\n");
        for (section, variables) in sections {
            let head = "| variable | key | default | allowed | meaning |\n|---|---|---|---|---|";
            text += &format!("\n### {}\n\n{head}\n", heading(section));
            text.extend(variables.into_iter().map(row));
        }
        let rules = rules.iter().filter(|(_, read_by)| *read_by == readers);
        let rules: String = rules.map(|(rule, _)| format!("- {rule}\n")).collect();
        if !rules.is_empty() {
            text += &format!("\n### What must hold together\n\n{rules}");
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
    let key = variable.key.map(|key| format!("`{key}`"));
    let key = key.unwrap_or_default();
    let row = format!("| `{name}` | {key} | {default} | {allowed} | {meaning} |\n");
    assert_eq!(row.matches('|').count(), 6, "a cell cannot hold `|`: {row}");
    row
}
