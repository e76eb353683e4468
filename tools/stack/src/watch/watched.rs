//! What a watch must know about a stack.

use crate::settings::{Problems, Settings};

/// The places of a stack that are watched, and how it seals batches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Watched {
    pub input_queue_url: String,
    pub batch_table: String,
    /// URLs of the queues for messages that were set aside: quarantine and dead letters. Those that are not known are left
    /// out.
    pub set_aside_urls: Vec<String>,
    /// `MAX_BATCH_SIZE`, if it is known.
    pub batch_items_max: Option<u64>,
    /// `SEAL_WHEN_DRAINED`.
    pub seal_when_drained: bool,
}

/// The variables with URLs of queues for messages that were set aside.
const SET_ASIDE_URLS: [&str; 3] = [
    "QUARANTINE_SQS_URL",
    "INPUT_DEAD_LETTER_QUEUE_URL",
    "BATCH_DEAD_LETTER_QUEUE_URL",
];

impl Watched {
    /// Reads settings, and adds to `problems` what is missing.
    pub fn from_settings(settings: &Settings, problems: &mut Problems<'_>) -> Watched {
        let value = |name: &str| settings.value(name).map(str::to_owned);
        Watched {
            input_queue_url: problems.required("INPUT_QUEUE_URL", "the URL of the input queue"),
            batch_table: problems.required("DDB_BATCH_TABLE", "the name of the batch table"),
            set_aside_urls: SET_ASIDE_URLS.into_iter().filter_map(value).collect(),
            batch_items_max: value("MAX_BATCH_SIZE").and_then(|text| text.parse().ok()),
            seal_when_drained: settings.value("SEAL_WHEN_DRAINED") == Some("on"),
        }
    }
}
