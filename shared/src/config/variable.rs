//! How a variable is declared: once, with its name, what it may be, its default, and what it is for.
//!
//! A function's `Config::read` hands each declaration to the [`Reader`](super::Reader), which checks the value against it
//! and keeps the declaration: `docs/configuration.md` is generated from what was kept, so it lists what is read.

use std::fmt;

/// A variable of the environment whose value is a `K`: [`Number`], [`Word`] or [`Text`].
#[derive(Clone, Copy, Debug)]
pub struct Variable<K> {
    /// The variable's name.
    pub name: &'static str,
    /// Where it stands in `docs/configuration.md`.
    pub topic: Topic,
    /// What it may be, and its default.
    pub value: K,
    /// What it is for, in one or two sentences.
    pub meaning: &'static str,
}

/// A whole number within bounds.
#[derive(Clone, Copy, Debug)]
pub struct Number<T> {
    /// What is counted.
    pub unit: &'static str,
    /// The number where the variable is not set.
    pub default: T,
    /// The smallest number that is accepted.
    pub min: T,
    /// The largest number that is accepted.
    pub max: T,
}

/// One of some words.
#[derive(Clone, Copy, Debug)]
pub struct Word<T: 'static> {
    /// What holds where the variable is not set: what one of the words stands for.
    pub default: T,
    /// The words, each with what it stands for.
    pub words: &'static [(&'static str, T)],
}

/// A text that its reader parses.
#[derive(Clone, Copy, Debug)]
pub struct Text {
    /// What holds where the variable is not set.
    pub unset: Unset,
    /// What the text may be; with "expected" before it, part of an error.
    pub allowed: &'static str,
}

/// What holds where a variable is not set, or empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unset {
    /// The function does not start.
    Refused,
    /// Nothing is chosen.
    Nothing,
    /// The same as if the variable had this value.
    Default(&'static str),
}

/// What a variable is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Topic {
    /// Which tables and queues the function works with.
    Resources,
    /// What an event is, and what becomes of one that cannot be processed.
    Events,
    /// How batches are filled, and when they start.
    Batches,
    /// How requests are made, and when an invocation stops making them.
    Requests,
    /// Where batches go, and what they look like there.
    Sink,
    /// What a sink's other end asks for.
    SinkAccess,
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
            Topic::SinkAccess => "Secrets and databases",
        }
    }
}

/// A declaration in words, of whatever kind the variable is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Description {
    /// The variable's name.
    pub name: &'static str,
    /// What it is about.
    pub topic: Topic,
    /// What holds where it is not set: [`None`] for a variable that must be set, an empty text for nothing.
    pub default: Option<String>,
    /// What it may be, with the unit.
    pub allowed: String,
    /// What it is for.
    pub meaning: &'static str,
}

/// A variable of any kind.
pub trait Declared {
    /// Returns the declaration in words.
    fn description(&self) -> Description;
}

/// What is said of a kind of values.
pub trait Kind {
    /// Returns the default as a value of the variable; [`None`] if it must be set, an empty text if nothing is chosen.
    fn default(&self) -> Option<String>;
    /// Returns what is accepted; an error says the same after "expected".
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
