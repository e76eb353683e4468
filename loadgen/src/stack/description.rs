//! What a burst must know about the stack it goes to.

use std::collections::BTreeMap;

use crate::audit::DuplicateRule;
use crate::record::Setting;

/// The attributes and places of a stack that a burst needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stack {
    /// For people: the stack's name, or the path of the file.
    pub name: String,
    pub input_queue_url: String,
    pub batch_table: String,
    /// URLs of the queues for messages that were set aside: quarantine and dead letters. Those that are not known are left
    /// out.
    pub set_aside_urls: Vec<String>,
    /// `SINK`, if it is known.
    pub sink: Option<String>,
    /// `SINK_TABLE`, if it is known.
    pub sink_table: Option<String>,
    /// `ON_DUPLICATE`.
    pub on_duplicate: DuplicateRule,
    /// `MAX_BATCH_SIZE`, if it is known.
    pub batch_items_max: Option<u64>,
    /// `SEAL_WHEN_DRAINED`.
    pub seal_when_drained: bool,
    /// Every setting that the record of the burst should name.
    pub settings: Vec<Setting>,
}

/// Why a stack cannot be used for a burst.
#[derive(Debug, thiserror::Error)]
pub enum StackError {
    /// The file cannot be read, or a line of it is not a variable.
    #[error("`{path}`: {source}, expected lines `export NAME='VALUE'`")]
    File {
        path: String,
        #[source]
        source: dotenvy::Error,
    },
    /// CloudFormation returned an error.
    #[error("stack `{stack}`: {message}")]
    CloudFormation { stack: String, message: String },
    /// What was found does not suffice.
    #[error("{name}: {}", .problems.join("; "))]
    Incomplete { name: String, problems: Vec<String> },
}

/// The names under which one source of settings knows what a burst needs.
pub(super) struct Names {
    pub input_queue_url: &'static str,
    pub batch_table: &'static str,
    pub set_aside_urls: &'static [&'static str],
    pub sink: &'static str,
    pub sink_table: &'static str,
    pub on_duplicate: &'static str,
    pub batch_items_max: &'static str,
    pub seal_when_drained: &'static str,
}

impl Stack {
    /// Makes a stack from settings, whose names are `names`. `shown` are the settings that go into the record.
    ///
    /// # Errors
    /// [`StackError::Incomplete`] with everything that is missing or wrong.
    pub(super) fn from_settings(
        name: String,
        settings: &BTreeMap<String, String>,
        names: &Names,
        shown: Vec<Setting>,
    ) -> Result<Stack, StackError> {
        let mut problems = Vec::new();
        let value = |name: &str| {
            settings
                .get(name)
                .filter(|value| !value.is_empty())
                .cloned()
        };
        let mut required = |name: &'static str, what: &str| {
            value(name).unwrap_or_else(|| {
                problems.push(format!("`{name}`: missing: expected {what}"));
                String::new()
            })
        };
        let input_queue_url = required(names.input_queue_url, "the URL of the input queue");
        let batch_table = required(names.batch_table, "the name of the batch table");
        let on_duplicate = match value(names.on_duplicate).as_deref() {
            None | Some("drop") => DuplicateRule::Drop,
            Some("requeue") => DuplicateRule::Requeue,
            Some(other) => {
                problems.push(format!(
                    "`{}`: wrong value: got `{other}`, expected `drop` or `requeue`",
                    names.on_duplicate
                ));
                DuplicateRule::Drop
            }
        };
        if !problems.is_empty() {
            return Err(StackError::Incomplete { name, problems });
        }
        Ok(Stack {
            name,
            input_queue_url,
            batch_table,
            set_aside_urls: names
                .set_aside_urls
                .iter()
                .filter_map(|name| value(name))
                .collect(),
            sink: value(names.sink),
            sink_table: value(names.sink_table),
            on_duplicate,
            batch_items_max: value(names.batch_items_max).and_then(|text| text.parse().ok()),
            seal_when_drained: value(names.seal_when_drained).as_deref() == Some("on"),
            settings: shown,
        })
    }
}
