//! The declaration of a setting: its variable, its key in the file, its allowed values, its default and its meaning, in one
//! place.
//!
//! A function's `Config::read` passes each declaration to the [`Reader`](super::Reader), which checks the value and
//! keeps the declaration. `docs/configuration.md`, the schema of the file and `known.txt` are generated from the kept
//! declarations, so they list exactly the settings that are read.

use std::fmt;

use serde_json::{Value, json};

use super::file_value::FileValue;
use super::units::{Unit, json_of};

/// A setting whose value is a `K`: [`Number`], [`Word`], [`Text`] or [`List`].
#[derive(Clone, Copy, Debug)]
pub struct Variable<K> {
    /// The name of the variable of the environment.
    pub name: &'static str,
    /// The section and the key in the configuration file; [`None`] if the file cannot have it: names of the stack's own tables and
    /// queues, and secrets.
    pub key: Option<&'static str>,
    /// The allowed values, and the default.
    pub value: K,
    /// The use of the setting, in one or two sentences.
    pub meaning: &'static str,
}

/// A whole number within bounds. In the file, a number of seconds or milliseconds may be a duration, and one of bytes a size.
#[derive(Clone, Copy, Debug)]
pub struct Number<T> {
    pub unit: &'static str,
    /// The number if the variable is not set.
    pub default: T,
    pub min: T,
    pub max: T,
}

/// One of several words. If they are `on` and `off`, the file has `true` and `false`.
#[derive(Clone, Copy, Debug)]
pub struct Word<T: 'static> {
    /// The value if the variable is not set: the value of one of the words.
    pub default: T,
    /// The words, each with its value.
    pub words: &'static [(&'static str, T)],
}

/// A text that its reader parses.
#[derive(Clone, Copy, Debug)]
pub struct Text {
    /// The effect of an unset variable.
    pub unset: Unset,
    /// The allowed texts, in words. Errors say it after "expected".
    pub allowed: &'static str,
}

/// A [`Text`] that has a JSON list, or says where one is. The file may have an array of tables.
#[derive(Clone, Copy, Debug)]
pub struct List(pub Text);

/// The effect of a variable that is not set, or empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unset {
    /// The function does not start.
    Refused,
    /// The variable has no value.
    Nothing,
    /// The variable has this value.
    Default(&'static str),
}

/// A declaration in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Description {
    pub name: &'static str,
    pub key: Option<&'static str>,
    /// The default: [`None`] for a variable that must be set, an empty text for one that has no value by default.
    pub default: Option<String>,
    /// The allowed values of the variable, with the unit.
    pub allowed: String,
    /// The allowed values in the file.
    pub allowed_in_file: String,
    /// The JSON Schema of the value in the file.
    pub schema: Value,
    pub meaning: &'static str,
}

/// A variable of any kind.
pub trait Declared {
    /// Returns the declaration in words.
    fn description(&self) -> Description;
    /// Returns a value of the file as the variable would have it; [`None`] if it has another form.
    fn text_of(&self, value: &FileValue) -> Option<String>;
}

/// A kind of values, described in words.
pub trait Kind {
    /// Returns the default as a text; [`None`] if the variable must be set, an empty text if it has no value by
    /// default.
    fn default(&self) -> Option<String>;
    /// Returns the allowed values in words. Errors say the same after "expected".
    fn allowed(&self) -> String;
    /// Returns the allowed values in the file in words.
    fn allowed_in_file(&self) -> String {
        self.allowed()
    }
    /// Returns the JSON Schema of the value in the file.
    fn schema(&self) -> Value;
    /// Returns a value of the file as the variable would have it; [`None`] if it has another form.
    fn text_of(&self, value: &FileValue) -> Option<String>;
}

impl<T: Copy + fmt::Display> Kind for Number<T> {
    fn default(&self) -> Option<String> {
        Some(self.default.to_string())
    }

    fn allowed(&self) -> String {
        let Number { unit, min, max, .. } = self;
        format!("a whole number of {unit} from {min} to {max}")
    }

    fn allowed_in_file(&self) -> String {
        let Some(unit) = Unit::of(self.unit) else {
            return self.allowed();
        };
        // The bounds of a number are numbers.
        let text = |bound: T| unit.text(bound.to_string().parse().unwrap_or_default());
        let [min, max] = [self.min, self.max].map(text);
        format!(
            "{} from `\"{min}\"` to `\"{max}\"`, or a whole number of {}",
            unit.kind(),
            self.unit
        )
    }

