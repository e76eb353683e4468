//! What a burst must know about the stack it goes to.

use ::stack::watch::Watched;
use ::stack::{Settings, SettingsError};
use planner::Setting;

use crate::audit::DuplicateRule;

/// The attributes and places of a stack that a burst needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stack {
    /// For people: the stack's name, or the path of the file.
    pub name: String,
    /// Where queues and table are, and how batches are sealed.
    pub watched: Watched,
    /// `SINK`, if it is known.
    pub sink: Option<String>,
    /// `SINK_TABLE`, if it is known.
    pub sink_table: Option<String>,
    /// `ON_DUPLICATE`.
    pub on_duplicate: DuplicateRule,
    /// Every setting that the record of the burst should name.
    pub settings: Vec<Setting>,
}

impl Stack {
    /// Makes a stack from its settings.
    ///
    /// # Errors
    /// [`SettingsError::Incomplete`] with everything that is missing or wrong.
    pub fn from_settings(settings: &Settings) -> Result<Stack, SettingsError> {
        let value = |name: &str| settings.value(name).map(str::to_owned);
        let mut problems = settings.problems();
        let watched = Watched::from_settings(settings, &mut problems);
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
            watched,
            sink: value("SINK"),
            sink_table: value("SINK_TABLE"),
            on_duplicate,
            settings: shown.collect(),
        })
    }
}
