//! The log of a function: lines on standard output, from where Lambda takes them to CloudWatch Logs.
//!
//! A line has the fields of its event and of the spans around it, so every line of an invocation has its request id, and
//! every line about a batch the batch's id. [`redaction`](shared::redaction) leaves out what comes from messages.
//!
//! The formatter of `tracing-subscriber` is not used: it cannot leave fields out, and it would bring a second writer of
//! JSON into the executable.

mod layer;
mod line;

use shared::config::{LogSettings, Settings};
use tracing_subscriber::Registry;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::layer::SubscriberExt as _;

use layer::LogLayer;

/// Sets up logging to standard output, as the settings of the log say.
pub(crate) fn init_logs(settings: Settings<'_>) {
    let settings = LogSettings::of(settings);
    let lines = LogLayer::new(settings, |line: &str| println!("{line}"));
    let level = LevelFilter::from_level(settings.level);
    let subscriber = Registry::default().with(lines).with(level);
    // It fails only if there is a subscriber already, which then goes on.
    let _ = tracing::subscriber::set_global_default(subscriber);
}

/// Runs `logs`, and returns the lines that it logs, for tests.
#[cfg(test)]
pub(crate) fn lines_of(settings: LogSettings, logs: impl FnOnce()) -> Vec<String> {
    use std::sync::{Arc, Mutex};

    let written = Arc::new(Mutex::new(Vec::new()));
    let layer = {
        let written = written.clone();
        LogLayer::new(settings, move |line: &str| {
            written.lock().unwrap().push(line.to_owned());
        })
    };
    let level = LevelFilter::from_level(settings.level);
    let subscriber = Registry::default().with(layer).with(level);
    tracing::subscriber::with_default(subscriber, logs);
    std::mem::take(&mut *written.lock().unwrap())
}