    fn schema(&self) -> Value {
        let number = |number: T| json_of(&number.to_string());
        let integer = json!({
            "type": "integer",
            "minimum": number(self.min),
            "maximum": number(self.max),
        });
        let mut schema = match Unit::of(self.unit) {
            None => integer,
            Some(unit) => {
                json!({"anyOf": [integer, {"type": "string", "pattern": unit.pattern()}]})
            }
        };
        schema["default"] = number(self.default);
        schema
    }

    fn text_of(&self, value: &FileValue) -> Option<String> {
        if let FileValue::Integer(number) = value {
            return Some(number.to_string());
        }
        let number = Unit::of(self.unit)?.number(value.text()?)?;
        Some(number.to_string())
    }
}

impl<T> Word<T> {
    fn is_switch(&self) -> bool {
        let mut words = self.words.iter();
        words.all(|(word, _)| ["on", "off"].contains(word))
    }
}

impl<T: PartialEq> Kind for Word<T> {
    fn default(&self) -> Option<String> {
        let mut words = self.words.iter();
        let word = words.find(|(_, meaning)| *meaning == self.default);
        word.map(|(word, _)| (*word).to_owned())
    }

    /// Returns the words: `a`, `b` or `c`.
    fn allowed(&self) -> String {
        let words = self.words.iter().map(|(word, _)| format!("`{word}`"));
        let words: Vec<String> = words.collect();
        match words.split_last() {
            Some((last, others)) if !others.is_empty() => {
                format!("{} or {last}", others.join(", "))
            }
            _ => words.concat(),
        }
    }

    fn allowed_in_file(&self) -> String {
        match self.is_switch() {
            true => "`true` or `false`".to_owned(),
            false => self.allowed(),
        }
    }

    fn schema(&self) -> Value {
        let default = self.default();
        if self.is_switch() {
            return json!({"type": "boolean", "default": default.as_deref() == Some("on")});
        }
        let words = Vec::from_iter(self.words.iter().map(|(word, _)| *word));
        json!({"enum": words, "default": default})
    }

    fn text_of(&self, value: &FileValue) -> Option<String> {
        match (value, self.is_switch()) {
            (FileValue::Boolean(on), true) => Some(if *on { "on" } else { "off" }.to_owned()),
            (value, false) => value.text().map(str::to_owned),
            (_, true) => None,
        }
    }
}

impl Kind for Text {
    fn default(&self) -> Option<String> {
        match self.unset {
            Unset::Refused => None,
            Unset::Nothing => Some(String::new()),
            Unset::Default(text) => Some(text.to_owned()),
        }
    }

    fn allowed(&self) -> String {
        self.allowed.to_owned()
    }

    fn schema(&self) -> Value {
        match self.unset {
            Unset::Refused | Unset::Nothing => json!({"type": "string"}),
            Unset::Default(text) => json!({"type": "string", "default": text}),
        }
    }

    fn text_of(&self, value: &FileValue) -> Option<String> {
        value.text().map(str::to_owned)
    }
}

impl Kind for List {
    fn default(&self) -> Option<String> {
        self.0.default()
    }

    fn allowed(&self) -> String {
        self.0.allowed()
    }

    fn allowed_in_file(&self) -> String {
        format!("an array of tables, {}", self.0.allowed)
    }

    fn schema(&self) -> Value {
        json!({"anyOf": [{"type": "array", "items": {"type": "object"}}, self.0.schema()]})
    }

    fn text_of(&self, value: &FileValue) -> Option<String> {
        if let FileValue::List(list) = value {
            return Some(list.to_string());
        }
        self.0.text_of(value)
    }
}

impl<K: Kind> Declared for Variable<K> {
    fn description(&self) -> Description {
        Description {
            name: self.name,
            key: self.key,
            default: self.value.default(),
            allowed: self.value.allowed(),
            allowed_in_file: self.value.allowed_in_file(),
            schema: self.value.schema(),
            meaning: self.meaning,
        }
    }

    fn text_of(&self, value: &FileValue) -> Option<String> {
        self.value.text_of(value)
    }
}

/// The name, as errors show it.
impl<K> fmt::Display for Variable<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}
