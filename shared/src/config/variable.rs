//! The declaration of a variable: its name, its allowed values, its default and its meaning, in one place.
//!
//! A function's `Config::read` passes each declaration to the [`Reader`](super::Reader), which checks the value and
//! keeps the declaration. `docs/configuration.md` is generated from the kept declarations, so it lists exactly the
//! variables that are read.

use std::fmt;

/// A variable of the environment whose value is a `K`: [`Number`], [`Word`] or [`Text`].
#[derive(Clone, Copy, Debug)]
pub struct Variable<K> {
    pub name: &'static str,
    /// Its section of `docs/configuration.md`.
    pub topic: Topic,
    /// The allowed values, and the default.
    pub value: K,
    /// What the variable is for, in one or two sentences.
    pub meaning: &'static str,
}

/// A whole number within bounds.
#[derive(Clone, Copy, Debug)]
pub struct Number<T> {
    pub unit: &'static str,
    /// The number if the variable is not set.
    pub default: T,
    pub min: T,
    pub max: T,
}

/// One of several words.
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
    /// What happens if the variable is not set.
    pub unset: Unset,
    /// The allowed texts, in words. Errors say it after "expected".
    pub allowed: &'static str,
}

/// What happens if a variable is not set, or empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unset {
    /// The function does not start.
    Refused,
    /// The variable has no value.
    Nothing,
    /// The variable has this value.
    Default(&'static str),
}

/// The sections of `docs/configuration.md`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Topic {
    /// The tables and queues of the function.
    Resources,
    /// How the event id is found, and what happens to messages that cannot be processed.
    Events,
    /// How batches are filled, and when they start.
    Batches,
    /// How requests are sent, and when an invocation stops sending them.
    Requests,
    /// Where parts go, and in which form.
    Sink,
    /// How records are laid out in a file: encoding, header and trailer, names.
    Layout,
    /// Access to the sink: secrets and databases.
    SinkAccess,
    /// What is logged.
    Logs,
}

impl Topic {
    /// Returns the topic as a heading.
    pub const fn title(self) -> &'static str {
        match self {
            Topic::Resources => "Tables and queues",
            Topic::Events => "Events",
            Topic::Batches => "Batches",
            Topic::Requests => "Requests and time",
            Topic::Sink => "Sink",
            Topic::Layout => "Layout",
            Topic::SinkAccess => "Secrets and databases",
            Topic::Logs => "Logs",
        }
    }
}

/// A declaration in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Description {
    pub name: &'static str,
    pub topic: Topic,
    /// The default: [`None`] for a variable that must be set, an empty text for one that has no value by default.
    pub default: Option<String>,
    /// The allowed values, with the unit.
    pub allowed: String,
    pub meaning: &'static str,
}

/// A variable of any kind.
pub trait Declared {
    /// Returns the declaration in words.
    fn description(&self) -> Description;
}

/// A kind of values, described in words.
pub trait Kind {
    /// Returns the default as a text; [`None`] if the variable must be set, an empty text if it has no value by
    /// default.
    fn default(&self) -> Option<String>;
    /// Returns the allowed values in words. Errors say the same after "expected".
    fn allowed(&self) -> String;
}

impl<T: fmt::Display> Kind for Number<T> {
    fn default(&self) -> Option<String> {
        Some(self.default.to_string())
    }

    fn allowed(&self) -> String {
        let Number { unit, min, max, .. } = self;
        format!("a whole number of {unit} from {min} to {max}")
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
}

impl<K: Kind> Declared for Variable<K> {
    fn description(&self) -> Description {
        Description {
            name: self.name,
            topic: self.topic,
            default: self.value.default(),
            allowed: self.value.allowed(),
            meaning: self.meaning,
        }
    }
}

/// The name, as errors show it.
impl<K> fmt::Display for Variable<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}
