//! Reads a stack from a file of variables, as `local serve` prints them.

use std::collections::BTreeMap;
use std::path::Path;

use crate::record::Setting;

use super::description::{Names, Stack, StackError};

const NAMES: Names = Names {
    input_queue_url: "INPUT_QUEUE_URL",
    batch_table: "DDB_BATCH_TABLE",
    set_aside_urls: &[
        "QUARANTINE_SQS_URL",
        "INPUT_DEAD_LETTER_QUEUE_URL",
        "BATCH_DEAD_LETTER_QUEUE_URL",
    ],
    sink: "SINK",
    sink_table: "SINK_TABLE",
    on_duplicate: "ON_DUPLICATE",
    batch_items_max: "MAX_BATCH_SIZE",
    seal_when_drained: "SEAL_WHEN_DRAINED",
};

/// Variables that are not shown in a record: secrets, and addresses that differ at every start.
const HIDDEN: [&str; 3] = [
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
];

/// Reads a file with lines `NAME=VALUE` or `export NAME='VALUE'`; lines that begin with `#` are comments. Returns the stack,
/// and all variables.
///
/// # Errors
/// The file cannot be read, a line has another form, or a variable is missing or wrong.
pub fn read_env_file(path: &Path) -> Result<(Stack, BTreeMap<String, String>), StackError> {
    let name = path.display().to_string();
    let file_error = |source| StackError::File {
        path: name.clone(),
        source,
    };
    let pairs = dotenvy::from_path_iter(path).map_err(file_error)?;
    let variables: BTreeMap<String, String> =
        pairs.collect::<Result<_, _>>().map_err(file_error)?;
    let shown = variables
        .iter()
        .filter(|(name, _)| {
            !HIDDEN.contains(&name.as_str()) && !name.starts_with("AWS_ENDPOINT_URL")
        })
        .map(|(name, value)| Setting {
            name: name.clone(),
            value: value.clone(),
        })
        .collect();
    let stack = Stack::from_settings(format!("`{name}`"), &variables, &NAMES, shown)?;
    Ok((stack, variables))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audit::DuplicateRule;

    fn read(text: &str) -> Result<(Stack, BTreeMap<String, String>), String> {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("env");
        std::fs::write(&path, text).unwrap();
        read_env_file(&path).map_err(|error| {
            let text = error.to_string();
            text.replace(&path.display().to_string(), "FILE")
        })
    }

    #[test]
    fn the_variables_of_local_serve_are_a_stack() {
        let (stack, variables) = read(
            "# The stack is running; Ctrl-C stops it. Variables for another client:\n\
             export INPUT_QUEUE_URL=http://127.0.0.1:4/000000000000/input-queue\n\
             export AWS_SECRET_ACCESS_KEY=local\n\
             export DDB_BATCH_TABLE='batch-table'\n\
             export EVENT_ID='json:join(`#`, [\"id\"])'\n\
             export MAX_BATCH_SIZE='300'\n\
             export ON_DUPLICATE='requeue'\n\
             export QUARANTINE_SQS_URL='http://127.0.0.1:4/000000000000/quarantine-queue'\n\
             export SINK='file:///tmp/a b'\n\
             # Delivered batches are in /tmp/a b\n",
        )
        .unwrap();
        assert_eq!(
            stack.input_queue_url,
            "http://127.0.0.1:4/000000000000/input-queue"
        );
        assert_eq!(stack.batch_table, "batch-table");
        assert_eq!(
            stack.set_aside_urls,
            ["http://127.0.0.1:4/000000000000/quarantine-queue"]
        );
        assert_eq!(stack.sink.as_deref(), Some("file:///tmp/a b"));
        assert_eq!(stack.on_duplicate, DuplicateRule::Requeue);
        assert_eq!(
            (stack.batch_items_max, stack.seal_when_drained),
            (Some(300), false)
        );
        assert!(
            stack
                .settings
                .iter()
                .all(|setting| setting.value != "local"),
            "no secret is shown"
        );
        assert_eq!(variables["EVENT_ID"], "json:join(`#`, [\"id\"])");
    }

    #[test]
    fn everything_that_is_missing_or_wrong_is_named_at_once() {
        let error = read("export ON_DUPLICATE=ignore\n").unwrap_err();
        assert_eq!(
            error,
            "`FILE`: `INPUT_QUEUE_URL`: missing: expected the URL of the input queue; \
             `DDB_BATCH_TABLE`: missing: expected the name of the batch table; \
             `ON_DUPLICATE`: wrong value: got `ignore`, expected `drop` or `requeue`"
        );
        let error = read("this is no variable\n").unwrap_err();
        assert!(
            error.starts_with("`FILE`: ")
                && error.ends_with(", expected lines `export NAME='VALUE'`"),
            "{error}"
        );
    }
}
