//! The fields of a log line, and the line as JSON or text.

use std::fmt::{self, Write as _};

use serde_json::Value;
use shared::config::LogFormat;
use shared::redaction::Redaction;
use tracing::Level;
use tracing::field::{Field, Visit};

/// The field with the words of an event.
const MESSAGE: &str = "message";

/// The fields of an event or a span, in the order in which they were recorded.
#[derive(Clone, Debug, Default)]
pub(super) struct Fields(Vec<(&'static str, Value)>);

impl Fields {
    /// Adds fields, except present ones: fields of an event come before fields of the spans around it.
    pub(super) fn add_all(&mut self, outer: &Fields) {
        for (name, value) in &outer.0 {
            if !self.0.iter().any(|(there, _)| there == name) {
                self.0.push((name, value.clone()));
            }
        }
    }

    fn set(&mut self, name: &'static str, value: Value) {
        match self.0.iter_mut().find(|(there, _)| *there == name) {
            Some((_, there)) => *there = value,
            None => self.0.push((name, value)),
        }
    }

    /// Returns the line, without a line break.
    pub(super) fn line(&self, level: Level, format: LogFormat) -> String {
        let mut line = String::with_capacity(256);
        let written = match format {
            LogFormat::Json => self.write_json(level, &mut line),
            LogFormat::Text => self.write_text(level, &mut line),
        };
        // Writing to a string cannot fail.
        debug_assert!(written.is_ok());
        line
    }

    fn message(&self) -> &str {
        let message = self.0.iter().find(|(name, _)| *name == MESSAGE);
        let text = message.and_then(|(_, value)| value.as_str());
        text.unwrap_or_default()
    }

    fn others(&self) -> impl Iterator<Item = &(&'static str, Value)> {
        self.0.iter().filter(|(name, _)| *name != MESSAGE)
    }

    fn write_json(&self, level: Level, line: &mut String) -> fmt::Result {
        let message = Value::from(self.message());
        write!(line, r#"{{"level":"{level}","message":{message}"#)?;
        for (name, value) in self.others() {
            // Names of fields are identifiers, which need no escapes.
            write!(line, r#","{name}":{value}"#)?;
        }
        line.write_char('}')
    }

    fn write_text(&self, level: Level, line: &mut String) -> fmt::Result {
        // A line break would make two lines of it.
        write!(line, "{level:>5} {}", self.message().replace('\n', "\\n"))?;
        for (name, value) in self.others() {
            match value {
                Value::String(text) => write!(line, " {name}={}", Text(text))?,
                value => write!(line, " {name}={value}")?,
            }
        }
        Ok(())
    }
}

/// A text in a line of text, in quotes if it would not be seen where it ends.
struct Text<'a>(&'a str);

impl fmt::Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_plain = |c: char| !c.is_whitespace() && !c.is_control() && c != '"';
        match self.0.is_empty() || !self.0.chars().all(is_plain) {
            true => write!(f, "{:?}", self.0),
            false => f.write_str(self.0),
        }
    }
}

/// Records the values of an event or span.
pub(super) struct Recorder<'a> {
    pub(super) fields: &'a mut Fields,
    pub(super) redaction: Redaction,
}

impl Recorder<'_> {
    fn record(&mut self, field: &Field, value: impl Into<Value>) {
        if self.redaction.allows_field(field.name()) {
            self.fields.set(field.name(), value.into());
        }
    }
}

impl Visit for Recorder<'_> {
    fn record_str(&mut self, field: &Field, value: &str) {
        let value = self.redaction.filtered(value).into_owned();
        self.record(field, value);
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let value = format!("{value:?}");
        self.record_str(field, &value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.record(field, value);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.record(field, value);
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.record(field, value);
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.record(field, value);
    }
}
