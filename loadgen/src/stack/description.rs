//! What a burst must know about the stack it goes to.

use ::stack::{Settings, SettingsError};
use planner::Setting;

use crate::audit::DuplicateRule;

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

/// The variables with URLs of queues for messages that were set aside.
const SET_ASIDE_URLS: [&str; 3] = [
    "QUARANTINE_SQS_URL",
    "INPUT_DEAD_LETTER_QUEUE_URL",
    "BATCH_DEAD_LETTER_QUEUE_URL",
];

impl Stack {
    /// Makes a stack from its settings.
    ///
    /// # Errors
    /// [`SettingsError::Incomplete`] with everything that is missing or wrong.
    pub fn from_settings(settings: &Settings) -> Result<Stack, SettingsError> {
        let value = |name: &str| settings.value(name).map(str::to_owned);
        let mut problems = settings.problems();
        let input_queue_url = problems.required("INPUT_QUEUE_URL", "the URL of the input queue");
        let batch_table = problems.required("DDB_BATCH_TABLE", "the name of the batch table");
        let on_duplicate = match settings.value("ON_DUPLICATE") {
            None | Some("drop") => DuplicateRule::Drop,
            Some("requeue") => DuplicateRule::Requeue,
            Some(other) => {
                problems.wrong("ON_DUPLICATE", other, "`drop` or `requeue`");
                DuplicateRule::Drop
            }
        };
        let shown = settings.shown();
        let shown = shown.map(|(name, value)| Setting {
            name: name.to_owned(),
            value: value.to_owned(),
        });
        problems.finish(Stack {
            name: settings.name.clone(),
            input_queue_url,
            batch_table,
            set_aside_urls: SET_ASIDE_URLS.into_iter().filter_map(value).collect(),
            sink: value("SINK"),
            sink_table: value("SINK_TABLE"),
            on_duplicate,
            batch_items_max: value("MAX_BATCH_SIZE").and_then(|text| text.parse().ok()),
            seal_when_drained: settings.value("SEAL_WHEN_DRAINED") == Some("on"),
            settings: shown.collect(),
        })
    }
}
